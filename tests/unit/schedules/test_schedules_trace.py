"""Traces print, read back, replay on other sizes, and compose."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from schedule_kernels import CHAIN, MATMUL, assert_unchanged, floats, kernel_of, schedule_of

import weft
from weft.ir.errors import ScheduleError
from weft.schedules.schedule import Schedule
from weft.schedules.trace import Step, Trace, parse_trace


def tiled(s: Schedule) -> Schedule:
    m, n, k = s.loops("C")
    mo, no, mi, ni = s.tile(m, n, 4, 8)
    s.reorder(mo, no, k, mi, ni)
    s.vectorize(ni, 4)
    s.unroll(mi)
    s.parallel(mo)
    return s


TEXT = """\
numerics = "strict"
m_o, n_o, m_i, n_i = tile("m", "n", 4, 8, tail="guard")
reorder("m_o", "n_o", "k", "m_i", "n_i")
n_i_o, n_i_i = vectorize("n_i", 4, tail="guard")
unroll("m_i")
parallel("m_o")
"""


def test_a_trace_prints_one_call_a_line_and_reads_back() -> None:
    s = tiled(schedule_of(MATMUL, M=8, N=16, K=4))
    assert str(s.trace) == TEXT
    assert parse_trace(TEXT) == s.trace


def test_names_may_stand_without_quotes() -> None:
    assert parse_trace("a, b = split(m, 4)\nparallel(a)").steps == (
        Step("split", ("m", 4), (), ("a", "b")),
        Step("parallel", ("a",)),
    )


def test_arguments_of_every_plain_kind_round_trip() -> None:
    step = Step("pack", ("B", (1, 2), ("x",), {"a": 1}, None, True, -1.5), (("by", 'a "b"\n\\'),), ("p",))
    assert parse_trace(str(step)).steps == (step,)


@pytest.mark.parametrize("sizes", [{"M": 8, "N": 16, "K": 4}, {"M": 7, "N": 5, "K": 3}, {"M": 1, "N": 1, "K": 1}])
def test_a_trace_replays_on_other_sizes(sizes: dict[str, int]) -> None:
    kernel = kernel_of(MATMUL, **sizes)
    s = Schedule(kernel)
    s.apply(TEXT)
    assert_unchanged(s, kernel, floats(sizes["M"], sizes["K"]), floats(sizes["K"], sizes["N"]))


def test_a_trace_made_with_symbolic_sizes_fits_numbers() -> None:
    s = tiled(schedule_of(MATMUL))
    other = schedule_of(MATMUL, M=9, N=9, K=2)
    other.apply(s.trace)
    assert str(other.trace) == str(s.trace)


def test_later_steps_follow_names_that_come_out_differently() -> None:
    s = schedule_of(MATMUL, M=8, N=8, K=8)
    s.apply('x, y = split("m", 4)\nunroll("y")\nparallel(x)')
    assert str(s.trace).splitlines()[1:] == [
        'm_o, m_i = split("m", 4, tail="guard")',
        'unroll("m_i")',
        'parallel("m_o")',
    ]


def test_traces_compose() -> None:
    first, second = parse_trace('split("m", 4)'), parse_trace('numerics = "fast"\nparallel("m_o")')
    both = first + second
    assert both == Trace((*first.steps, *second.steps), "fast")


def test_a_wrong_program_names_the_step_and_changes_nothing() -> None:
    s = schedule_of(CHAIN, N=8)
    before = s.kernel
    with pytest.raises(ScheduleError, match="step 2 of the trace does not fit kernel `chain`") as found:
        s.apply('split("i", 4)\nparallel("m")')
    assert found.value.why.startswith("there is no loop `m`")  # type: ignore[union-attr]
    assert s.kernel is before
    assert len(s.trace) == 0


def test_fast_traces_need_a_fast_schedule() -> None:
    with pytest.raises(ScheduleError, match="fast numerics"):
        schedule_of(CHAIN, N=8).apply('numerics = "fast"\nsplit("i", 4)')


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("split('m', 4", "'(' was never closed"),
        ("x = 3", "a step is a call"),
        ("split(*m)", "arguments are names"),
        ("split(m + 1)", "arguments are names"),
        ("s.split(m)", "a step is a call"),
        ("numerics = 'loose'", "numerics are strict or fast or winograd or tf32"),
    ],
)
def test_what_is_not_a_trace_is_refused(text: str, why: str) -> None:
    with pytest.raises(ScheduleError) as found:
        parse_trace(text)
    assert why in (found.value.why or "")
    assert found.value.span is not None


def test_unknown_primitives_and_wrong_arguments_are_refused() -> None:
    s = schedule_of(CHAIN, N=8)
    with pytest.raises(ScheduleError, match="there is no primitive `splt`") as found:
        s.apply('splt("i", 4)')
    assert "did you mean `split`?" in str(found.value)
    with pytest.raises(ScheduleError, match="does not take these arguments"):
        s.apply('split("i", 4, 5, 6, 7)')
    with pytest.raises(ScheduleError, match="there is no primitive `copy`"):
        s.apply("copy()")


def test_an_operator_replays_its_schedule_for_every_signature() -> None:
    op = weft.define(MATMUL, schedule="naive")
    s = weft.schedule(op, A=(8, 4), B=(4, 16))
    tiled(s)
    mm = s.build()
    for m, k, n in ((8, 4, 16), (7, 5, 3), (33, 10, 18)):
        a, b = floats(m, k), floats(k, n)
        np.testing.assert_array_equal(mm(a, b), op(a, b))
    assert "parallel m_o" in mm.show("loops", floats(8, 4), floats(4, 16))


def test_scheduling_a_scheduled_operator_goes_on_from_there() -> None:
    op = weft.define(CHAIN)
    s = weft.schedule(op)
    s.split("i", 4)
    again = weft.schedule(s.build(), X=(16,))
    assert [loop.name for loop in again.loops("Y")] == ["i_o", "i_i"]


def test_the_arguments_of_schedule_are_checked() -> None:
    op = weft.define(MATMUL)
    with pytest.raises(weft.ArgumentError, match="the shape of `B` is missing"):
        weft.schedule(op, A=(8, 4))
    with pytest.raises(weft.ArgumentError, match="`Q` does not fit mm"):
        weft.schedule(op, Q=(8, 4))
    with pytest.raises(weft.ShapeError):
        weft.schedule(op, A=(8, 4), B=(5, 4))
    with pytest.raises(weft.ArgumentError, match="schedule takes an operator"):
        weft.schedule("matmul")  # type: ignore[arg-type]
    with pytest.raises(ScheduleError, match="numerics='loose' is not known"):
        weft.schedule(op, numerics="loose")  # type: ignore[arg-type]


def refused_attempt(s: Schedule, *steps: Callable[[], object]) -> ScheduleError:
    with pytest.raises(ScheduleError) as found, s.attempt():
        _ = [step() for step in steps]
    return found.value


def test_an_attempt_is_taken_back_as_a_whole() -> None:
    s = schedule_of(MATMUL, M=8, N=8, K=8)
    before, m = s.kernel, s.loops("C")[0]
    error = refused_attempt(s, lambda: s.split(m, 4), lambda: s.parallel("k"))
    assert s.kernel is before
    assert (len(s.trace), s.loop(m)) == (0, m)
    assert (error.what, bool(error.why), error.notes) == ("cannot run loop `k` in parallel", True, ())
    with s.attempt():
        s.parallel(m)
    assert len(s.trace) == 1
    with pytest.raises(ScheduleError) as found:
        s.parallel("k")
    assert found.value.notes  # outside an attempt refusals offer what would be legal


def test_a_schedule_just_built_is_not_checked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []
    run = Schedule.run

    def counted(self: Schedule, *args: Any, **kwargs: Any) -> Any:
        steps.append(args[0].__name__)
        return run(self, *args, **kwargs)

    monkeypatch.setattr(Schedule, "run", counted)
    monkeypatch.setenv("WEFT_CACHE", "off")
    s = weft.schedule(weft.ops.matmul, A=(12, 8), B=(8, 16))
    s.vectorize(s.loops("C")[1], 8)
    op, made = s.build(), len(steps)
    a, b = floats(12, 8), floats(8, 16)
    np.testing.assert_allclose(op(a, b), a @ b, rtol=1e-5, atol=1e-5)
    assert len(steps) == made
    np.testing.assert_allclose(op(a[:5], b), a[:5] @ b, rtol=1e-5, atol=1e-5)
    assert len(steps) > made  # another program: each step is checked there
