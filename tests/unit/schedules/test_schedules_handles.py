"""Handles stay valid across rewrites, or say what became of their loop."""

from __future__ import annotations

import pytest
from schedule_kernels import CHAIN, MATMUL, schedule_of

from weft.ir.errors import ScheduleError
from weft.schedules.handles import BlockRef, BufferRef, Loop


def test_handles_survive_what_happens_to_other_loops() -> None:
    s = schedule_of(MATMUL, M=8, N=8, K=8)
    m, n, k = s.loops("C")
    mo, mi = s.split(m, 4)
    s.reorder(mo, n, mi, k)
    assert s.loops("C") == [mo, n, mi, k]
    s.parallel(n)
    assert s.loop("n") == n


@pytest.mark.parametrize(
    ("step", "fate"),
    [
        (lambda s: s.split("m", 4), "`m` was split into m_o and m_i"),
        (lambda s: s.split("m", 3, tail="separate"), "`m` was split into m_o and m_i, with m_t for the rest"),
        (lambda s: s.fuse("m", "n"), "`m` was fused into m_n"),
    ],
)
def test_a_handle_whose_loop_is_gone_says_what_became_of_it(step, fate) -> None:  # type: ignore[no-untyped-def]
    s = schedule_of(MATMUL, M=8, N=8, K=8)
    m = s.loops("C")[0]
    step(s)
    for given in (m, "m"):
        with pytest.raises(ScheduleError, match="`m` is no longer there") as found:
            s.parallel(given)
        assert found.value.why == fate


def test_a_merged_loop_says_where_it_went() -> None:
    s = schedule_of(CHAIN, N=8)
    first, second = s.loop("i"), s.loop("i_1")
    assert s.fuse_loops(first, second) == first
    with pytest.raises(ScheduleError) as found:
        s.unroll(second)
    assert found.value.why == "`i_1` was merged into i"


def test_a_reused_name_does_not_revive_an_old_handle() -> None:
    s = schedule_of(CHAIN, N=8)
    second = s.loop("i_1")
    s.fuse_loops("i", second)
    again = s.fission("i", "Y")
    assert again.name == "i_1"
    with pytest.raises(ScheduleError, match="a later step made another of that name"):
        s.parallel(second)
    s.parallel(again)


def test_blocks_buffers_and_loops_are_listed() -> None:
    s = schedule_of(CHAIN, N=8)
    assert s.blocks() == [BlockRef("Y"), BlockRef("Z")]
    assert s.buffers() == [BufferRef("X"), BufferRef("Z"), BufferRef("Y")]
    assert s.loops(BlockRef("Z")) == [Loop("i_1")]
    with pytest.raises(ScheduleError, match="there is no block `Q`"):
        s.loops("Q")
    with pytest.raises(ScheduleError, match="neither a handle nor a name"):
        s.parallel(3)  # type: ignore[arg-type]


def test_a_copy_goes_its_own_way() -> None:
    s = schedule_of(MATMUL, M=8, N=8, K=8)
    other = s.copy()
    other.split("m", 4)
    assert [loop.name for loop in s.loops("C")] == ["m", "n", "k"]
    assert len(s.trace) == 0
