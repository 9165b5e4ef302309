"""Reductions in expressions, against the interpreter."""

from __future__ import annotations

import numpy as np
import pytest

from weft.ir.expr import Reduce
from weft.ir.interpret import interpret
from weft.ir.parser import parse_kernel
from weft.ir.verify import verify
from weft.ir.visit import walk
from weft.passes.plain.lower_reduce import lower_reduce


@pytest.mark.parametrize(
    "body",
    [
        "for i in 0:5 { C[i] = reduce(+; j in 0:7; A[i, j]) * 2.0 }",
        "for i in 0:5 { C[i] = reduce(max; j in 0:7; reduce(+; k in 0:j; A[i, k])) }",
        "for i in 0:5 { C[i] = i < 3 ? reduce(+; j in 0:7; A[i + 2, j]) : reduce(min; j in 0:7; A[i, j]) }",
        "for i in 0:5 { C[i] = i < 2 && reduce(+; j in 0:7; A[i + 3, j]) > 1.0 ? 1.0 : 0.0 }",
        "for i in 0:5 { C[i] = reduce(*; j in 3:2; A[i, j]) + reduce(*; j in 0:7, k in 0:2; A[i, j]) }",
        "for i in 0:reduce(+; j in 0:2; 2_i64) { C[i] = 1.0 } C[4] = 5.0",
        "for i in 0:5 { C[i] = 0.0 while reduce(+; j in 0:3; C[i]) < 9.0 { C[i] = C[i] + 1.5 } }",
    ],
)
def test_reductions_become_loops(body: str) -> None:
    kernel = parse_kernel(f"kernel f(A: float32[5, 7], out C: float32[5]) {{ {body} }}")
    after = lower_reduce(kernel)
    verify(after)
    assert not any(isinstance(n, Reduce) for n in walk(after))
    a = np.random.default_rng(0).random((5, 7), np.float32)
    want, got = np.zeros(5, np.float32), np.zeros(5, np.float32)
    interpret(kernel, [a, want])
    interpret(after, [a, got])
    np.testing.assert_array_equal(got, want)
