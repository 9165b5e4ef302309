"""Parts of formulas computed beforehand: results stay the same to the bit."""

from __future__ import annotations

import numpy as np
import pytest
from schedule_kernels import assert_unchanged, floats, kernel_of, schedule_of

from weft.ir.errors import ScheduleError
from weft.ir.printer import print_kernel
from weft.schedules.find import find_alloc, find_block
from weft.schedules.schedule import Schedule, replay

WEIGHTED = """
def weighted(float(S,T) P, float(T,E) V) -> (Total, Y) {
    Total(s) +=! exp(P(s,t))
    Y(s,e) +=! exp(P(s,t)) * V(t,e)
}"""
TRIANGLE = """
def triangle(float(S,S) P, float(S,E) V) -> (float(S,E) Y) {
    Y(s,e) +=! exp(P(s,t)) * V(t,e) where t in 0:s+1
}"""
ROWS = "def rows(float(M,N) X, float(M) S) -> (O) { O(m,n) = X(m,n) - log(S(m)) }"
CHANGED = """
def changed(float(M) S, float(M,N) X) -> (O, Q) {
    T(m) = S(m) * 2
    O(m,n) = X(m,n) * exp(T(m))
    Q(m,n) = X(m,n) + exp(T(m))
}"""


def test_the_same_part_of_neighbours_is_computed_once() -> None:
    sizes = {"S": 5, "T": 7, "E": 3}
    s = schedule_of(WEIGHTED, **sizes)
    block, buffer = s.precompute("Y", "vs", "vt")
    assert (block.name, buffer.name) == ("Y_part", "Y_part")
    assert print_kernel(s.kernel).count("exp(") == 1
    assert [int(e.value) for e in find_alloc(s.kernel, "Y_part").buffer.shape] == [5, 7]  # type: ignore[attr-defined]
    assert_unchanged(s, kernel_of(WEIGHTED, **sizes), floats(5, 7), floats(7, 3))


def test_only_nests_that_follow_its_inputs_read_it() -> None:
    s = schedule_of(CHANGED, M=4, N=6)
    s.precompute("Q", "vm")
    assert print_kernel(s.kernel).count("exp(") == 1, "the nest before reads it too"
    assert_unchanged(s, kernel_of(CHANGED, M=4, N=6), floats(4), floats(4, 6))


def test_triangular_ranges() -> None:
    s = schedule_of(TRIANGLE, S=6, E=3)
    s.precompute("Y", "vs", "vt")
    assert find_block(s.kernel, "Y_part").iters[1].hi.dtype.name == "int64"
    assert_unchanged(s, kernel_of(TRIANGLE, S=6, E=3), floats(6, 6), floats(6, 3))


def test_one_value_a_row_inside_a_loop_over_rows() -> None:
    s = schedule_of(ROWS, M=4, N=6)
    s.precompute("O", "vm")
    m, _ = s.loops("O")
    s.compute_at("O_part", m)
    assert_unchanged(s, kernel_of(ROWS, M=4, N=6), floats(4, 6), np.abs(floats(4)) + 1)


def test_symbolic_sizes_and_replay() -> None:
    s = Schedule(kernel_of(WEIGHTED))
    s.precompute("Y", "vs", "vt")
    again = Schedule(replay(kernel_of(WEIGHTED, S=5, T=7, E=3), s.trace))
    assert_unchanged(again, kernel_of(WEIGHTED, S=5, T=7, E=3), floats(5, 7), floats(7, 3))


@pytest.mark.parametrize(
    ("program", "block", "iters", "why"),
    [
        (WEIGHTED, "Y", ("vx",), "`vx` is no iterator of block `Y`"),
        (WEIGHTED, "Y", ("vs", "ve"), "no part of what `Y` computes depends on `vs`, `ve` and nothing else"),
    ],
)
def test_refusals(program: str, block: str, iters: tuple[str, ...], why: str) -> None:
    s = schedule_of(program)
    with pytest.raises(ScheduleError) as error:
        s.precompute(block, *iters)
    assert why in str(error.value)


def test_split_loops_are_refused() -> None:
    s = schedule_of(WEIGHTED, S=5, T=7, E=3)
    s.split(s.loops("Y")[0], 2)
    with pytest.raises(ScheduleError, match="does not run in a loop of its own"):
        s.precompute("Y", "vs", "vt")
