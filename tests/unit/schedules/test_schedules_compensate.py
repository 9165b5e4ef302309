"""``compensate``: signed bytes moved to unsigned ones, and what that adds taken off."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft.ir.interpret import interpret
from weft.ir.printer import print_kernel
from weft.ir.verify import verify

#: The factor moved on the right and on the left, sums that wrap, bytes that are not widened.
PRODUCTS = (
    "def f(int8(M,K) A, int8(K,N) B) -> (int32(M,N) C) { C(m,n) +=! int32(A(m,k)) * int32(B(k,n)) }",
    "def f(int8(M,K) A, int8(K,N) B) -> (int32(M,N) C) { C(m,n) +=! int32(B(k,n)) * int32(A(m,k)) }",
    "def f(int8(M,K) A, int8(K,N) B) -> (int16(M,N) C) { C(m,n) +=! int16(A(m,k)) * int16(B(k,n)) }",
    "def f(int8(M,K) A, int8(K,N) B) -> (int8(M,N) C) { C(m,n) +=! A(m,k) * B(k,n) }",
)


@pytest.mark.parametrize("text", PRODUCTS[:3])
@pytest.mark.parametrize(("m", "k", "n"), [(3, 4, 5), (1, 1, 1), (2, 7, 1)])
def test_results_are_the_same_to_the_bit(text: str, m: int, k: int, n: int) -> None:
    s = weft.schedule(weft.define(text), (m, k), (k, n), numerics="strict")
    original = s.kernel
    end, moved = s.compensate("C", "B")
    verify(s.kernel)
    printed = print_kernel(s.kernel)
    assert f"alloc {moved}: uint8[{k}, {n}]" in printed
    assert f"block {end}(" in printed
    rng = np.random.default_rng(0)
    args = [rng.integers(-128, 128, shape).astype(np.int8) for shape in ((m, k), (k, n))]
    args[1].flat[0] = -128
    got, want = (np.zeros((m, n), np.int16 if "int16" in text else np.int32) for _ in range(2))
    interpret(s.kernel, [*args, got])
    interpret(original, [*args, want])
    np.testing.assert_array_equal(got, want)


def test_bytes_as_they_are_cannot_be_moved() -> None:
    with pytest.raises(weft.ScheduleError, match="does not add up products with single elements"):
        weft.schedule(weft.define(PRODUCTS[3]), (2, 3), (3, 4), numerics="strict").compensate("C", "B")
