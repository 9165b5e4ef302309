"""Time every kernel of an ONNX model, on arrays from files or on random ones.

weft profile model.onnx --arg x=x.npy
weft profile model.onnx --size n=8 --save trace.json     # for chrome://tracing or ui.perfetto.dev
"""

from __future__ import annotations

import argparse
from pathlib import Path

from weft.cli.inputs import add_inputs
from weft.cli.models import is_model, read_model
from weft.graph.profile import RUNS, profile
from weft.ir.errors import ArgumentError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, help="an ONNX model (*.onnx)")
    parser.set_defaults(entry=None)
    add_inputs(parser)
    parser.add_argument("--runs", type=int, default=RUNS, help=f"how many, of which medians are told (default {RUNS})")
    parser.add_argument("--save", type=Path, metavar="FILE", help="write a trace of the last run")


def main(options: argparse.Namespace) -> int:
    if not is_model(options.file):
        raise ArgumentError(
            f"{options.file} is no ONNX model",
            why="a program is one kernel, which has no steps to be told apart",
            help="weft run times a program, and weft explain says what bounds it",
        )
    net, arrays = read_model(options)
    told = profile(net, arrays, runs=options.runs)
    print(told)
    if options.save is not None:
        try:
            told.save(options.save)
        except OSError as error:
            raise ArgumentError(f"cannot write {options.save}", why=error.strerror or str(error)) from None
    return 0
