"""Conditions as inequalities: what a guard says about the integers behind it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from weft.ir import dtype as dt
from weft.ir.expr import Binary, Cast, Compare, Const, Expr, Unary, Var, idx
from weft.ir.inequality import NEGATED, cases
from weft.ir.interval import Interval, bounds
from weft.tensor.polynomial import Polynomial

#: One of these lists holds as a whole, each polynomial in it being ``>= 0``.
Alternatives: TypeAlias = "list[list[Polynomial]]"


def alternatives(e: Expr, intervals: Mapping[str, Interval] | None, negate: bool = False) -> Alternatives:
    """The cases in which ``e`` holds (or, with ``negate``, does not); ``[[]]`` says nothing is known.

    ``intervals`` are the ranges of variables, for excluding that narrow integers wrap; with None they
    are taken not to.
    """

    def read(e: Expr, holds: bool) -> Alternatives:
        if isinstance(e, Compare) and e.left.dtype.is_integer:
            x, y = widened(e.left, intervals), widened(e.right, intervals)
            if x is not None and y is not None:
                return _comparison(e.op if holds else NEGATED[e.op], Polynomial.of(y) - Polynomial.of(x))
        return [[]]

    return cases(e, not negate, read)


def _comparison(op: str, d: Polynomial) -> Alternatives:
    """``x op y`` by the difference ``d = y - x``."""
    return {
        "<": [[d - 1]],
        "<=": [[d]],
        ">": [[-d - 1]],
        ">=": [[-d]],
        "==": [[d, -d]],
        "!=": [[d - 1], [-d - 1]],
    }[op]


def widened(e: Expr, intervals: Mapping[str, Interval] | None) -> Expr | None:
    """``e`` computed in int64; None where a narrower computation might wrap and so differ."""
    wide = _widen(e, intervals)
    if wide is None or e.dtype == dt.index or intervals is None:
        return wide
    return wide if bounds(wide, intervals).within(e.dtype.min_value, e.dtype.max_value) else None


def _widen(e: Expr, intervals: Mapping[str, Interval] | None) -> Expr | None:
    match e:
        case Const(value=value):
            return idx(int(value)) if abs(value) < 2**63 else None
        case Var(type=t):
            return None if t == dt.uint64 else e if t == dt.index else Cast(dt.index, e)
        case Cast(type=t, operand=operand) if t.is_integer and operand.dtype.is_integer:
            inner = widened(operand, intervals)
            return inner if inner is not None and (t.bits >= 32 or intervals is not None) else None
        case Unary(op="-", operand=operand):
            inner = widened(operand, intervals)
            return None if inner is None else Unary("-", inner)
        case Binary(op=op, left=left, right=right) if op in ("+", "-", "*", "//", "%", "tdiv", "tmod", "min", "max"):
            x, y = widened(left, intervals), widened(right, intervals)
            return None if x is None or y is None else Binary(op, x, y)
    if e.dtype == dt.uint64:
        return None
    return e if e.dtype == dt.index else Cast(dt.index, e)
