"""Compile a program or an ONNX model and run it on arrays from files or on random ones.

weft run mm.weft --arg A=a.npy --arg B=b.npy --save C=c.npy
weft run mm.weft --size M=64 --size N=64 --size K=32
weft run model.onnx --arg x=x.npy --save y=y.npy                              # a whole model
weft run step.weft --arg X=x.npy --arg State=old.npy --save State=new.npy    # an output that is read
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np

from weft.cli.inputs import (
    add_file,
    add_inputs,
    format_seconds,
    make_arguments,
    make_outputs,
    read_operator,
    read_pairs,
)
from weft.cli.models import is_model, run_model
from weft.ir.errors import ArgumentError
from weft.operators.operator import Operator

#: Calls after the first, of which the quickest is told: in the second, the entry for such calls is still made.
_CALLS = 5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_file(parser, models=True)
    add_inputs(parser)
    parser.add_argument(
        "--save", action="append", default=[], metavar="NAME=FILE", help="write an output to a .npy file"
    )


def main(options: argparse.Namespace) -> int:
    saved = read_pairs(options.save, "--save")
    if is_model(options.file):
        return _report(run_model(options, saved), saved)
    op = read_operator(options)
    names = [o.name for o in op.interface.outputs]
    for name in saved:
        if name not in names:
            raise ArgumentError(f"{op.interface.name} has no output `{name}`", why=f"it is {op.interface}")
    arguments = make_arguments(op.interface, options)
    outputs = make_outputs(op, options, arguments)
    spare = None if outputs is None else tuple(o.copy() for o in outputs)  # a second call must not add to the first
    start = time.perf_counter()
    result = op(*arguments, out=outputs)
    first = time.perf_counter() - start
    again = min(_seconds(op, arguments, spare) for _ in range(_CALLS))
    _report(list(zip(names, result if isinstance(result, tuple) else (result,))), saved)
    print(f"first call {format_seconds(first)} (with compilation), then {format_seconds(again)}")
    return 0


def _report(results: list[tuple[str, Any]], saved: dict[str, str]) -> int:
    for name, value in results:
        print(describe_result(name, value))
        if name in saved:
            save(Path(saved[name]), value)
    return 0


def _seconds(op: Operator, arguments: list[Any], outputs: tuple[Any, ...] | None) -> float:
    start = time.perf_counter()
    op(*arguments, out=outputs)
    return time.perf_counter() - start


def save(path: Path, value: np.ndarray[Any, Any]) -> None:
    """As numpy writes it, which keeps of bfloat16 the bytes alone."""
    try:
        np.save(path, value)
    except OSError as error:
        raise ArgumentError(f"cannot write {path}", why=error.strerror or str(error)) from None


def describe_result(name: str, value: np.ndarray[Any, Any]) -> str:
    head = f"{name}: {value.dtype}{list(value.shape)}"
    if value.size == 0:
        return f"{head} (empty)"
    with np.printoptions(threshold=6, edgeitems=3, precision=5):
        values = str(value.reshape(-1))
    return f"{head} {values}"
