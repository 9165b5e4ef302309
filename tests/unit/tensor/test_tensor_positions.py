"""`argmin=!` and `argmax=!` over nothing is an error, as in numpy, wherever sizes are known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from weft.ir.errors import LanguageError, ShapeError
from weft.lang.parse import parse_programs
from weft.tensor.evaluate import evaluate

ROWS = "def f(float(M,N) X) -> (Y) { Y(i) argmax=! X(i,j) }"


@pytest.mark.parametrize(
    "options", [{}, {"schedule": "naive"}, {"target": "c"}, {"dynamic": ["N"]}, {"dynamic": ["M"]}]
)
def test_a_call_over_nothing_is_refused(options: dict[str, Any]) -> None:
    op = weft.define(ROWS, **options)
    np.testing.assert_array_equal(op(np.float32([[1, 3, 2]])), [1])
    assert op(np.zeros((0, 3), np.float32)).shape == (0,)
    with pytest.raises(ShapeError, match="`Y argmax=!` over nothing: `j` has no elements to run over"):
        op(np.zeros((2, 0), np.float32))


def test_the_evaluator_refuses_it_too() -> None:
    program = next(iter(parse_programs(ROWS).values()))
    with pytest.raises(ShapeError, match="over nothing"):
        evaluate(program, [np.zeros((2, 0), np.float32)])


def test_so_do_programs_in_python() -> None:
    (n,) = weft.sizes("n")
    x, k = weft.placeholder("x", (n,)), weft.reduce_axis(n, "k")
    op = weft.operator([x], [weft.compute((1,), lambda i: weft.argmin(x[k], over=k), name="y")])
    with pytest.raises(ShapeError, match="over nothing"):
        op(np.zeros(0, np.float32))


@pytest.mark.parametrize("where", ["i in 1:N, j in 0:i", "i in 0:N, j in i:N", "i in 0:N, j in max(0,i-1):min(N,i+2)"])
def test_ranges_that_never_are_empty_are_taken(where: str) -> None:
    x = np.float32([3, 1, 4, 1, 5])
    result = weft.define(f"def f(float(N) X) -> (Y) {{ Y(i) argmin=! X(j) where {where} }}")(x)
    ranges = {"i in 1": lambda i: (0, i), "i in 0:N, j in i": lambda i: (i, 5)}
    range_of = next((r for start, r in ranges.items() if where.startswith(start)), lambda i: (max(0, i - 1), i + 2))
    rows = range(1, 5) if where.startswith("i in 1") else range(5)
    assert [int(result[i]) for i in rows] == [range_of(i)[0] + int(np.argmin(x[slice(*range_of(i))])) for i in rows]


def test_a_range_that_may_be_empty_is_refused() -> None:
    with pytest.raises(LanguageError, match="`j` runs over 0:i, which may be empty"):
        weft.define("def f(float(N) X) -> (Y) { Y(i) argmin=! X(j) where i in 0:N, j in 0:i }")
