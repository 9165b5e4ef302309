"""Interval arithmetic and the bounds of expressions; every operation against enumeration."""

from __future__ import annotations

import itertools

import pytest

from weft.ir import dtype as dt
from weft.ir.buffer import Buffer
from weft.ir.expr import Binary, Broadcast, Cast, Compare, Const, Expr, Load, Ramp, Select, Unary, Var, idx
from weft.ir.interval import EVERYTHING, Interval, bounds, half_open, whole_range

ENDS = [-7, -3, -1, 0, 1, 2, 5]
INTERVALS = [Interval(lo, hi) for lo, hi in itertools.product(ENDS, ENDS) if lo <= hi]
OPERATIONS = {
    Interval.plus: lambda a, b: a + b,
    Interval.minus: lambda a, b: a - b,
    Interval.times: lambda a, b: a * b,
    Interval.floordiv: lambda a, b: a // b,
    Interval.mod: lambda a, b: a % b,
    Interval.minimum: min,
    Interval.maximum: max,
}


def holds(interval: Interval, value: int) -> bool:
    return (interval.lo is None or interval.lo <= value) and (interval.hi is None or value <= interval.hi)


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda f: f.__name__)
def test_operations_hold_every_result(operation) -> None:
    meaning = OPERATIONS[operation]
    for a, b in itertools.product(INTERVALS, INTERVALS):
        found = operation(a, b)
        divides = operation in (Interval.floordiv, Interval.mod)
        values = [meaning(x, y) for x in range(a.lo, a.hi + 1) for y in range(b.lo, b.hi + 1) if not divides or y != 0]
        assert all(holds(found, v) for v in values), (a, b, found)


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda f: f.__name__)
def test_operations_on_unbounded_intervals_hold_the_bounded_ones(operation) -> None:
    for a, b in itertools.product(INTERVALS[::3], INTERVALS[::3]):
        exact = operation(a, b)
        for wide_a in (a, Interval(None, a.hi), Interval(a.lo, None), EVERYTHING):
            for wide_b in (b, Interval(None, b.hi), Interval(b.lo, None), EVERYTHING):
                wide = operation(wide_a, wide_b)
                assert wide.lo is None or (exact.lo is not None and wide.lo <= exact.lo)
                assert wide.hi is None or (exact.hi is not None and wide.hi >= exact.hi)


def test_sums_products_and_positive_divisors_are_exact() -> None:
    for a, b in itertools.product(INTERVALS, INTERVALS):
        products = [x * y for x in a for y in b]
        assert a.times(b) == Interval(min(products), max(products))
        assert a.plus(b) == Interval(a.lo + b.lo, a.hi + b.hi)
        if b.lo > 0:
            quotients = [x // y for x in range(a.lo, a.hi + 1) for y in range(b.lo, b.hi + 1)]
            assert a.floordiv(b) == Interval(min(quotients), max(quotients))


def test_set_operations() -> None:
    assert Interval(0, 3).union(Interval(5, 9)) == Interval(0, 9)
    assert Interval(0, None).intersect(Interval(-5, 9)) == Interval(0, 9)
    assert Interval(0, 3).intersect(Interval(5, 9)).is_empty
    assert Interval(4, 4).point == 4
    assert Interval(4, 5).point is None
    assert EVERYTHING.point is None
    assert half_open(Interval(0, 2), Interval(5, 8)) == Interval(0, 7)
    assert half_open(EVERYTHING, EVERYTHING) == EVERYTHING


i, j = Var("i"), Var("j")
RANGES = {"i": Interval(0, 7), "j": Interval(-2, 3), "b": Interval(250, 255)}
TABLE = Buffer("T", dt.int8, (idx(4),))


@pytest.mark.parametrize(
    ("e", "found"),
    [
        (i * 4 + j, Interval(-2, 31)),
        (Unary("-", i), Interval(-7, 0)),
        (Unary("~", Cast(dt.int32, i)), Interval(-8, -1)),
        (i // 2, Interval(0, 3)),
        (i % 4, Interval(0, 3)),
        (i % 100, Interval(0, 7)),
        (j % 4, Interval(0, 3)),
        (Var("unknown") % 4, Interval(0, 3)),
        (Binary("tdiv", i, idx(2)), Interval(0, 3)),
        (Binary("tdiv", j, idx(2)), EVERYTHING),
        (Binary("&", Var("unknown"), idx(15)), Interval(0, 15)),
        (Select(Compare("<", i, j), i, j), Interval(-2, 7)),
        (Cast(dt.int8, i), Interval(0, 7)),
        (Cast(dt.uint8, j), Interval(0, 255)),
        (Cast(dt.int64, Load(TABLE, (idx(0),))), Interval(-128, 127)),
        (Load(TABLE, (idx(0),)), Interval(-128, 127)),
        (Binary("+", Var("b", dt.uint8), Const(1, dt.uint8)), Interval(0, 255)),
        (Binary("-", Var("b", dt.uint8), Const(1, dt.uint8)), Interval(249, 254)),
        (Ramp(i, idx(-1), 4), Interval(-3, 7)),
        (Broadcast(j, 4), Interval(-2, 3)),
        (Compare("<", i, j), Interval(0, 1)),
        (Var("unknown", dt.uint64), Interval(0, 2**64 - 1)),
        (Cast(dt.int64, Var("unknown", dt.uint64)), EVERYTHING),
        (Var("unknown"), EVERYTHING),
        (Cast(dt.int16, Const(1e9, dt.float32)), Interval(-(2**15), 2**15 - 1)),
    ],
)
def test_bounds_of_expressions(e: Expr, found: Interval) -> None:
    assert bounds(e, RANGES) == found


def test_the_range_of_a_type() -> None:
    assert whole_range(dt.bool_) == Interval(0, 1)
    assert whole_range(dt.int64) == EVERYTHING
    assert whole_range(dt.float32) == EVERYTHING
