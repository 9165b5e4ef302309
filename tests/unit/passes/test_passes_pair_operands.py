"""Running maxima and sums of numbers in registers: numbers are combined in pairs first."""

from __future__ import annotations

import numpy as np
import pytest

from weft.ir.interpret import interpret
from weft.ir.parser import parse_kernel
from weft.ir.printer import print_kernel
from weft.passes.registers.pair_operands import pair_operands

TEXT = """kernel k(A: float32[8, 6], out O: float32[8]) {
  block b in 0:1 { thread s in 0:8 {
    alloc M: float32[2] in local
    alloc X: float32[6] in local
    call products_wait(0)
    unroll i in 0:2 { M[i] = 0.5 }
    unroll i in 0:6 { X[i] = A[s, i] }
    unroll i in 0:3 { unroll j in 0:2 { UPDATE } }
    O[s] = M[0] + M[1]
  } } }"""


@pytest.mark.parametrize(
    ("update", "paired"),
    [
        ("M[0] = max(M[0], X[i * 2 + j])", "max(M[0], max(X[i * 2], X[i * 2 + 1]))"),
        ("M[0] = min(X[i * 2 + j], M[0])", "min(M[0], min(X[i * 2], X[i * 2 + 1]))"),
        ("M[0] = M[0] + X[i * 2 + j] * 2.0", "M[0] + (X[i * 2] * 2.0 + X[i * 2 + 1] * 2.0)"),
        ("M[j] = max(M[j], X[i * 2 + j])", None),
        ("M[0] = M[0] - X[i * 2 + j]", None),
        ("M[0] = M[0] + X[i]", None),
        ("M[0] = M[0] + M[1] * X[i * 2 + j]", None),
    ],
)
def test_pairs(update: str, paired: str | None) -> None:
    kernel = parse_kernel(TEXT.replace("UPDATE", update))
    changed = pair_operands(kernel)
    text = print_kernel(changed)
    assert (paired in text) if paired is not None else text == print_kernel(kernel)
    outs = [np.zeros(8, np.float32) for _ in range(2)]
    given = np.random.default_rng(0).normal(size=(8, 6)).astype(np.float32)
    for one, out in zip((kernel, changed), outs):
        interpret(one, [given, out])
    np.testing.assert_allclose(outs[0], outs[1], rtol=1e-5)
