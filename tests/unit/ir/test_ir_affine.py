"""Affine forms, and the canonical order of sums."""

from __future__ import annotations

import pytest

from weft.ir import dtype as dt
from weft.ir.affine import Linear, affine_form, linear_form
from weft.ir.buffer import Buffer
from weft.ir.expr import Binary, Cast, Const, Expr, Load, Var, idx
from weft.ir.interval import Interval
from weft.ir.printer import print_expr
from weft.ir.solve import Form

i, j, n = Var("i"), Var("j"), Var("n")
TABLE = Buffer("T", dt.int64, (idx(4),))


@pytest.mark.parametrize(
    ("e", "form"),
    [
        (idx(5), {"": 5}),
        (i, {"i": 1}),
        (i * 4 - (i - j) + 3, {"i": 3, "j": 1, "": 3}),
        (-(2 * i) + i * 2, {}),
        (idx(3) * (i + 1) * idx(2), {"i": 6, "": 6}),
    ],
)
def test_affine_functions_have_a_form(e: Expr, form: Form) -> None:
    assert affine_form(e) == form


@pytest.mark.parametrize(
    "e",
    [
        i * j,
        i // 2,
        i % 2,
        Load(TABLE, (i,)),
        Cast(dt.int64, Var("a", dt.int32)),
        Var("a", dt.int32),
        Binary("min", i, j),
    ],
)
def test_other_functions_have_none(e: Expr) -> None:
    assert affine_form(e) is None


def test_sums_are_written_largest_multiple_first_and_the_constant_last() -> None:
    assert print_expr(linear_form(3 + j - 2 * n + 8 * i).expr(dt.int64)) == "i * 8 + j - n * 2 + 3"
    assert print_expr(linear_form(5 - i).expr(dt.int64)) == "5 - i"
    assert print_expr(linear_form(-i - 5).expr(dt.int64)) == "-i - 5"
    assert print_expr(Linear().expr(dt.int64)) == "0"


def test_coefficients_wrap_to_the_type() -> None:
    u = Var("u", dt.uint8)
    assert print_expr(Linear({u: 257}, 510).wrapped(dt.uint8).expr(dt.uint8)) == "u - 2_u8"
    assert Linear({u: 256}, 0).wrapped(dt.uint8) == Linear({}, 0)
    a = Var("a", dt.int8)
    assert Linear({a: -128}, -128).expr(dt.int8) == Binary(
        "+", Binary("*", a, Const(-128, dt.int8)), Const(-128, dt.int8)
    )


def test_bounds_of_a_sum_see_cancellation() -> None:
    assert linear_form(i + j - i).bounds({"i": Interval(0, 7), "j": Interval(1, 2)}) == Interval(1, 2)
