"""Temporaries with zeros around them: no copy, no test, and results the same to the bit."""

from __future__ import annotations

import pytest
from schedule_kernels import assert_unchanged, floats, kernel_of, schedule_of

from weft.ir.errors import ScheduleError
from weft.ir.printer import print_kernel
from weft.schedules.find import find_alloc
from weft.schedules.schedule import replay

WINDOW = """
def window(float(H,W) X, float(3,3) K) -> (O) {
    T(h,w) = X(h,w) * X(h,w)
    O(h,w) +=! T(2*h + i - 1,w + j - 1) * K(i,j) where h in 0:H/2, w in 0:W, T outside zero
}"""
EDGE = """
def edge(float(N) X) -> (O) {
    T(i) = X(i) + 1.0
    O(i) = T(i - 1) + T(i + 1) where i in 0:N, T outside edge
}"""


def shape_of(s: object, name: str) -> list[int]:
    return [int(e.value) for e in find_alloc(s.kernel, name).buffer.shape]  # type: ignore[attr-defined]


def test_who_computes_elements_puts_them_in_their_places() -> None:
    s = schedule_of(WINDOW, H=6, W=5)
    blocks = s.surround_storage("T")
    assert [b.name for b in blocks] == ["T_zero", "T_zero_1", "T_zero_2"], "nothing is read below the last row"
    assert shape_of(s, "T") == [7, 7]
    assert "?" not in print_kernel(s.kernel).partition("block O(")[2], "the nest still tests"
    original = kernel_of(WINDOW, H=6, W=5)
    assert_unchanged(s, original, floats(6, 5), floats(3, 3))
    assert replay(original, s.trace) == s.kernel


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_in_a_loop_each_iteration_has_its_own(rows: int) -> None:
    """Strips of rows: only the first has zeros above it."""
    s = schedule_of(WINDOW, H=8, W=5)
    h, *_ = s.loops("O")
    outer, _ = s.split(h, rows)
    s.compute_at("T", outer)
    s.surround_storage("T")
    s.parallel(outer)
    assert_unchanged(s, kernel_of(WINDOW, H=8, W=5), floats(8, 5), floats(3, 3))


def test_moves_after_it_go_on() -> None:
    s = schedule_of(WINDOW, H=8, W=5)
    s.surround_storage("T")
    s.compute_at("T", s.loops("O")[0])
    assert_unchanged(s, kernel_of(WINDOW, H=8, W=5), floats(8, 5), floats(3, 3))


def test_what_goes_on_at_its_edges_is_not_zero() -> None:
    s = schedule_of(EDGE, N=6)
    with pytest.raises(ScheduleError, match="no read of `T` gives zero outside of it"):
        s.surround_storage("T")


def test_parameters_lie_where_the_caller_has_them() -> None:
    s = schedule_of(WINDOW, H=6, W=5)
    with pytest.raises(ScheduleError):
        s.surround_storage("X")


def test_symbolic_sizes_are_refused() -> None:
    with pytest.raises(ScheduleError):
        schedule_of(WINDOW).surround_storage("T")
