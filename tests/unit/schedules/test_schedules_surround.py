"""Copies with zeros around them: reads outside a buffer need no test, and results stay the same to the bit."""

from __future__ import annotations

import pytest
from schedule_kernels import assert_unchanged, floats, kernel_of, schedule_of

from weft.ir.errors import ScheduleError
from weft.ir.printer import print_kernel
from weft.schedules.find import find_alloc, find_block
from weft.schedules.schedule import replay

CONV = """
def conv(float(C,H,W) I, float(F,C,K,K) Kernel) -> (O) {
    O(f,h,w) +=! I(c,2*h + kh - 1,w + kw - 1) * Kernel(f,c,kh,kw) where h in 0:H/2, w in 0:W, I outside zero
}"""
CAUSAL = """
def causal(float(T) X, float(2) K) -> (O) {
    O(t) = X(t) * K(0) + X(t - 3) * K(1) where X outside zero
}"""
PARTLY = "def partly(float(N) X) -> (O) { O(i) = (i >= 1 && i < 3 ? X(i - 1) : 0.0) where i in 0:N }"
EDGE = "def edge(float(N) X) -> (O) { O(i) = X(i - 1) + X(i + 1) where i in 0:N, X outside edge }"


def shape_of(s: object, name: str) -> list[int]:
    return [int(e.value) for e in find_alloc(s.kernel, name).buffer.shape]  # type: ignore[attr-defined]


def test_a_strided_window() -> None:
    sizes = {"C": 2, "H": 6, "W": 5, "F": 3, "K": 3}
    s = schedule_of(CONV, **sizes)
    block, buffer = s.surround("I")
    assert (block.name, buffer.name) == ("I_around_load", "I_around")
    assert shape_of(s, "I_around") == [2, 7, 7]
    assert "?" not in print_kernel(s.kernel).partition("block O(")[2], "the nest still tests"
    original = kernel_of(CONV, **sizes)
    assert_unchanged(s, original, floats(2, 6, 5), floats(3, 2, 3, 3))
    assert replay(original, s.trace) == s.kernel


def test_inside_a_loop_only_what_an_iteration_reads() -> None:
    sizes = {"C": 2, "H": 6, "W": 5, "F": 3, "K": 3}
    s = schedule_of(CONV, **sizes)
    f, h, *_ = s.loops("O")
    s.surround("I", at=h)
    assert shape_of(s, "I_around") == [2, 3, 7]
    s.parallel(f)
    assert_unchanged(s, kernel_of(CONV, **sizes), floats(2, 6, 5), floats(3, 2, 3, 3))


def test_reads_inside_go_to_the_same_copy() -> None:
    s = schedule_of(CAUSAL, T=7)
    s.surround("X")
    assert shape_of(s, "X_around") == [10]
    assert [r.buffer.name for r in find_block(s.kernel, "O").reads] == ["K", "K", "X_around", "X_around"]
    assert_unchanged(s, kernel_of(CAUSAL, T=7), floats(7), floats(2))


def test_conditions_that_say_more_stay() -> None:
    s = schedule_of(PARTLY, N=6)
    with pytest.raises(ScheduleError, match="no read of `X` gives zero outside of it"):
        s.surround("X")


def test_other_boundaries_are_not_zero() -> None:
    s = schedule_of(EDGE, N=6)
    with pytest.raises(ScheduleError, match="no read of `X` gives zero outside of it"):
        s.surround("X")


@pytest.mark.parametrize("mode", ["edge", "wrap", "reflect"])
def test_borders_that_continue_the_tensor(mode: str) -> None:
    text, sizes = CONV.replace("outside zero", f"outside {mode}"), {"C": 2, "H": 6, "W": 5, "F": 3, "K": 3}
    s = schedule_of(text, **sizes)
    s.surround("I")
    assert shape_of(s, "I_around") == [2, 7, 7]
    nest = print_kernel(s.kernel).partition("block O(")[2]
    assert not any(word in nest for word in ("max(", "min(", "%")), "the nest still asks where the borders are"
    original = kernel_of(text, **sizes)
    assert_unchanged(s, original, floats(2, 6, 5), floats(3, 2, 3, 3))
    assert replay(original, s.trace) == s.kernel


def test_a_circulant_matrix() -> None:
    text = "def turn(float(N) C, float(N) X) -> (Y) { Y(i) +=! C((i - j) % N) * X(j) where i in 0:N }"
    s = schedule_of(text, N=6)
    s.surround("C")
    assert shape_of(s, "C_around") == [11]
    assert_unchanged(s, kernel_of(text, N=6), floats(6), floats(6))


def test_borders_of_two_kinds_have_no_copy_in_common() -> None:
    s = schedule_of("def two(float(N) X) -> (O) { O(i) = X((i + 2) % N) + X(min(i, 3)) where i in 0:N }", N=6)
    with pytest.raises(ScheduleError, match="no read of `X` gives zero outside of it"):
        s.surround("X")


def test_readers_that_are_not_named_keep_their_tests() -> None:
    text = """
def two(float(N) A) -> (B, C) {
    B(i) = A(i - 1) + 1 where i in 0:N, A outside zero
    C(i) = A(i - 1) * 2 where i in 0:N, A outside zero
}"""
    s = schedule_of(text, N=6)
    s.surround("A", readers=["C"])
    assert_unchanged(s, kernel_of(text, N=6), floats(6))
