"""Subscripts that choose as a choice between loads: ``A[x == 0 ? 0 : x - 1]`` as ``x == 0 ? A[0] : A[x - 1]``.

A choice inside a sum is taken out of it first. Along the last dimension neighbours in a vector loop then read
neighbours in memory, under a mask, not here and there.
"""

from __future__ import annotations

from dataclasses import replace

from weft.ir.affine import Linear, linear_form
from weft.ir.dtype import index
from weft.ir.expr import Expr, Load, Select
from weft.ir.stmt import For, Kernel, Stmt, Store
from weft.ir.visit import Node, map_statements, rewrite


def spread_selects(kernel: Kernel) -> Kernel:
    """``kernel`` with choices taken out of the last subscripts of loads in thread loops."""
    return replace(kernel, body=_visit(kernel.body))


def _visit(s: Stmt) -> Stmt:
    if isinstance(s, For) and s.kind == "thread":
        return rewrite(s, _spread)
    return map_statements(s, _visit)


def _spread(n: Node) -> Expr | None:
    choice = _lifted(n.indices[-1]) if isinstance(n, Load) and n.indices else None
    if not isinstance(n, Load) or not isinstance(choice, Select):
        return None
    return Select(choice.condition, _at(n, choice.then), _at(n, choice.otherwise), span=n.span)


def _at(load: Load, last: Expr) -> Expr:
    """The load at another last subscript, which may be a choice itself."""
    return rewrite(replace(load, indices=(*load.indices[:-1], last)), _spread)


def lift_choices(s: Stmt) -> Stmt:
    """``s`` with choices in sums of subscripts as choices between sums."""

    def lifted(n: Node) -> Node | None:
        return replace(n, indices=tuple(map(_lifted, n.indices))) if isinstance(n, (Load, Store)) else None

    return rewrite(s, lifted)


def _lifted(e: Expr) -> Expr:
    """``(c ? x : y) + 1`` as ``c ? x + 1 : y + 1``."""
    if isinstance(e, Select):
        return replace(e, then=_lifted(e.then), otherwise=_lifted(e.otherwise))
    total = linear_form(e)
    choice = next((atom for atom in total.terms if isinstance(atom, Select)), None)
    if choice is None:
        return e
    factor = total.terms.pop(choice)
    arms = (Linear().add(total).add(linear_form(arm), factor) for arm in (choice.then, choice.otherwise))
    then, otherwise = (_lifted(arm.expr(index)) for arm in arms)
    return Select(choice.condition, then, otherwise, span=e.span)
