"""Print a program at one stage of its compilation.

weft show mm.weft --stage tensor
weft show mm.weft --stage asm --size M=64 --size N=64 --size K=32
weft show mm.weft --stage loops --target cuda --size M=64 --size N=64 --size K=32
"""

from __future__ import annotations

import argparse

from weft.cli.inputs import add_file, add_inputs, make_arguments, read_operator
from weft.operators.stages import STAGES
from weft.target import TARGETS


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_file(parser)
    add_inputs(parser)
    parser.add_argument("--stage", choices=STAGES, default="loops", help="which stage (default loops)")
    parser.add_argument("--target", choices=tuple(TARGETS), help="what for; the stage says where it is of one alone")


def main(options: argparse.Namespace) -> int:
    op = read_operator(options)
    symbolic = not options.arg and not options.size and options.stage in ("tensor", "loops")
    arguments = [] if symbolic else make_arguments(op.interface, options)
    print(op.show(options.stage, *arguments, target=options.target))
    return 0
