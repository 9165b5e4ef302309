"""Divisions by what stays the same become products; others stay divisions."""

from __future__ import annotations

import numpy as np
import pytest

from weft.ir.interpret import interpret
from weft.ir.parser import parse_kernel
from weft.ir.printer import print_kernel
from weft.ir.verify import verify
from weft.passes.plain.multiply_reciprocals import multiply_reciprocals

KERNEL = """
kernel k(A: float32[4, 8], S: float32[4], out B: float32[4, 8]) {{
  for m in 0:4 {{ for n in 0:8 {{ {body} }} }}
}}"""


def after(body: str) -> str:
    """The text of the program after the pass, whose results are the same up to rounding."""
    kernel = parse_kernel(KERNEL.format(body=body))
    made = multiply_reciprocals(kernel)
    verify(made)
    rng = np.random.default_rng(0)
    a, s = rng.random((4, 8), np.float32) + 1, rng.random(4, np.float32) + 1
    results = [np.ones((4, 8), np.float32) for _ in range(2)]
    for k, out in zip((kernel, made), results):
        interpret(k, [a, s, out])
    np.testing.assert_allclose(results[1], results[0], rtol=1e-6)
    return print_kernel(made)


def test_a_constant_is_inverted_at_once() -> None:
    text = after("B[m, n] = A[m, n] / 3.0")
    assert "/" not in text
    assert "A[m, n] * 0.3333333" in text


def test_a_steady_divisor_is_inverted_before_its_loop() -> None:
    text = after("B[m, n] = A[m, n] / S[m]")
    assert text.index("for m") < text.index("let inverse: float32 = 1.0 / S[m]") < text.index("for n")
    assert "B[m, n] = A[m, n] * inverse" in text


def test_before_all_loops_where_it_never_changes() -> None:
    text = after("B[m, n] = A[m, n] / S[2] + 1.0 / S[2]")
    assert text.index("let inverse") < text.index("for m")
    assert text.count("/") == 1


@pytest.mark.parametrize(
    "body",
    [
        "B[m, n] = A[m, n] / A[m, n]",
        "B[m, n] = B[m, n] / B[m, 0]",
        "if S[m] > 1.5 { B[m, n] = A[m, n] / S[m] }",
        "B[m, n] = S[m] > 1.5 ? A[m, n] / S[m] : 0.0",
        "B[m, n] = A[m, n] / 0.0",
    ],
    ids=["changes", "is written", "under a test", "in a choice", "zero"],
)
def test_other_divisions_stay(body: str) -> None:
    kernel = parse_kernel(KERNEL.format(body=body))
    assert multiply_reciprocals(kernel) == kernel
