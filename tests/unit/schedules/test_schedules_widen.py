"""Triangles made rectangles: the same instances run, so results are the same to the bit."""

from __future__ import annotations

import pytest
from schedule_kernels import assert_unchanged, floats, kernel_of, schedule_of

from weft.ir.errors import ScheduleError

TRIANGLE = "def triangle(float(S,S) P, float(S,E) V) -> (float(S,E) Y) { Y(s,e) +=! P(s,t) * V(t,e) where t in 0:s+1 }"


def test_a_triangle_becomes_a_rectangle_that_can_be_tiled() -> None:
    s = schedule_of(TRIANGLE, S=9, E=4)
    row, column, t = s.loops("Y")
    s.widen(t, row)
    so, si = s.split(row, 4)
    s.reorder(so, t, si, column)
    assert_unchanged(s, kernel_of(TRIANGLE, S=9, E=4), floats(9, 9), floats(9, 4))


def test_symbolic_sizes() -> None:
    s = schedule_of(TRIANGLE)
    row, _, t = s.loops("Y")
    s.widen(t, row)
    assert "0:S" in str(s)


@pytest.mark.parametrize(
    ("loop", "outer", "why"),
    [("s", "t", "`t` is not around `s`"), ("t", "e", "the range of `t` does not depend on `e`")],
)
def test_refusals(loop: str, outer: str, why: str) -> None:
    with pytest.raises(ScheduleError) as error:
        schedule_of(TRIANGLE).widen(loop, outer)
    assert why in str(error.value)
