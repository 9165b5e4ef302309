"""Iterations that a mask leaves nothing of: ``t <= s ? x : -inf`` in a tile all of whose t are beyond all of its s.

The condition is a conjunction of inequalities that are linear in loop variables. Inner loops go as far as they can to
fulfil each of them; what then is left to ask of the outer loop bounds it.
"""

from __future__ import annotations

from collections.abc import Sequence

from weft.ir.affine import Linear, linear_form
from weft.ir.expr import Binary, Compare, Const, Expr, Select, idx
from weft.ir.inequality import conjuncts, denied
from weft.ir.interval import Interval, bounds
from weft.ir.simplify import simplify
from weft.ir.stmt import For


def unmasked(value: Expr, nothing: Const) -> list[Expr]:
    """Conditions that all hold where ``value`` is not ``nothing``, as far as they are inequalities."""
    if not isinstance(value, Select):
        return []
    if value.otherwise == nothing:
        return [*conjuncts(value.condition), *unmasked(value.then, nothing)]
    if value.then == nothing:
        return [*conjuncts(denied(value.condition)), *unmasked(value.otherwise, nothing)]
    return []


def narrowed(loop: For, conditions: Sequence[Expr], inner: Sequence[For]) -> tuple[Expr, Expr]:
    """Bounds of ``loop`` outside of which no iteration of ``inner`` loops fulfils ``conditions``.

    They are within those that it has, and there is at least one iteration between them.
    """
    lo, hi = loop.lo, loop.hi
    spans = {x.var.name: _span(x) for x in inner}
    for condition in conditions:
        found = _gap(condition)
        most = None if found is None else _most(found, spans)
        step = 0 if most is None else most.terms.pop(loop.var, 0)
        if most is None or not step:
            continue
        rest = most.expr(loop.var.dtype)
        if step < 0:  # rest + step * loop >= 0
            hi = Binary("min", hi, Binary("//", rest, idx(-step)) + 1)
        else:
            lo = Binary("max", lo, Binary("//", idx(0) - rest + (step - 1), idx(step)))
    return lo, hi


def _span(x: For) -> Interval:
    lo, hi = bounds(x.lo, {}), bounds(x.hi, {})
    return Interval(lo.lo, None if hi.hi is None else hi.hi - 1)


def _gap(condition: Expr) -> Linear | None:
    """The sum that is at least 0 where ``condition`` holds."""
    if not isinstance(condition, Compare) or not condition.left.dtype.is_integer:
        return None
    left, right = condition.left, condition.right
    if condition.op in (">", ">="):
        left, right = right, left
    if condition.op not in ("<", "<=", ">", ">="):
        return None
    strict = 1 if condition.op in ("<", ">") else 0
    return linear_form(simplify(right - left - strict))


def _most(gap: Linear, spans: dict[str, Interval]) -> Linear | None:
    """``gap`` where the loops ``spans`` make it as large as they can; None where they are in it in another way."""
    made = Linear(dict(gap.terms), gap.constant)
    for atom in list(made.terms):
        name = getattr(atom, "name", None)
        if name is None:
            return None
        if name in spans:
            times = made.terms.pop(atom)
            end = spans[name].hi if times > 0 else spans[name].lo
            if end is None:
                return None
            made.constant += times * end
    return made
