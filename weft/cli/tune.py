"""Measure other schedules of a program for some sizes, and keep the fastest: calls use it from then on.

weft tune mm.weft --size M=1024 --size N=1024 --size K=512 --seconds 60
weft tune mm.weft --arg A=a.npy --arg B=b.npy --strategy random --seed 7
"""

from __future__ import annotations

import argparse

from weft.cli.inputs import add_file, add_inputs, make_arguments, make_outputs, read_operator
from weft.tune.strategies import STRATEGIES
from weft.tune.tune import tune_operator


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_file(parser)
    add_inputs(parser)
    parser.add_argument("--seconds", type=float, default=30.0, help="of wall time (default 30)")
    parser.add_argument("--strategy", default="evolution", help=f"one of {', '.join(STRATEGIES)} (default evolution)")


def main(options: argparse.Namespace) -> int:
    op = read_operator(options)
    arguments = make_arguments(op.interface, options)
    out = make_outputs(op, options, arguments)
    print(tune_operator(op, arguments, seconds=options.seconds, strategy=options.strategy, seed=options.seed, out=out))
    return 0
