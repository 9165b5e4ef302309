"""Automatic schedules on a device: the operator library, and rows, columns and moves of many sizes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft
from weft.ops import library
from weft.tensor.evaluate import evaluate

sys.path.append(str(Path(__file__).parents[1] / "unit" / "ops"))  # the cases of the operator library
from test_ops_library import CASES, make_argument


def on_device(value: Any) -> Any:
    return weft.cuda.DeviceArray.from_numpy(value) if isinstance(value, np.ndarray) else value


def call(op: Any, args: list[Any]) -> list[Any]:
    found = op(*map(on_device, args))
    weft.cuda.synchronize()
    return [x.numpy() for x in (found if isinstance(found, tuple) else (found,))]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", sorted(CASES))
def test_the_library(name: str, dtype: str) -> None:
    rng = np.random.default_rng(len(name))
    args = [make_argument(spec, dtype, rng) for spec in CASES[name].args]
    expected = evaluate(library.program(name, dtype), args)
    tolerance = 3e-2 if dtype == "bfloat16" else 1e-4
    for got, want in zip(call(weft.ops.get(name, dtype), args), expected, strict=True):
        wide = [np.asarray(x).astype(np.float64) for x in (got, want)]
        np.testing.assert_allclose(*wide, rtol=tolerance, atol=tolerance)


SHAPES = [(1, 1), (3, 17), (64, 128), (257, 1000), (100, 4096), (5, 70001), (4099, 33), (2048, 8), (20000, 3)]
TEXTS = {
    "rows": ("def f(float(M,N) A) -> (O) { O(m) +=! A(m,n) }", lambda a: a.sum(1)),
    "columns": ("def f(float(M,N) A) -> (O) { O(n) +=! A(m,n) }", lambda a: a.sum(0)),
    "all": ("def f(float(M,N) A) -> (O) { O +=! A(m,n) }", lambda a: a.sum()),
    "greatest of columns": ("def f(float(M,N) A) -> (O) { O(n) max=! A(m,n) }", lambda a: a.max(0)),
    "first least": ("def f(float(M,N) A) -> (O) { O(m) argmin=! A(m,n) }", lambda a: a.argmin(1)),
    "turned": ("def f(float(M,N) A) -> (O) { O(j,i) = A(i,j) }", lambda a: a.T),
    "points": ("def f(float(M,N) A) -> (O) { O(i,j) = A(i,j) * 2 + 1 }", lambda a: a * 2 + 1),
    "softmax": (
        "def f(float(M,N) X) -> (O) { T(m) max=! X(m,n)  E(m,n) = exp(X(m,n) - T(m))  S(m) +=! E(m,n)"
        "  O(m,n) = E(m,n) / S(m) }",
        lambda a: np.exp(a - a.max(1, keepdims=True)) / np.exp(a - a.max(1, keepdims=True)).sum(1, keepdims=True),
    ),
}


@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: "x".join(map(str, s)))
@pytest.mark.parametrize("name", TEXTS)
def test_sizes(name: str, shape: tuple[int, int]) -> None:
    text, reference = TEXTS[name]
    a = np.random.default_rng(5).standard_normal(shape).astype(np.float32)
    (got,) = call(weft.define(text), [a])
    want = reference(a.astype(np.float64))
    np.testing.assert_allclose(got.astype(np.float64), want, rtol=1e-4, atol=1e-5 * max(1, a.size**0.5))
