"""Subscripts that are cut off, wrap around or turn back near the borders of a tensor, and what they are elsewhere.

>>> away_from_borders(parse("max(min(i + k - 1, 9), 0)"))     # the nearest element; as (i + k + 9) % 10 for wrapping
i + k - 1
"""

from __future__ import annotations

from weft.ir.affine import linear_form
from weft.ir.expr import Binary, Const, Expr
from weft.ir.simplify import simplify
from weft.ir.visit import free_vars, rebuild


def away_from_borders(index: Expr) -> Expr:
    """``index`` as it is where nothing is cut off and nothing wraps around."""
    index = rebuild(index, away_from_borders)
    if not isinstance(index, Binary):
        return index
    if index.op == "%":
        return without_turns(index)
    if index.op in ("min", "max"):
        return index.left if free_vars(index.left) else index.right
    return index


def without_turns(e: Binary) -> Expr:
    """``a`` of ``a % b``, less the multiple of ``b`` that its constant is near: ``i - 1`` of ``(i + 7) % 8``."""
    if not isinstance(e.right, Const) or int(e.right.value) <= 0:
        return e.left
    size = int(e.right.value)
    turns = (linear_form(e.left).constant + size // 2) // size
    return simplify(e.left - turns * size) if turns else e.left
