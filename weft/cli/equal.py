"""Whether two formulas are equal: a proof, or where they differ.

weft equal a.weft b.weft
weft equal a.weft b.weft --size S=2
"""

from __future__ import annotations

import argparse

from weft.cli.inputs import read_source


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from pathlib import Path

    parser.add_argument("first", type=Path, help="a formula in the whiteboard language (the last definition counts)")
    parser.add_argument("second", type=Path, help="another")
    parser.add_argument("--size", action="append", default=[], metavar="NAME=VALUE", help="a size of the first one")
    parser.add_argument("--seconds", type=float, default=2.0, help="what isl may take for a question")


def main(options: argparse.Namespace) -> int:
    """0 where they are equal, 1 where they are not or it is not decided."""
    from weft.ir.errors import ArgumentError
    from weft.operators.equal import equal

    sizes = {}
    for text in options.size:
        name, _, value = text.partition("=")
        if not name or not value.lstrip("-").isdigit():
            raise ArgumentError(f"--size takes NAME=VALUE, not `{text}`")
        sizes[name] = int(value)
    answer = equal(read_source(options.first), read_source(options.second), sizes=sizes, seconds=options.seconds)
    print(answer)
    return 0 if answer else 1
