"""Factors of sums: multiplied in another order (`regroup`), or taken out of blocks of a depth (`unscale`); and what
stands in the way of that moved (`swap`)."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft.ir.interpret import interpret
from weft.ir.printer import print_kernel
from weft.operators.schedule import OperatorSchedule

SCALED = """def f(float(M,K) X, float(N,K) W, float(M,G) p, float(N,G) q) -> (float(M,N) S) {
    S(m,n) +=! X(m,k) * W(n,k) * p(m,k/4) * q(n,k/4) }"""


def start() -> OperatorSchedule:
    return weft.schedule(weft.define(SCALED), numerics="fast", X=(3, 12), W=(5, 12), p=(3, 3), q=(5, 3))


def check(s: OperatorSchedule) -> None:
    """Against float64; small whole numbers, so that no order of operations rounds."""
    rng = np.random.default_rng(0)
    x, w, p, q = (rng.integers(-3, 4, n).astype(np.float32) for n in ((3, 12), (5, 12), (3, 3), (5, 3)))
    got = np.full((3, 5), np.nan, np.float32)
    interpret(s.kernel, [x, w, p, q, got])
    np.testing.assert_array_equal(got, (x * p.repeat(4, 1)) @ (w * q.repeat(4, 1)).T)


def test_factors_of_each_matrix_are_multiplied_first() -> None:
    s = start()
    for side in (("vm", "vk"), ("vn", "vk")):
        s.regroup("S", *side)
        check(s)
    for side in (("vm", "vk"), ("vn", "vk")):
        s.precompute("S", *side)
    check(s)
    assert "S[vm, vn] + S_part[vm, vk] * S_part_1[vn, vk]" in print_kernel(s.kernel)


@pytest.mark.parametrize("steps", [4, 2])
def test_factors_of_a_block_are_taken_out_of_its_sum(steps: int) -> None:
    """Those of 4 steps also where blocks have 2."""
    s = start()
    blocks, inner = s.split("k", steps)
    s.reorder(blocks, "m", "n", inner)
    product, _ = s.rfactor(blocks, axis=2, start="inside")
    s.unscale(product)
    check(s)
    (line,) = (x for x in print_kernel(s.kernel).splitlines() if "= S_part[" in x)
    assert "p[" not in line
    assert "q[" not in line


def test_storage_that_begins_with_the_second_statement_is_no_obstacle() -> None:
    text = """def f(float(M,K) A, float(M,N) q) -> (float(M,N) C) {
        P(m) +=! A(m,k)
        C(m,n) = P(m) * q(m,n) }"""
    s = weft.schedule(weft.define(text), numerics="fast", A=(4, 6), q=(4, 3))
    copy, _ = s.pack("q", "j i", readers=["C"])
    s.swap("P", str(copy))
    assert print_kernel(s.kernel).index("block q_pack_load") < print_kernel(s.kernel).index("block P")
    a, q, got = np.arange(24, dtype=np.float32).reshape(4, 6), np.ones((4, 3), np.float32), np.zeros((4, 3), np.float32)
    interpret(s.kernel, [a, q, got])
    np.testing.assert_array_equal(got, a.sum(1, keepdims=True) * q)
