"""``subdivide`` and ``run_as``: several splits, or kinds of loops, in one step give what they give one by one."""

from __future__ import annotations

import pytest
from schedule_kernels import MATMUL, SCAN, assert_unchanged, floats, kernel_of, schedule_of

from weft.ir.errors import ScheduleError
from weft.ir.printer import print_kernel
from weft.ir.stmt import LoopKind
from weft.schedules.schedule import Schedule

#: What a loop of 48 iterations is cut by: even, with tiles that do not come out, longer than the loop, and by one.
FACTORS = [(8,), (16, 4), (24, 8, 2), (10, 4), (16, 6, 3), (64, 8), (48, 1)]


@pytest.mark.parametrize("factors", FACTORS)
def test_digits_are_those_of_splits(factors: tuple[int, ...]) -> None:
    kernel = kernel_of(MATMUL, M=48, N=3, K=5)
    at_once, one_by_one = Schedule(kernel), Schedule(kernel)
    made = [str(x) for x in at_once.subdivide("m", *factors)]
    digits, loop = list[str](), "m"
    for factor in factors:
        outer, loop = map(str, one_by_one.split(loop, factor))
        digits.append(outer)
    assert made == [*digits, loop]
    assert print_kernel(at_once.kernel) == print_kernel(one_by_one.kernel)
    assert_unchanged(at_once, kernel, floats(48, 5), floats(5, 3))
    twin = Schedule(kernel)
    twin.apply(str(at_once.trace))
    assert print_kernel(twin.kernel) == print_kernel(at_once.kernel)


def test_digits_of_a_symbolic_size() -> None:
    s = schedule_of(MATMUL)
    one_by_one = schedule_of(MATMUL)
    s.subdivide("m", 16, 4)
    one_by_one.split(one_by_one.split("m", 16)[1], 4)
    assert print_kernel(s.kernel) == print_kernel(one_by_one.kernel)


def test_what_became_of_a_subdivided_loop() -> None:
    s = schedule_of(MATMUL, M=48, N=3, K=5)
    s.subdivide("m", 16, 4)
    with pytest.raises(ScheduleError, match="was split into m_o, m_i_o and m_i_i"):
        s.unroll("m")


@pytest.mark.parametrize("factors", [(), (0,), (8, -1), (8, 2.5)])
def test_factors_that_are_none(factors: tuple[int, ...]) -> None:
    s = schedule_of(MATMUL, M=48, N=3, K=5)
    with pytest.raises(ScheduleError, match="cannot subdivide loop `m`"):
        s.subdivide("m", *factors)


@pytest.mark.parametrize(("kind", "loops"), [("thread", ("n", "m")), ("unroll", ("m", "k")), ("parallel", ("m",))])
def test_kinds_are_those_of_single_steps(kind: LoopKind, loops: tuple[str, ...]) -> None:
    kernel = kernel_of(MATMUL, M=6, N=4, K=3)
    s = Schedule(kernel)
    s.run_as(kind, *loops)
    one_by_one = Schedule(kernel)
    for loop in loops:
        if kind == "thread":
            one_by_one.bind(loop, "thread")
        else:
            getattr(one_by_one, kind)(loop)
    assert print_kernel(s.kernel) == print_kernel(one_by_one.kernel)
    assert_unchanged(s, kernel, floats(6, 3), floats(3, 4))


def refusal(s: Schedule, kind: LoopKind, *loops: str) -> str:
    before = s.kernel
    with pytest.raises(ScheduleError) as error:
        s.run_as(kind, *loops)
    assert s.kernel is before
    return str(error.value)


def test_each_loop_is_asked_about() -> None:
    s = schedule_of(MATMUL, M=6, N=4, K=3)
    assert "iteration" in refusal(s, "thread", "m", "n", "k"), "sums over k meet in one element"
    assert "iteration" in refusal(schedule_of(SCAN, N=8), "parallel", "i")
    assert "not a known number" in refusal(schedule_of(MATMUL), "unroll", "m")
    assert "no loop is named" in refusal(s, "thread")
    assert "no kind of loop" in refusal(s, "sideways", "m")  # type: ignore[arg-type]


def test_loops_beside_one_another_are_two_steps() -> None:
    s = schedule_of("def two(float(N) X) -> (Y, Z) { Y(i) = X(i) * 2\n Z(j) = X(j) + 1 }", N=8)
    assert "neither is inside the other" in refusal(s, "thread", "i", "j")


def test_digits_of_fused_subscripts_are_told_apart() -> None:
    """Loops that quotients and remainders take apart of a fused one, of which each is asked about by itself."""
    s = schedule_of("def copy(float(A,B) X) -> (Y) { Y(a,b) = X(a,b) }", A=6, B=8)
    fused = s.fuse("a", "b")
    s.run_as("thread", *s.subdivide(fused, 12, 4))
    assert str(s).count("thread") == 3
