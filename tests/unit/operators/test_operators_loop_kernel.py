"""Loop programs as callables, on the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from weft.ir.errors import ArgumentError, Error, ShapeError

TWICE = """kernel twice(X: float32[n, 4], out Y: float32[n, 4], n: int64, a: float32) {
  parallel i in 0:n { for j in 0:4 { Y[i, j] = X[i, j] * a } }
}"""
COLUMNS = "kernel columns(X: float32[4] strides [3], out Y: float32[4]) { for i in 0:4 { Y[i] = X[i] } }"
BLOCKS = """kernel reverse(X: float32[128], out Y: float32[128]) {
  block b in 0:2 {
    alloc S: float32[64] in shared {
      thread t in 0:64 {
        S[t] = X[b * 64 + t]
        barrier(block)
        Y[127 - b * 64 - t] = S[t]
      }
    }
  }
}"""


def test_calls_write_in_place() -> None:
    twice = weft.kernel(TWICE)
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    y = np.zeros_like(x)
    assert twice(x, y, 3, 2.0) is None
    np.testing.assert_array_equal(y, 2 * x)
    twice(x, y, n=3, a=-1)
    np.testing.assert_array_equal(y, -x)
    assert "twice(float32(n,4) X" in repr(twice)


def test_torch_tensors() -> None:
    torch = pytest.importorskip("torch")
    x, y = torch.ones(3, 4), torch.zeros(3, 4)
    weft.kernel(TWICE)(x, y, 3, 2.0)
    assert bool((y == 2).all())


def test_blocks_and_threads_run_on_the_cpu() -> None:
    x, y = np.arange(128, dtype=np.float32), np.zeros(128, np.float32)
    weft.kernel(BLOCKS)(x, y)
    np.testing.assert_array_equal(y, x[::-1])


def test_stages() -> None:
    twice = weft.kernel(TWICE)
    assert twice.show() == twice.show("loops")
    assert twice.show().startswith("kernel twice(")
    assert "define i32 @twice" in twice.show("llvm")
    assert "__global__" in twice.show("cuda")
    assert ".entry twice" in twice.show("ptx")
    with pytest.raises(ArgumentError, match="no stage `tensor`"):
        twice.show("tensor")
    with pytest.raises(ArgumentError, match="there is no stage `frob`"):
        twice.show("frob")
    with pytest.raises(ArgumentError, match="stage `llvm` is not one of a cuda program"):
        twice.show("llvm", target="cuda")


X = np.zeros((3, 4), np.float32)
WRONG: dict[str, tuple[Any, type[Error], str]] = {
    "shape": (
        lambda k: k(X, X.copy(), 4, 1.0),
        ShapeError,
        "argument `X` must have the shape (4, 4), not (3, 4)",
    ),
    "rank": (lambda k: k(X[0], X.copy(), 3, 1.0), ShapeError, "argument `X` must have 2 dimensions, not 1"),
    "dtype": (lambda k: k(X.astype(float), X, 3, 1.0), ArgumentError, "argument `X` must be float32, not float64"),
    "count": (lambda k: k(X, X.copy(), 3), ArgumentError, "twice misses `a`"),
    "overlap": (lambda k: k(X, X, 3, 1.0), ArgumentError, "`X` and `Y` overlap in memory"),
    "strides": (
        lambda k: k(np.zeros((4, 3), np.float32).T, X, 3, 1.0),
        ArgumentError,
        "argument `X` must have the strides (4, 1), not (1, 3)",
    ),
    "name": (lambda k: k(X, X.copy(), 3, b=1.0), ArgumentError, "twice has no parameter `b`"),
    "number": (lambda k: k(X, X.copy(), 3.5, 1.0), ArgumentError, "argument `n` must be int64, not 3.5"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_calls_are_told(case: str) -> None:
    call, kind, what = WRONG[case]
    with pytest.raises(kind) as caught:
        call(weft.kernel(TWICE))
    assert caught.value.what == what


def test_declared_strides() -> None:
    columns, base, y = weft.kernel(COLUMNS), np.arange(12, dtype=np.float32), np.zeros(4, np.float32)
    columns(base[::3], y)
    np.testing.assert_array_equal(y, [0, 3, 6, 9])
    with pytest.raises(ArgumentError, match="must have the strides"):
        columns(base[:4], y)


def test_what_is_no_program() -> None:
    with pytest.raises(ArgumentError, match="not int"):
        weft.kernel(3)  # type: ignore[arg-type]
    with pytest.raises(Error):
        weft.kernel("kernel f(")
    with pytest.raises(ArgumentError, match="numerics"):
        weft.kernel(TWICE, numerics="slow")  # type: ignore[arg-type]
