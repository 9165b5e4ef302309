"""Ranges of integer expressions: what an index can be, given what its variables can be.

>>> bounds(i * 4 + j, {"i": Interval(0, 7), "j": Interval(0, 3)})
Interval(lo=0, hi=31)

Index arithmetic (int64) is taken not to overflow; a result of another integer type that
might wrap has the whole range of its type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, Protocol

from weft.ir import dtype as dt
from weft.ir.dtype import DType
from weft.ir.expr import Binary, Broadcast, Cast, Compare, Const, Expr, Ramp, Select, Unary, Var


class Interval(NamedTuple):
    """The integers from ``lo`` to ``hi``, both included; None is no bound on that side."""

    lo: int | None
    hi: int | None

    @property
    def is_empty(self) -> bool:
        return self.lo is not None and self.hi is not None and self.lo > self.hi

    @property
    def point(self) -> int | None:
        """The only integer in it, or None."""
        return self.lo if self.lo == self.hi else None

    def within(self, lo: int, hi: int) -> bool:
        """Whether all of it lies between ``lo`` and ``hi``, both included."""
        return self.lo is not None and self.hi is not None and lo <= self.lo and self.hi <= hi

    def plus(self, other: Interval) -> Interval:
        a, b, c, d = self.lo, self.hi, other.lo, other.hi
        return Interval(None if a is None or c is None else a + c, None if b is None or d is None else b + d)

    def shift(self, by: int) -> Interval:
        lo, hi = self
        return Interval(None if lo is None else lo + by, None if hi is None else hi + by)

    def scale(self, by: int) -> Interval:
        lo, hi = self if by >= 0 else (self.hi, self.lo)
        if by == 0:
            return Interval(0, 0)
        return Interval(None if lo is None else lo * by, None if hi is None else hi * by)

    def minus(self, other: Interval) -> Interval:
        return self.plus(other.scale(-1))

    def times(self, other: Interval) -> Interval:
        if other.point is not None:
            return self.scale(other.point)
        if self.point is not None:
            return other.scale(self.point)
        if self.lo is None or self.hi is None or other.lo is None or other.hi is None:
            # Of the unbounded products only those of two non-negative sides are worth knowing.
            if self.lo is not None and other.lo is not None and self.lo >= 0 and other.lo >= 0:
                return Interval(self.lo * other.lo, None)
            return EVERYTHING
        products = [a * b for a in (self.lo, self.hi) for b in (other.lo, other.hi)]
        return Interval(min(products), max(products))

    def union(self, other: Interval) -> Interval:
        lo = None if self.lo is None or other.lo is None else min(self.lo, other.lo)
        hi = None if self.hi is None or other.hi is None else max(self.hi, other.hi)
        return Interval(lo, hi)

    def intersect(self, other: Interval) -> Interval:
        lo = self.lo if other.lo is None else other.lo if self.lo is None else max(self.lo, other.lo)
        hi = self.hi if other.hi is None else other.hi if self.hi is None else min(self.hi, other.hi)
        return Interval(lo, hi)

    def floordiv(self, by: Interval) -> Interval:
        if by.lo is None or by.lo <= 0:
            return EVERYTHING
        # A larger divisor brings the quotient nearer to 0 (or -1), so each end has its own extreme divisor.
        lo, hi = self
        low = None if lo is None else lo // by.lo if lo < 0 else 0 if by.hi is None else lo // by.hi
        high = None if hi is None else hi // by.lo if hi >= 0 else -1 if by.hi is None else hi // by.hi
        return Interval(low, high)

    def mod(self, by: Interval) -> Interval:
        if by.lo is None or by.lo <= 0:
            return EVERYTHING
        if self.lo is not None and self.lo >= 0:
            if self.hi is not None and self.hi < by.lo:
                return self
            ends = [e for e in (self.hi, None if by.hi is None else by.hi - 1) if e is not None]
            return Interval(0, min(ends) if ends else None)
        return Interval(0, None if by.hi is None else by.hi - 1)

    def minimum(self, other: Interval) -> Interval:
        ends = [h for h in (self.hi, other.hi) if h is not None]
        lo = None if self.lo is None or other.lo is None else min(self.lo, other.lo)
        return Interval(lo, min(ends) if ends else None)

    def maximum(self, other: Interval) -> Interval:
        ends = [h for h in (self.lo, other.lo) if h is not None]
        hi = None if self.hi is None or other.hi is None else max(self.hi, other.hi)
        return Interval(max(ends) if ends else None, hi)


EVERYTHING = Interval(None, None)
Ranges = Mapping[str, Interval]


def whole_range(t: DType) -> Interval:
    """What any value of an integer or bool type can be; int64 counts as unbounded."""
    if t.is_float or (t.bits == 64 and t.kind == "int"):
        return EVERYTHING
    return Interval(t.min_value, t.max_value)


def half_open(lo: Interval, hi: Interval) -> Interval:
    """What a variable can be that runs from ``lo`` up to but not including ``hi``."""
    return Interval(lo.lo, None if hi.hi is None else hi.hi - 1)


class Running(Protocol):
    """A loop, an axis or an iterator."""

    @property
    def var(self) -> Var: ...
    @property
    def lo(self) -> Expr: ...
    @property
    def hi(self) -> Expr: ...


def range_between(lo: Expr, hi: Expr, ranges: Ranges) -> Interval:
    """What a variable can be that runs from ``lo`` up to but not including ``hi``."""
    if type(lo) is Const and type(hi) is Const:  # most are
        return Interval(int(lo.value), int(hi.value) - 1)
    return half_open(bounds(lo, ranges), bounds(hi, ranges))


def loop_range(loop: Running, ranges: Ranges) -> Interval:
    """The values of the variable inside the loop."""
    return range_between(loop.lo, loop.hi, ranges)


def ranges_through(loops: Iterable[Running], known: Ranges) -> dict[str, Interval]:
    """What is ``known``, and what the variables of ``loops``, outermost first, can be."""
    ranges = dict(known)
    for loop in loops:
        ranges[loop.var.name] = loop_range(loop, ranges)
    return ranges


def bounds(e: Expr, ranges: Ranges) -> Interval:
    """An interval that holds every value of ``e`` (of all lanes), for integer and bool expressions."""
    rule = _RULES.get(type(e))
    t = e.dtype
    if rule is None or t.is_float:
        return whole_range(t)
    return fit(rule(e, ranges), t)


def fit(interval: Interval, t: DType) -> Interval:
    """``interval`` where the type holds it all, else (the value may wrap) the whole type."""
    if t.bits == 64 and t.kind == "int":
        return interval
    return interval if interval.within(t.min_value, t.max_value) else whole_range(t)


def _var(e: Var, ranges: Ranges) -> Interval:
    interval = ranges.get(e.name)
    return whole_range(e.type) if interval is None else interval


def _const(e: Const, ranges: Ranges) -> Interval:
    value = int(e.value)
    return Interval(value, value)


def _unary(e: Unary, ranges: Ranges) -> Interval:
    operand = bounds(e.operand, ranges)
    if e.op == "-":
        return operand.scale(-1)
    return operand.scale(-1).shift(1 if e.op == "!" else -1)


def _binary(e: Binary, ranges: Ranges) -> Interval:
    left, right = bounds(e.left, ranges), bounds(e.right, ranges)
    op: str = e.op
    if op in ("tdiv", "tmod"):
        if left.lo is None or left.lo < 0:
            return EVERYTHING
        op = "//" if op == "tdiv" else "%"
    rule = _ARITHMETIC.get(op)
    return whole_range(e.dtype) if rule is None else rule(left, right)


def _cast(e: Cast, ranges: Ranges) -> Interval:
    source = e.operand.dtype
    if source.is_float:
        return whole_range(e.type)
    interval = bounds(e.operand, ranges)
    if e.type.is_bool:
        return interval if interval.within(0, 1) else Interval(0, 1)
    return EVERYTHING if source == dt.uint64 and not interval.within(0, dt.int64.max_value) else interval


def _bit_and(a: Interval, b: Interval) -> Interval:
    nonnegative = [x for x in (a, b) if x.lo is not None and x.lo >= 0]
    if not nonnegative:
        return EVERYTHING
    ends = [x.hi for x in nonnegative if x.hi is not None]
    return Interval(0, min(ends) if ends else None)


_ARITHMETIC: dict[str, Callable[[Interval, Interval], Interval]] = {
    "+": Interval.plus,
    "-": Interval.minus,
    "*": Interval.times,
    "//": Interval.floordiv,
    "%": Interval.mod,
    "min": Interval.minimum,
    "max": Interval.maximum,
    "&": _bit_and,
}

_RULES: dict[type, Callable[[Any, Ranges], Interval]] = {
    Var: _var,
    Const: _const,
    Unary: _unary,
    Binary: _binary,
    Compare: lambda e, r: Interval(0, 1),
    Select: lambda e, r: bounds(e.then, r).union(bounds(e.otherwise, r)),
    Cast: _cast,
    Broadcast: lambda e, r: bounds(e.value, r),
    Ramp: lambda e, r: bounds(e.base, r).plus(bounds(e.stride, r).times(Interval(0, e.lanes - 1))),
}
