"""Subscripts taken apart into digits of the thread number and the rest."""

from __future__ import annotations

import pytest

from weft.ir.expr import Expr, Var, idx
from weft.ir.interval import Interval
from weft.ir.printer import print_expr
from weft.passes.analysis.thread_digits import Digit, Placed, join_digits, rest_size, split_subscript

T, C, V = Var("t"), Var("c"), Var("v")
RANGES = {"t": Interval(0, 255), "c": Interval(0, 3), "v": Interval(0, 3)}
WHOLE = {"t": Digit(1, 256)}


def test_the_digit_in_the_middle_is_the_thread() -> None:
    found = split_subscript((C * idx(1024) + T * idx(4) + V,), WHOLE, RANGES)
    assert found is not None
    assert found.placed == (Placed(0, 4, 1, 256),)
    assert print_expr(found.rest[0]) == "c * 4 + v"


def test_two_loops_side_by_side_are_one_digit() -> None:
    digits = {"y": Digit(16, 16), "x": Digit(1, 16)}
    ranges = {"y": Interval(0, 15), "x": Interval(0, 15)}
    found = split_subscript((Var("y") * idx(16) + Var("x"),), digits, ranges)
    assert found is not None
    assert found.placed == (Placed(0, 1, 1, 256),)


def test_quotients_and_remainders_of_a_thread_are_digits() -> None:
    found = split_subscript((T // idx(16) * idx(2), T % idx(16)), WHOLE, RANGES)
    assert found is not None
    assert found.placed == (Placed(0, 2, 16, 16), Placed(1, 1, 1, 16))


@pytest.mark.parametrize(
    "index",
    [
        T + C,  # neighbours share elements
        T * idx(4) + V * idx(2),  # the rest reaches into the thread's place
        idx(255) - T,
        T * idx(4) + idx(5),
        T * T,
    ],
)
def test_subscripts_of_other_forms_are_not_split(index: Expr) -> None:
    assert split_subscript((index,), WHOLE, RANGES) is None


def test_a_constant_above_moves_down() -> None:
    found = split_subscript((T * idx(4) + idx(2051),), WHOLE, RANGES)
    assert found is not None
    assert print_expr(found.rest[0]) == "11"


def test_sizes_without_the_thread() -> None:
    assert rest_size(4096, 0, [Placed(0, 4, 1, 256)]) == 16
    assert rest_size(1000, 0, [Placed(0, 4, 1, 256)]) == 4
    assert rest_size(7, 1, [Placed(0, 4, 1, 256)]) == 7


def test_neighbouring_digits_are_one() -> None:
    assert join_digits([Digit(16, 16), Digit(1, 16), Digit(7, 1)]) == (Digit(1, 256),)
    assert join_digits([Digit(32, 4), Digit(1, 16)]) == (Digit(1, 16), Digit(32, 4))
