"""Simplification that leaves subscripts which are an axis alone, also where the axis has a single value.

``X[b, i]`` with ``b`` in 0:1 could be ``X[0, i]``; but then nothing says that ``b`` counts through the first dimension,
and a batch of one would be scheduled unlike a batch of two.
"""

from __future__ import annotations

from collections.abc import Mapping

from weft.ir.expr import Expr, Load, Var
from weft.ir.interval import Interval
from weft.ir.simplify import simplify
from weft.ir.visit import rewrite, substitute

#: What a variable is called while nothing may be known of it; no name in a program ends so.
_HIDDEN = "'"


def simplify_subscript(index: Expr, ranges: Mapping[str, Interval]) -> Expr:
    return index if isinstance(index, Var) else simplify(index, ranges)


def simplify_value(value: Expr, ranges: Mapping[str, Interval]) -> Expr:
    """``value`` simplified, its loads' subscripts as `simplify_subscript` does."""
    single = {name for name, r in ranges.items() if r.lo is not None and r.lo == r.hi}
    if not single:
        return simplify(value, ranges)
    hidden = {Var(name): Var(name + _HIDDEN) for name in single}

    def hide(n: object) -> Load | None:
        if isinstance(n, Load) and any(i in hidden for i in n.indices):
            indices = tuple(hidden[i] if isinstance(i, Var) and i in hidden else i for i in n.indices)
            return Load(n.buffer, indices, span=n.span)
        return None

    simple = simplify(rewrite(value, hide), ranges)
    return substitute(simple, {there: here for here, there in hidden.items()})
