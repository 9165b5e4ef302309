"""Recurrences in registers, and sums beside reads of other elements of their buffer."""

from __future__ import annotations

import numpy as np
import pytest

from weft.ir.interpret import interpret
from weft.ir.parser import parse_kernel
from weft.ir.printer import print_stmt
from weft.ir.stmt import Kernel
from weft.ir.verify import verify
from weft.passes.registers.carry_stores import carry_stores
from weft.passes.registers.promote_registers import promote_registers


def kernel(body: str) -> Kernel:
    return parse_kernel(f"kernel f(X: float32[12], out A: float32[12], out B: float32[12], n: int64) {{ {body} }}")


def assert_same(done: Kernel, original: Kernel, n: int = 7) -> None:
    verify(done)
    rng = np.random.default_rng(0)
    values = [rng.standard_normal(12).astype(np.float32) for _ in range(3)]
    got, want = [v.copy() for v in values], [v.copy() for v in values]
    interpret(done, [*got, n])
    interpret(original, [*want, n])
    for a, b in zip(got, want):
        np.testing.assert_array_equal(a, b)


def test_the_last_value_is_handed_on() -> None:
    original = kernel("for i in 1:12 { A[i] = A[i - 1] * 0.5 + X[i] }")
    done = carry_stores(original)
    assert print_stmt(done.body).splitlines() == [
        "let A_before: float32 = A[0]",
        "for i in 1:12 {",
        "  A_before = A_before * 0.5 + X[i]",
        "  A[i] = A_before",
        "}",
    ]
    assert_same(done, original)


@pytest.mark.parametrize("n", [0, 1, 2, 7])
@pytest.mark.parametrize(
    "body",
    [
        "for i in 1:n { A[i] = A[i - 1] * 0.5 + A[i + 1] }",
        "for i in 1:n { B[i] = A[i - 1]  A[i] = A[i - 1] + X[i] }",
        "for i in 1:n { A[i] = A[i - 1] + X[i]  B[i] = X[i] }",
    ],
)
def test_values_stay(body: str, n: int) -> None:
    original = kernel(body)
    done = carry_stores(original)
    assert done != original
    assert_same(done, original, n)


@pytest.mark.parametrize(
    "body",
    [
        "for i in 2:12 { A[i] = A[i - 2] }",  # two iterations ago
        "for i in 1:12 { A[i] = X[i] > 0.0 ? A[i - 1] : 1.0 }",  # not always read
        "for i in 1:12 { A[i] = A[i - 1]  B[i] = A[i - 1] }",  # read again after the store
        "for i in 1:11 { A[i] = A[i - 1]  A[i + 1] = X[i] }",  # stored by another too
        "for i in 1:12 { if X[i] > 0.0 { A[i] = A[i - 1] } }",  # not always stored
        "parallel i in 1:12 { B[i] = A[i - 1] }",
    ],
)
def test_what_is_not_handed_on(body: str) -> None:
    original = kernel(body)
    assert carry_stores(original) == original


def test_a_sum_beside_reads_of_other_elements() -> None:
    original = kernel("for i in 0:12 { for j in 0:i { A[i] = A[i] - X[j] * A[j] } }")
    done = promote_registers(original)
    assert "A_sum = A_sum - X[j] * A[j]" in print_stmt(done.body)
    assert_same(done, original)


def test_a_sum_that_reads_itself_stays_in_memory() -> None:
    original = kernel("for i in 0:12 { for j in 0:i + 1 { A[i] = A[i] - X[j] * A[j] } }")
    assert promote_registers(original) == original
