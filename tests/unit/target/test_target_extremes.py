"""Minima and maxima of floats under strict numerics: NaN wins, -0 is less than 0, whatever the order and the target."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from cuda_on_host import HostRunner, needs_compiler
from run_compiled import MACHINES, Runner, needs_c_compiler

from weft.ir.dtype import SCALAR_TYPES
from weft.ir.interpret import interpret
from weft.ir.numpy_dtypes import to_numpy
from weft.ir.parser import parse_kernel
from weft.ir.stmt import Kernel

VALUES = (0.0, -0.0, 1.5, -1.5, np.inf, -np.inf, np.nan, 6e-8)
#: Pairs, pairs with numbers in the text, a number over all, updates that have no order; i runs over lanes or threads.
BODY = """
  Y[0, i] = OP(A[i], B[i])
  Y[1, i] = OP(A[i], 0.0)
  Y[2, i] = OP(A[i], -0.0)
  Y[3, i] = OP(-0.0, A[i])
  Y[4, i] = OP(0.0, A[i])
  Y[5, i] = OP(A[i], 1.5)
  Y[6, i] = reduce(OP; k in 0:64; OP(A[k], B[i]))"""
TEXT = "kernel k(A: T[64], B: T[64], out Y: T[7, 64], out Z: T[1]) {{ {kind} i in 0:64 {{ {body} }} {last} }}"
TYPES = ("float32", "float64", "float16", "bfloat16")


def kernel_of(op: str, dtype: str, kind: str) -> Kernel:
    text = BODY.replace("0.0", f"{dtype}(0.0)").replace("-" + f"{dtype}(0.0)", f"{dtype}(-0.0)")
    text = text.replace("1.5", f"{dtype}(1.5)").replace("OP", op)
    return parse_kernel(TEXT.format(kind=kind, body=text, last="Z[0] = A[0]").replace("T[", f"{dtype}["))


def told(arrays: list[Any]) -> list[tuple[str, bool]]:
    """Values and signs; a NaN has none."""
    flat = np.concatenate([a.astype(np.float64).reshape(-1) for a in arrays])
    return [(str(x), bool(np.signbit(x)) and x == x) for x in flat]


def arguments(dtype: str) -> list[Any]:
    kind = to_numpy(SCALAR_TYPES[dtype])
    a, b = (np.array(side).astype(kind) for side in zip(*product(VALUES, VALUES)))
    return [a, b, np.zeros((7, 64), kind), np.zeros(1, kind)]


def reference(op: str, args: list[Any]) -> list[tuple[str, bool]]:
    """By sorting: zeros by their signs, NaN beyond all."""
    a, b = args[:2]
    zero, less, half = (np.full(64, v).astype(a.dtype) for v in (0.0, -0.0, 1.5))

    def best(*sides: Any) -> Any:
        def key(x: Any) -> tuple[float, bool]:
            x = float(x)
            return (x, not np.signbit(x)) if op == "max" else (-x, bool(np.signbit(x)))

        nan = [s for s in sides if s != s]
        return nan[0] if nan else max(sides, key=key)

    sides = ((a, b), (a, zero), (a, less), (less, a), (zero, a), (a, half))
    rows = [[best(x, y) for x, y in zip(left, right)] for left, right in sides]
    return told([*map(np.array, rows), np.array([best(*a, y) for y in b]), a[:1]])


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("op", ["min", "max"])
def test_interpreter_and_processors(op: str, dtype: str) -> None:
    args = arguments(dtype)
    right = reference(op, args)
    for kind in ("for", "vector"):
        kernel = kernel_of(op, dtype, kind)
        interpreted = [a.copy() for a in args]
        interpret(kernel, interpreted)
        assert told(interpreted[2:]) == right
        for machine in MACHINES:
            given = [a.copy() for a in args]
            assert Runner(kernel, machine)(*given) == 0
            assert told(given[2:]) == right, machine.name


@needs_c_compiler
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("op", ["min", "max"])
def test_c(op: str, dtype: str) -> None:
    args = arguments(dtype)
    given = [a.copy() for a in args]
    assert Runner(kernel_of(op, dtype, "for"), target="c")(*given) == 0
    assert told(given[2:]) == reference(op, args)


@needs_compiler
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("op", ["min", "max"])
def test_cuda_before_there_was_an_instruction(op: str, dtype: str) -> None:
    args = arguments(dtype)
    given = [a.copy() for a in args]
    assert HostRunner(kernel_of(op, dtype, "thread"), fast=False, aligned=16)(*given) == 0
    assert told(given[2:]) == reference(op, args)
