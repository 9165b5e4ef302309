"""What is added to all elements of a tile: to their extremum, and taken off exponents."""

from __future__ import annotations

import numpy as np
import pytest

from weft.ir.interpret import interpret
from weft.ir.parser import parse_kernel
from weft.ir.printer import print_kernel
from weft.passes.registers.hoist_addends import hoist_addends

TEXT = """kernel k(P: float32[4, 8], F: float32[1], out W: float32[4, 8], out N: float32[4]) {
  for t in 0:4 {
    alloc X: float32[8] in register
    unroll i in 0:8 { X[i] = VALUE }
    alloc M: float32[1] in register
    unroll r in 0:1 { M[r] = -inf }
    unroll j in 0:8 { M[0] = max(M[0], X[j]) }
    unroll l in 0:8 { W[t, l] = exp(X[l] - M[0]) }
    N[t] = LAST
  } }"""


def texts(value: str, last: str = "M[0]") -> str:
    return TEXT.replace("VALUE", value).replace("LAST", last)


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        ("P[t, i] * 0.5 + (float32(t * 8) + float32(i)) * 0.25", "P[t, i] * 0.5 + float32(i) * 0.25"),
        ("P[t, i] - float32(t) * F[0]", "P[t, i]"),
        ("i < t + 2 ? P[t, i] + float32(t) : -inf", "i < t + 2 ? P[t, i] : -inf"),
    ],
)
def test_addends_are_hoisted(value: str, stored: str) -> None:
    kernel = parse_kernel(texts(value))
    made = hoist_addends(kernel)
    assert f"X[i] = {stored}" in print_kernel(made)
    given = [np.random.default_rng(0).normal(size=(4, 8)).astype(np.float32), np.full(1, 0.3, np.float32)]
    results = [[np.zeros((4, 8), np.float32), np.zeros(4, np.float32)] for _ in range(2)]
    for each, out in zip((kernel, made), results):
        interpret(each, [*given, *out])
    for got, want in zip(*results):
        np.testing.assert_allclose(got, want, rtol=1e-5)


@pytest.mark.parametrize(
    ("value", "last"),
    [("P[t, i] + float32(t)", "X[0]"), ("P[t, i] + float32(i)", "M[0]"), ("P[t, i] * float32(t)", "M[0]")],
)
def test_others_stay(value: str, last: str) -> None:
    """Elements that something else reads, addends that change, and what is no sum."""
    kernel = parse_kernel(texts(value, last))
    assert hoist_addends(kernel) == kernel
