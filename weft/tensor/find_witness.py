"""A concrete iteration at which a subscript leaves its range, where one can be found cheaply.

Small iteration spaces are searched whole, larger ones at the ends of every range: an affine
subscript is worst there. What depends on data is not a witness.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from weft.ir.expr import Axis, Binary, Cast, Compare, Const, Expr, Select, Unary, Var, const
from weft.ir.fold import fold_binary, fold_cast, fold_compare, fold_unary
from weft.ir.interval import Interval, loop_range
from weft.ir.visit import free_vars

MOST_POINTS = 1024


@dataclass(frozen=True, slots=True)
class Witness:
    point: Mapping[str, int]
    value: int


class _NotConstant(Exception):
    """The expression depends on something that has no value at compile time."""


def find_witness(index: Expr, lo: Expr, hi: Expr, axes: Sequence[Axis], guards: Sequence[Expr]) -> Witness | None:
    """A point of ``axes`` where ``guards`` hold and ``index`` is outside ``lo:hi``; None where none is found."""
    relevant = _relevant(axes, [index, lo, hi, *guards])
    try:
        for point in _points(relevant):
            if all(evaluate_index(g, point) for g in guards):
                value = evaluate_index(index, point)
                if not evaluate_index(lo, point) <= value < evaluate_index(hi, point):
                    return Witness(point, value)
    except _NotConstant:
        pass
    return None


def _relevant(axes: Sequence[Axis], exprs: Sequence[Expr]) -> list[Axis]:
    """The axes the expressions depend on, with those their ranges depend on; the rest only need to be non-empty."""
    names = {n for e in exprs for n in free_vars(e)}
    kept: list[Axis] = []
    for a in reversed(axes):
        depends = {n for e in (a.lo, a.hi) for n in free_vars(e)}
        if a.var.name in names or depends:
            kept.append(a)
            names |= depends
    return kept[::-1]


def _points(axes: Sequence[Axis]) -> Iterator[dict[str, int]]:
    """All points of a small space (as the box around it says), the corners of a large one."""
    values: dict[str, Interval] = {}
    total = 1
    for a in axes:
        lo, hi = loop_range(a, values)
        values[a.var.name] = Interval(lo, hi)
        total *= max(0, hi - lo + 1) if lo is not None and hi is not None else MOST_POINTS + 1
    yield from _inside(axes, {}, corners=total > MOST_POINTS)


def _inside(axes: Sequence[Axis], point: dict[str, int], *, corners: bool) -> Iterator[dict[str, int]]:
    """The points of ``axes``, or those at the ends of every range, with ``point`` outside them."""
    if not axes:
        yield point
        return
    a = axes[0]
    values = range(evaluate_index(a.lo, point), evaluate_index(a.hi, point))
    for value in dict.fromkeys((values[0], values[-1])) if corners and values else values:
        yield from _inside(axes[1:], {**point, a.var.name: value}, corners=corners)


def evaluate_index(e: Expr, point: Mapping[str, int]) -> int:
    """The value of an integer or bool expression over ``point``; loads and floats have none."""
    return int(_evaluate(e, point).value)


def _evaluate(e: Expr, point: Mapping[str, int]) -> Const:
    value: Const | None = None
    match e:
        case Const():
            value = e
        case Var(name=name, type=t) if name in point:
            value = const(point[name], t)
        case Unary(op=op, operand=operand):
            value = fold_unary(op, _evaluate(operand, point))
        case Cast(type=t, operand=operand):
            value = fold_cast(t, _evaluate(operand, point))
        case Select(condition=condition, then=then, otherwise=otherwise):
            value = _evaluate(then if _evaluate(condition, point).value else otherwise, point)
        case Binary(op="&&" | "||" as op, left=left, right=right):
            first = _evaluate(left, point)
            value = first if first.value == (op == "||") else _evaluate(right, point)
        case Binary(op=op, left=left, right=right):
            value = fold_binary(op, _evaluate(left, point), _evaluate(right, point))
        case Compare(op=op, left=left, right=right):
            value = fold_compare(op, _evaluate(left, point), _evaluate(right, point))
    if value is None:
        raise _NotConstant
    return value
