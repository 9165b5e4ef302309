"""Reads of a buffer that say by their subscripts what is outside of it: the nearest element, or one that wraps around.

``A[max(min(i + k - 1, 9), 0)]`` reads ``A_around[i + k - 1]``, if element ``at`` of that is ``A[max(min(at, 9), 0)]``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from weft.ir.affine import affine_form, linear_form
from weft.ir.borders import away_from_borders
from weft.ir.dtype import index as index_type
from weft.ir.expr import Expr, Load, Var
from weft.ir.simplify import simplify
from weft.ir.visit import free_vars, substitute
from weft.poly.leaves import Access

#: Stands for a subscript that may be outside.
AT = Var("at outside")


@dataclass(frozen=True, slots=True)
class Border:
    """Which element of a buffer subscripts mean that may be outside of it: one expression of `AT` each."""

    subscripts: tuple[Expr, ...]

    def element(self, at: Sequence[Expr]) -> tuple[Expr, ...]:
        return tuple(simplify(substitute(s, {AT: a})) for s, a in zip(self.subscripts, at))


def find_border(reads: Sequence[Load | Access], scalars: frozenset[str]) -> Border | None:
    """The border that all ``reads`` of a buffer have in common, or None; ``scalars`` have one value for all."""
    borders = {tuple(_meaning(i, scalars) for i in read.indices) for read in reads}
    if len(borders) != 1:
        return None
    (found,) = borders
    subscripts = tuple(s for s in found if s is not None)
    is_bordered = len(subscripts) == len(found) and any(s != AT for s in subscripts)
    return Border(subscripts) if is_bordered else None


def beyond_borders(read: Load | Access) -> tuple[Expr, ...]:
    """The subscripts of ``read`` as they are before anything is cut off or wraps around."""
    return tuple(i if affine_form(i) is not None else away_from_borders(i) for i in read.indices)


def _meaning(index: Expr, scalars: frozenset[str]) -> Expr | None:
    """``index`` as an expression of `AT`, which stands for what it is away from borders."""
    if affine_form(index) is not None:
        return AT
    inside = linear_form(away_from_borders(index))
    for atom, factor in inside.terms.items():
        if isinstance(atom, Var) and abs(factor) == 1 and atom.name not in scalars:
            del inside.terms[atom]
            value = simplify((AT - inside.expr(index_type)) * factor)
            value_there = simplify(substitute(index, {atom: value}))
            return value_there if free_vars(value_there).keys() <= {AT.name, *scalars} else None
    return None
