"""Say what a program touches in memory: copies in lowered operands, misses of caches, reuse distances.

weft analyze ops.weft conv --arg X=1x64x56x56 --arg W=64x64x3x3
weft analyze mm.weft --arg A=512x512 --arg B=512x512 --sweep l2=1M:64M
weft analyze mm.weft --arg A=512x512 --arg B=512x512 --json
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Any

from weft.analysis.analyze import Analysis, analyze, machine_levels
from weft.cli.inputs import parse_size, read_array, read_operator, read_pairs
from weft.ir.errors import ArgumentError
from weft.operators.interface import Interface, Parameter
from weft.report.tables import aligned, format_size

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_NOT_READ = {".cu": "CUDA programs", ".json": "traces"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, help="a program in the whiteboard language")
    parser.add_argument("entry", nargs="?", metavar="NAME", help="which definition (default: the last)")
    parser.add_argument(
        "--arg", action="append", default=[], metavar="NAME=VALUE",
        help="the shape of a tensor (1x64x56x56), a .npy file, or a number for a scalar",
    )  # fmt: skip
    parser.add_argument("--sweep", metavar="LEVEL=LEAST:MOST", help="misses by size of a cache, such as l2=1M:64M")
    parser.add_argument("--json", action="store_true", help="as JSON")


def main(options: argparse.Namespace) -> int:
    kind = _NOT_READ.get(options.file.suffix.lower())
    if kind is not None:
        raise ArgumentError(f"{options.file} is not analyzed", why=f"{kind} are not read yet, programs in *.weft are")
    op = read_operator(options)
    found = analyze(op, *_arguments(op.interface, options))
    if options.sweep:
        print(_sweep(found, options.sweep), end="")
    else:
        print(found.json() + "\n" if options.json else found, end="")
    return 0


def _arguments(interface: Interface, options: argparse.Namespace) -> list[Any]:
    given = read_pairs(options.arg, "--arg")
    for name in given:
        if name not in [p.name for p in interface.params]:
            raise ArgumentError(f"{interface.name} has no parameter `{name}`", why=f"it is {interface}")
    missing = [p for p in interface.params if p.name not in given]
    if missing:
        flags = " ".join(f"--arg {p.name}={'x'.join('8' * len(p.dims)) or '1'}" for p in missing)
        raise ArgumentError(
            f"arguments {', '.join(p.name for p in missing)} of {interface.name} are not known",
            why=f"it is {interface}", help=f"add {flags}",
        )  # fmt: skip
    return [_argument(p, given[p.name]) for p in interface.params]


def _argument(param: Parameter, text: str) -> Any:
    if param.role != "tensor":
        if re.fullmatch(r"-?\d+", text):
            return int(text)
        try:
            return float(text)
        except ValueError:
            raise ArgumentError(f"--arg {param.name}={text} is not a number", why=f"it is {param}") from None
    if re.fullmatch(r"\d+(x\d+)*", text):
        return tuple(parse_size(param.name, n) for n in text.split("x"))
    return read_array(param.name, text)


def _sweep(found: Analysis, text: str) -> str:
    match = re.fullmatch(r"(\w+)=(\d+)([KMG]?):(\d+)([KMG]?)", text)
    if match is None:
        raise ArgumentError(f"cannot read --sweep {text}", help="write --sweep l2=1M:64M")
    level, least, unit, most, other = match.groups()
    names = [x.name for x in machine_levels()]
    if level.lower() not in [name.lower() for name in names]:
        raise ArgumentError(f"the machine has no cache `{level}`", why=f"it has {', '.join(names)}")
    sizes = found.sweep(int(least) * _UNITS[unit], int(most) * _UNITS[other])
    total = found.reuse.rate * found.reuse.accesses
    rows = [[format_size(s), str(n), f"{n / total if total else 0:.4f}"] for s, n in sizes]
    title = f"misses of a fully associative {level.upper()} by size ({found.reuse.method})"
    return "\n".join([title, *aligned([["size", "misses", "ratio"], *rows])]) + "\n"
