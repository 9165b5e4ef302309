"""``part_sum`` and ``set_aside``: sums for each step of one iterator, and sums that are copied to where they were."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft.ir.interpret import interpret
from weft.ir.printer import print_kernel
from weft.ir.verify import verify

#: Of one group alone, too: partial results have no dimension for it.
SHARED = (
    "def f(float(H,S,T) Z, float(H,S) Q) -> (K) { K(g,t) +=! Z(g*3+r,s,t) * Q(g*3+r,s) where g in 0:H/3, r in 0:3 }"
)


@pytest.mark.parametrize(("heads", "shape"), [(6, "[2, 3, 5]"), (3, "[3, 5]")])
def test_sums_of_each_head_then_of_all(heads: int, shape: str) -> None:
    s = weft.schedule(weft.define(SHARED), (heads, 4, 5), (heads, 4), numerics="fast")
    original = s.kernel
    made, part = s.part_sum("K", "vr", 0 if heads == 3 else 1)
    copy, aside = s.set_aside(made)
    verify(s.kernel)
    text = print_kernel(s.kernel)
    assert f"alloc {part}: float32{shape}" in text
    assert f"alloc {aside}: float32{shape}" in text
    assert f"block {copy}(" in text
    rng = np.random.default_rng(0)
    args = [rng.integers(-4, 5, n).astype(np.float32) for n in ((heads, 4, 5), (heads, 4))]
    got, want = (np.zeros((heads // 3, 5), np.float32) for _ in range(2))
    interpret(s.kernel, [*args, got])
    interpret(original, [*args, want])
    np.testing.assert_array_equal(got, want)


def test_blocks_that_walk_groups_keep_their_iterators() -> None:
    s = weft.schedule(weft.define(SHARED), (6, 4, 5), (6, 4), numerics="fast")
    s.split_axis("Z", 0, 3)
    text = print_kernel(s.kernel)
    assert "Z[vg, vr, vs, vt]" in text
    assert "Q[vg, vr, vs]" in text
    verify(s.kernel)
