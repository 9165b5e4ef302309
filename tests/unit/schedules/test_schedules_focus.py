"""Steps on one nest by itself give the program, the names and the trace that they give on the whole."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from schedule_kernels import MATMUL, assert_unchanged, floats, schedule_of

from weft.ir.errors import ScheduleError
from weft.ir.printer import print_kernel
from weft.schedules.schedule import Schedule

#: A loop beside has the name that splitting the other one would give first.
BESIDE = "def beside(float(N) X) -> (Z) { Y(i_o) = X(i_o) * 2\n Z(i) = Y(i) + 1 }"


def cut_and_bind(s: Schedule, block: str) -> None:
    outer, inner = s.split(s.loops(block)[-1], 4)
    _, last = s.split(inner, 2)
    s.bind(outer, "block")
    s.bind(last, "thread")


@pytest.mark.parametrize("size", [16, 13])
def test_what_comes_out_is_the_same(size: int) -> None:
    whole, focused = (schedule_of(BESIDE, N=size) for _ in range(2))
    start = focused.kernel
    cut_and_bind(whole, "Z")
    with focused.focus("Z"):
        assert print_kernel(focused.kernel).count("for ") < print_kernel(start).count("for ")
        cut_and_bind(focused, "Z")
    assert "i_o_1" in str(focused)
    assert (print_kernel(focused.kernel), focused.trace) == (print_kernel(whole.kernel), whole.trace)
    assert_unchanged(focused, start, floats(size))
    assert focused.loops("Z") == whole.loops("Z")


def inside_loops() -> Schedule:
    """A reduction whose start stands beside it, in the loops over results."""
    s = schedule_of(MATMUL, M=8, N=8, K=8)
    s.decompose_reduction("C", at=s.loops("C")[2])
    return s


def in_focus(s: Schedule, *steps: Callable[[], object]) -> None:
    with s.focus("C"):
        for step in steps:
            step()


def test_loops_around_are_seen_and_not_changed() -> None:
    s = inside_loops()
    before, trace = s.kernel, s.trace
    with pytest.raises(ScheduleError) as found:
        in_focus(s, lambda: s.split("k", 4), lambda: s.parallel("m"))
    assert found.value.what == "a step on a nest alone changed what is around it"
    assert "outside `s.focus`" in (found.value.help or "")
    assert s.kernel is before
    assert s.trace == trace


@pytest.mark.parametrize("refused", [lambda s: s.parallel("k"), lambda s: s.split("k", 0)])
def test_a_refusal_takes_back_all(refused: Callable[[Schedule], object]) -> None:
    s = inside_loops()
    before = s.kernel
    with pytest.raises(ScheduleError):
        in_focus(s, lambda: s.unroll("k"), lambda: refused(s))
    assert s.kernel is before
    assert s.loop("k") in s.loops("C")


def test_nothing_happens_without_steps_or_neighbours() -> None:
    s = inside_loops()
    before = s.kernel
    with s.focus("C"):
        assert [str(x) for x in s.loops("C")] == ["m", "n", "k"]
    assert s.kernel is before
    alone = schedule_of("def one(float(N) X) -> (Y) { Y(i) = X(i) * 2 }", N=8)
    with alone.focus("Y"):
        alone.split("i", 4)
    assert len(alone.trace) == 1
