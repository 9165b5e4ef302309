"""Programs that the tests of call errors call wrongly, and a right call of each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from weft.ir.errors import Error

MM = """def mm(float(M,K) A, float(K,N) B) -> (C) {
  C(m,n) +=! A(m,k) * B(k,n)
}"""
TWO = """def two(float(N) X) -> (Y, Z) {
  Y(i) = X(i)
  Z(i) = X(i) + 1
}"""
LOOKUP = """def lookup(float(E,D) T, int(N) I) -> (O) {
  O(i,d) = T(I(i),d)
}"""
SCATTER = """def scatter(float(N) X, int64(N) I, float(M) Z) -> (float(M) O) {
  O(I(i)) +=! X(i)
}"""
LATE = """def late(float(E) T, float(N) X) -> (O) {
  J(i) = int(X(i)) * 2
  O(i) = T(J(i))
}"""
SCALED = """def scaled(float(N) X, float a, int n, bool b) -> (Y) {
  Y(i) = b ? X(i) * a + float(n) : 0.0
}"""
STRIDED = """def strided(float(N) X, int S) -> (Y) {
  Y(i) = X(S*i)
}"""
CARRIED = """def carried(float(N) X) -> (float(N) S) {
  S(i) = S(i) * 0.5 + X(i)
}"""
EIGHT = """def eight(float(N) X) -> (Y) {
  Y(i) = X(i) where i in 0:8
}"""

a = np.ones((4, 3), np.float32)
b = np.ones((3, 5), np.float32)
x = np.arange(6, dtype=np.float32)
table = np.arange(12, dtype=np.float32).reshape(4, 3)

#: name of a case -> (program, wrong call, class, message)
Cases = dict[str, tuple[str, Callable[[weft.Operator], Any], type[Error], str]]

#: A right call of each program, and its result.
GOOD: dict[str, tuple[Callable[[weft.Operator], Any], Any]] = {
    MM: (lambda mm: mm(a, b), np.full((4, 5), 3)),
    TWO: (lambda two: two(x)[1], x + 1),
    LOOKUP: (lambda lookup: lookup(table, np.int32([3, 0])), table[[3, 0]]),
    SCATTER: (lambda scatter: scatter(x, np.arange(6), x), x),
    LATE: (lambda late: late(x, np.float32([0, 2])), x[[0, 4]]),
    SCALED: (lambda scaled: scaled(x, 2, 1, True), 2 * x + 1),
    STRIDED: (lambda strided: strided(x, 2), x[::2]),
    CARRIED: (lambda carried: carried(x, out=np.zeros(6, np.float32)), x),
    EIGHT: (lambda eight: eight(np.ones(9, np.float32)), np.ones(8)),
}


def check_case(program: str, wrong: Callable[[weft.Operator], Any], kind: type[Error], message: str) -> None:
    """The wrong call gets the message, before and after fast calls are in place, and right calls go on working."""
    op = weft.define(program)
    right, expected = GOOD[program]
    for _ in range(4):
        with pytest.raises(Error) as caught:
            wrong(op)
        assert str(caught.value) == message
        assert type(caught.value) is kind
        assert caught.value.__cause__ is None
        np.testing.assert_array_equal(right(op), expected)
