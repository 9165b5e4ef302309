"""Positions that are cut off at the edges of a block and of the data, taken apart.

``t >= max(a, 0)`` is two tests, of which the second holds for every thread; of ``min(min(n, 15), t + 1)`` the 15 goes
where no thread is beyond it. What is left says where the edges of the data are, and nothing of the block's own.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import Literal

from weft.ir.affine import Linear, linear_form
from weft.ir.dtype import index
from weft.ir.expr import Binary, Compare, Const, Expr
from weft.ir.interval import Interval, Ranges, bounds
from weft.ir.simplify import simplify
from weft.ir.stmt import Stmt
from weft.ir.visit import Node, rewrite
from weft.passes.analysis.are_apart import sides
from weft.passes.analysis.conditions import all_of, slack

Extreme = Literal["min", "max"]


def split_tests(tests: Iterable[Expr], ranges: Ranges) -> list[Expr]:
    """``tests`` with one for each side of an extreme, those aside that hold anyway."""
    parts = [part for test in tests for part in _split(test)]
    found = [simplify(part, ranges) for part in parts]
    return [test for test in found if not (isinstance(test, Const) and test.value)]


def _split(test: Expr) -> list[Expr]:
    if not isinstance(test, Compare) or test.left.dtype != index or test.op not in ("<", "<=", ">", ">="):
        return [test]
    less = test.op in ("<", "<=")
    lefts = list(sides(test.left, "max" if less else "min"))
    rights = list(sides(test.right, "min" if less else "max"))
    return [Compare(test.op, a, b, span=test.span) for a in lefts for b in rights]


def open_clamps(s: Stmt, ranges: Ranges) -> Stmt:
    """``s`` with tests split, and without sides of extremes that no value in ``ranges`` comes to."""

    def opened(e: Node) -> Node | None:
        if isinstance(e, Compare):
            parts = _split(e)
            return all_of(parts) if len(parts) > 1 else None
        if isinstance(e, Binary) and e.op in ("min", "max") and e.dtype == index:
            return _extreme(e.op, list(sides(e, e.op)), ranges)
        return None

    return rewrite(s, opened)


def _extreme(op: Extreme, among: list[Expr], ranges: Ranges) -> Expr:
    kept = list(among)
    for side in among:
        others = [e for e in kept if e is not side]
        if any(_beats(op, other, side, ranges) for other in others):
            kept = others
    return functools.reduce(lambda a, b: Binary(op, a, b), kept)


def _beats(op: Extreme, one: Expr, other: Expr, ranges: Ranges) -> bool:
    """Whether ``other`` is never the extreme beside ``one``."""
    gap = linear_form(Binary("-", one, other) if op == "max" else Binary("-", other, one)).bounds(ranges).lo
    return gap is not None and gap >= 0


def bounds_where(e: Expr, tests: Sequence[Expr], ranges: Ranges) -> Interval:
    """Bounds of ``e`` where ``tests`` hold: of ``max(a, t - 1)`` where ``t >= a``, ``t`` is one above."""
    if isinstance(e, Binary) and e.op in ("min", "max") and e.dtype == index:
        parts = [bounds_where(side, tests, ranges) for side in sides(e, e.op)]
        return functools.reduce(Interval.minimum if e.op == "min" else Interval.maximum, parts)
    found = bounds(e, ranges)
    for gap in filter(None, map(slack, tests)):
        above, below = linear_form(e).add(gap), linear_form(e).add(gap, -1)
        found = found.intersect(Interval(Linear().add(below).bounds(ranges).lo, above.bounds(ranges).hi))
    return found
