"""Conditions taken apart, and comparisons of sums with zero: decided from ranges, in one form, solved for a variable.

Ranges are numbers; `Limits` are the ends of loops with symbolic sizes, so that ``i < N`` is known inside
``for i in 0:N``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeVar

from weft.ir import dtype as dt
from weft.ir.affine import Linear, linear_form
from weft.ir.expr import Binary, BinaryOp, Cast, Compare, CompareOp, Const, Expr, Load, Unary, Var, idx
from weft.ir.interval import Interval, Ranges, bounds

#: The least and greatest value of each loop variable in terms of others, outer loops first.
Limits = dict[Var, tuple[Linear, Linear]]

NEGATED: dict[str, CompareOp] = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
FLIPPED: dict[str, CompareOp] = {"==": "==", "!=": "!=", "<": ">", ">": "<", "<=": ">=", ">=": "<="}
#: What ``gap`` can be where ``gap op 0`` holds.
ALLOWED: dict[str, Interval] = {
    "==": Interval(0, 0), "<": Interval(None, -1), "<=": Interval(None, 0), ">": Interval(1, None),
    ">=": Interval(0, None),
}  # fmt: skip


#: Of conditions with more cases than this, nothing is said.
MOST_CASES = 16
T = TypeVar("T")


def conjuncts(condition: Expr, holds: bool = True) -> list[Expr]:
    """Conditions that all hold exactly where ``condition`` does (or, for False, does not): the parts of
    ``a && b && c``, and below the lesser of two is below both."""
    if isinstance(condition, Binary) and condition.op == ("&&" if holds else "||"):
        return [*conjuncts(condition.left, holds), *conjuncts(condition.right, holds)]
    if isinstance(condition, Unary) and condition.op == "!":
        return conjuncts(condition.operand, not holds)
    if not holds:
        condition = denied(condition)
    if isinstance(condition, Compare) and condition.op in ("<", "<=", ">", ">=") and condition.left.dtype == dt.index:
        op, left, right = condition.op, condition.left, condition.right
        least, most = ("max", "min") if op in ("<", "<=") else ("min", "max")
        if isinstance(right, Binary) and right.op == most:
            return [part for side in (right.left, right.right) for part in conjuncts(Compare(op, left, side))]
        if isinstance(left, Binary) and left.op == least:
            return [part for side in (left.left, left.right) for part in conjuncts(Compare(op, side, right))]
    return [condition]


def cases(e: Expr, holds: bool, read: Callable[[Expr, bool], list[list[T]]]) -> list[list[T]]:
    """Lists of facts, one of which holds as a whole wherever ``e`` does (or, for False, does not).

    ``read`` gives the cases of what is made of no other conditions, and of what has too many; ``[[]]`` says nothing.
    """
    if isinstance(e, Const) and e.type.is_bool:
        return [[]] if bool(e.value) == holds else []
    if isinstance(e, Unary) and e.op == "!":
        return cases(e.operand, not holds, read)
    if not isinstance(e, Binary) or e.dtype != dt.bool_ or e.op not in ("&&", "||", "&", "|"):
        return read(e, holds)
    left, right = cases(e.left, holds, read), cases(e.right, holds, read)
    if (e.op in ("&&", "&")) == holds:
        found = [[*a, *b] for a in left for b in right]
    else:
        found = [*left, *right]
    return [[]] if [] in found else found if len(found) <= MOST_CASES else read(e, holds)


def slack(condition: Expr) -> Linear | None:
    """The sum that must not be negative for a comparison of indices to hold, or None for other conditions."""
    if not isinstance(condition, Compare) or condition.left.dtype != dt.index:
        return None
    low, high = condition.left, condition.right
    if condition.op in (">", ">="):
        low, high = high, low
    elif condition.op not in ("<", "<="):
        return None
    gap = linear_form(high).add(linear_form(low), -1)
    gap.constant -= condition.op in ("<", ">")
    return gap


def tight(gap: Linear) -> Linear:
    """What is not negative at the same integers, with the least numbers."""
    common = math.gcd(*gap.terms.values()) or 1
    return Linear({e: n // common for e, n in gap.terms.items()}, gap.constant // common)


def as_index(e: Expr, ranges: Ranges) -> Expr | None:
    """``e`` as an index, where it is the same number as one: positions are narrow beside narrow lookups."""
    if e.dtype == dt.index or (isinstance(e, Load) and e.dtype.is_integer and e.dtype.bits < dt.index.bits):
        return e if e.dtype == dt.index else Cast(dt.index, e)
    if isinstance(e, Cast) and e.operand.dtype == dt.index:
        fits = e.dtype.is_integer and bounds(e.operand, ranges).within(e.dtype.min_value, e.dtype.max_value)
        return e.operand if fits else None
    return idx(int(e.value)) if isinstance(e, Const) and e.dtype.is_integer else None


def denied(condition: Expr) -> Expr:
    """What holds where ``condition`` does not, taken apart as far as it is made of comparisons of integers."""
    if isinstance(condition, Unary) and condition.op == "!":
        return condition.operand
    if isinstance(condition, Binary) and condition.op in ("&&", "||"):
        op: BinaryOp = "||" if condition.op == "&&" else "&&"
        return Binary(op, denied(condition.left), denied(condition.right))
    if isinstance(condition, Compare) and condition.left.dtype.is_integer:
        return Compare(NEGATED[condition.op], condition.left, condition.right, span=condition.span)
    return Unary("!", condition)


def all_of(conditions: Sequence[Expr]) -> Expr:
    """``a && b && c`` of ``[a, b, c]``, which is not empty."""
    first, *others = conditions
    for condition in others:
        first = Binary("&&", first, condition)
    return first


def decide(op: str, gap: Interval) -> bool | None:
    """Whether ``gap op 0`` always or never holds."""
    lo, hi = gap
    above, below = lo is not None and lo > 0, hi is not None and hi < 0
    at_least, at_most = lo is not None and lo >= 0, hi is not None and hi <= 0
    if op in ("==", "!="):
        if lo == hi == 0:
            return op == "=="
        return op == "!=" if above or below else None
    if op in (">", "<="):
        return op == ">" if above else op == "<=" if at_most else None
    return op == ">=" if at_least else op == "<" if below else None


def bound_sum(gap: Linear, ranges: Ranges, limits: Limits) -> Interval:
    """What ``gap`` can be."""
    interval = gap.bounds(ranges)
    if not any(v in gap.terms for v in limits):
        return interval
    lowest, highest = _extreme(gap, limits, -1), _extreme(gap, limits, 1)
    return interval.intersect(Interval(lowest.bounds(ranges).lo, highest.bounds(ranges).hi))


def _extreme(gap: Linear, limits: Limits, sign: int) -> Linear:
    """``gap`` with its loop variables, inner ones first, where they make it greatest (or, for -1, least)."""
    extreme = Linear(dict(gap.terms), gap.constant)
    for var in reversed(limits):
        factor = extreme.terms.pop(var, 0)
        if factor:
            extreme.add(limits[var][factor * sign > 0], factor)
    return extreme


def balance(e: Compare, gap: Linear) -> Expr:
    """``gap op 0`` with common factors divided out, what is added on the left, what is subtracted on the right."""
    op = e.op
    if abs(gap.constant) >= 1 << 62:
        return e  # a constant moved to the other side might no longer fit
    factor = math.gcd(*gap.terms.values())
    if factor > 1:
        if op in ("==", "!=") and gap.constant % factor:
            return Const(op == "!=", dt.bool_)
        # For integers m*g + k < 0 is m + floor(k/g) < 0, and m*g + k <= 0 is m + ceil(k/g) <= 0.
        rounded = -(-gap.constant // factor) if op in ("<=", ">") else gap.constant // factor
        gap = Linear({a: c // factor for a, c in gap.terms.items()}, rounded)
    if all(c < 0 for c in gap.terms.values()):
        gap, op = Linear().add(gap, -1), FLIPPED[op]
    left = Linear({a: c for a, c in gap.terms.items() if c > 0})
    right = Linear({a: -c for a, c in gap.terms.items() if c < 0}, -gap.constant)
    return Compare(op, left.expr(dt.index, e.span), right.expr(dt.index, e.span), span=e.span)


def quotient(product: Interval, factor: int) -> Interval:
    """The integers that times ``factor`` lie in ``product``."""
    lo, hi = product if factor > 0 else (product.hi, product.lo)
    if factor < 0:
        lo, hi = None if lo is None else -lo, None if hi is None else -hi
    size = abs(factor)
    return Interval(None if lo is None else -(-lo // size), None if hi is None else hi // size)
