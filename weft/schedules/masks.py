"""Iterations that a mask leaves nothing of: ``t <= s ? x : -inf`` in a tile all of whose t are beyond all of its s.

The condition is a conjunction of inequalities that are linear in loop variables and in what is looked up for a row.
Inner loops go as far as they can to fulfil each of them (`tile_extremes` for lookups); what then is left to ask of the
outer loop bounds it.
"""

from __future__ import annotations

from collections.abc import Sequence

from weft.ir.affine import Linear, linear_form
from weft.ir.expr import Binary, Compare, Const, Expr, Select, Var, idx
from weft.ir.inequality import as_index, conjuncts
from weft.ir.interval import Ranges, loop_range, ranges_through
from weft.ir.simplify import simplify
from weft.ir.stmt import For
from weft.schedules.loop_facts import is_true
from weft.schedules.project import gap_of
from weft.schedules.tile_extremes import TileExtremes


def unmasked(value: Expr, nothing: Const) -> list[Expr]:
    """Conditions that all hold where ``value`` is not ``nothing``, as far as they are inequalities."""
    if not isinstance(value, Select):
        return []
    if value.otherwise == nothing:
        return [*conjuncts(value.condition), *unmasked(value.then, nothing)]
    if value.then == nothing:
        return [*conjuncts(value.condition, False), *unmasked(value.otherwise, nothing)]
    return []


def narrowed(loop: For, conditions: Sequence[Expr], inner: Sequence[For], extremes: TileExtremes) -> tuple[Expr, Expr]:
    """Bounds of ``loop``, within those that it has, outside of which no iteration of ``inner`` loops fulfils
    ``conditions``."""
    lo, hi = loop.lo, loop.hi
    ranges = ranges_through((*extremes.outer, loop, *inner), {})
    for condition in conditions:
        found = _gap(condition, ranges)
        most = None if found is None else _most(found, loop, inner, extremes)
        step = 0 if most is None else most.terms.pop(loop.var, 0)
        if most is None or not step:
            continue
        rest = most.expr(loop.var.dtype)
        if step < 0:  # rest + step * loop >= 0
            hi = Binary("min", hi, Binary("//", rest, idx(-step)) + 1)
        else:
            lo = Binary("max", lo, Binary("//", idx(0) - rest + (step - 1), idx(step)))
    return lo, hi


def with_one_iteration(loop: For, lo: Expr, hi: Expr, ranges: Ranges) -> tuple[Expr, Expr]:
    """From ``lo`` to ``hi``, and at least one iteration where ``loop`` surely has one; one that runs no time goes on to
    do so."""
    lo, hi = simplify(lo, ranges), simplify(hi, ranges)
    if not is_true(simplify(Compare("<", loop.lo, loop.hi), ranges)):
        return lo, hi
    lo = simplify(Binary("min", lo, loop.hi - 1), ranges)
    return lo, simplify(Binary("max", hi, lo + 1), ranges)


def _gap(condition: Expr, ranges: Ranges) -> Linear | None:
    """The sum that is at least 0 where ``condition`` holds."""
    if not isinstance(condition, Compare) or not condition.left.dtype.is_integer:
        return None
    left, right = as_index(condition.left, ranges), as_index(condition.right, ranges)
    if left is None or right is None:
        return None
    gap = gap_of(Compare(condition.op, left, right), {})
    return None if gap is None else linear_form(gap)


def _most(gap: Linear, loop: For, inner: Sequence[For], extremes: TileExtremes) -> Linear | None:
    """``gap`` where ``inner`` loops make it as large as they can; None where they are in it in another way."""
    spans = {x.var.name: loop_range(x, {}) for x in inner}
    made = Linear({}, gap.constant)
    for atom, times in gap.terms.items():
        if not isinstance(atom, Var):
            found = extremes.find(atom, "max" if times > 0 else "min", inner) if loop.var in gap.terms else None
            if found is None:
                return None
            made.terms[found] = times
        elif atom.name in spans:
            end = spans[atom.name].hi if times > 0 else spans[atom.name].lo
            if end is None:
                return None
            made.constant += times * end
        else:
            made.terms[atom] = times
    return made
