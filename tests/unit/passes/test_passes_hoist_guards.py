"""Where tests go: out of loops, into bounds, or nowhere."""

from __future__ import annotations

import numpy as np
import pytest

from weft.ir.interpret import interpret
from weft.ir.parser import parse_kernel
from weft.ir.printer import print_kernel
from weft.passes.guards.hoist_guards import hoist_guards


def hoisted(body: str, params: str = "N: int64, A: int32[64], out C: int32[64]") -> str:
    """The text of the kernel after the pass, which computes what it computed before."""
    kernel = parse_kernel(f"kernel k({params}) {{ {body} }}")
    after = hoist_guards(kernel)
    for n in (0, 1, 5, 8, 60, 64):
        a = np.arange(64, dtype=np.int32) % 7
        want, got = np.zeros(64, np.int32), np.zeros(64, np.int32)
        interpret(kernel, [n, a, want])
        interpret(after, [n, a, got])
        np.testing.assert_array_equal(got, want)
    return " ".join(print_kernel(after).split())


def test_a_test_of_the_variable_becomes_a_bound() -> None:
    assert "for i in 0:min(N, 64) { C[i] = A[i] }" in hoisted("for i in 0:64 { if i < N { C[i] = A[i] } }")


def test_lower_bounds_and_both_at_once() -> None:
    text = hoisted("for i in 0:64 { if i >= 3 && i + 2 <= N { C[i] = A[i] } }")
    assert "for i in 3:min(N - 1, 64) { C[i] = A[i] }" in text


def test_a_test_passes_through_loops_that_do_not_change_it() -> None:
    text = hoisted("for o in 0:8 { unroll i in 0:2 { vector j in 0:4 { if o < N { C[o * 8 + i * 4 + j] = 1_i32 } } } }")
    assert "for o in 0:min(N, 8) { unroll i in 0:2 { vector j in 0:4 { C[" in text


@pytest.mark.parametrize(
    "body",
    [
        "vector i in 0:64 { if i < N { C[i] = 1_i32 } }",
        "unroll i in 0:64 { if i < N { C[i] = 1_i32 } }",
        "for i in 0:64 { if i * 2 < N { C[i] = 1_i32 } }",
        "for i in 0:64 { if i == N { C[i] = 1_i32 } }",
        "for i in 0:64 { if A[i] > 3_i32 { C[i] = 1_i32 } }",
        "for i in 0:64 { if i < N { C[i] = 1_i32 } else { C[i] = 2_i32 } }",
        "for i in 0:64 { if A[3] > 2_i32 { if i < N { C[i] = 1_i32 } } }",
        "let x: int64 = N { for i in 0:64 { if i < x { C[i] = 1_i32  x = x - 1 } } }",
        "alloc T: int32[64] in register { for i in 0:64 { if i < N { T[i] = 1_i32  C[i] = T[i] } } }",
    ],
)
def test_tests_that_stay(body: str) -> None:
    kernel = parse_kernel(f"kernel k(N: int64, A: int32[64], out C: int32[64]) {{ {body} }}")
    assert hoist_guards(kernel) == kernel
    hoisted(body)
