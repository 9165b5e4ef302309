"""Say what schedule is chosen for a program, why, and what bounds its speed.

weft explain mm.weft --size M=64 --size N=64 --size K=32
weft explain mm.weft --arg A=a.npy --arg B=b.npy --target cuda
"""

from __future__ import annotations

import argparse

from weft.cli.inputs import add_file, add_inputs, make_arguments, read_operator
from weft.target import TARGETS


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_file(parser)
    add_inputs(parser)
    parser.add_argument("--target", choices=tuple(TARGETS), help="what for (default: this CPU)")


def main(options: argparse.Namespace) -> int:
    op = read_operator(options)
    print(op.explain(*make_arguments(op.interface, options), target=options.target))
    return 0
