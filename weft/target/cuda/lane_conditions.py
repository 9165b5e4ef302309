"""Tests in a vector loop that come out the same for all lanes: ``8 * t + v < 4104`` is so for 8 lanes ``v``.

Where rows are a whole number of vectors, those at an edge are then there as a whole or not at all.
"""

from __future__ import annotations

from dataclasses import replace

from weft.ir.affine import Linear, linear_form
from weft.ir.expr import Binary, Compare, Expr, Var, idx
from weft.ir.stmt import For
from weft.ir.visit import Node, rewrite, substitute, walk
from weft.passes.analysis.loop_ranges import constant_extent

#: By the sign of the lane in left minus right: comparisons that a multiple of the lanes decides.
_DECIDED = {1: ("<", ">="), -1: ("<=", ">")}


def decide_by_first_lane(loop: For) -> For:
    """``loop`` with the tests that come out the same for all lanes written without its variable."""
    lanes = constant_extent(loop)
    if lanes is None or lanes < 2 or loop.lo != idx(0):
        return loop

    def decide(n: Node) -> Node | None:
        same = isinstance(n, Compare) and _is_same(n, loop.var, lanes)
        return substitute(n, {loop.var: idx(0)}) if same else None

    return replace(loop, body=rewrite(loop.body, decide))


def _is_same(test: Compare, lane: Var, lanes: int) -> bool:
    """Whether left minus right is the lane, or less it, and multiples of ``lanes``."""
    if test.left.dtype != lane.dtype:
        return False
    difference = linear_form(Binary("-", test.left, test.right))
    sign = difference.terms.pop(lane, 0)
    if test.op not in _DECIDED.get(sign, ()) or any(n == lane for atom in difference.terms for n in walk(atom)):
        return False
    return _are_multiples(difference, lanes)


def _are_multiples(form: Linear, lanes: int) -> bool:
    return form.constant % lanes == 0 and all(
        factor % lanes == 0 or _is_multiple(atom, lanes) for atom, factor in form.terms.items()
    )


def _is_multiple(e: Expr, lanes: int) -> bool:
    """Whether ``e`` is a multiple of ``lanes`` whatever its variables are."""
    if not isinstance(e, Binary) or e.op not in ("min", "max"):
        return False
    return all(_are_multiples(linear_form(side), lanes) for side in (e.left, e.right))
