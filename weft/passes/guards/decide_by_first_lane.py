"""Tests in a vector loop that come out the same for all lanes: ``8 * t + v < 4104`` is so for 8 lanes ``v``.

Where rows are a whole number of vectors, those at an edge are then there as a whole or not at all.
"""

from __future__ import annotations

from dataclasses import replace

from weft.ir.affine import Linear, linear_form
from weft.ir.expr import Binary, Compare, Expr, Var, idx
from weft.ir.stmt import For, Kernel
from weft.ir.visit import Node, rewrite, substitute, walk
from weft.passes.analysis.loop_ranges import constant_extent

#: By the sign of the lane in left minus right: comparisons that a multiple of the lanes decides.
_DECIDED = {1: ("<", ">="), -1: ("<=", ">")}


def decide_by_first_lane(kernel: Kernel) -> Kernel:
    """``kernel`` with the tests that come out the same for all lanes of a vector loop written without its variable."""
    return rewrite(kernel, lambda n: _decided(n) if isinstance(n, For) and n.kind == "vector" else None)


def _decided(loop: For) -> For | None:
    lanes = constant_extent(loop)
    if lanes is None or lanes < 2 or loop.lo != idx(0):
        return None

    def decide(n: Node) -> Node | None:
        same = isinstance(n, Compare) and _is_same(n, loop.var, lanes)
        return substitute(n, {loop.var: idx(0)}) if same else None

    body = rewrite(loop.body, decide)
    return None if body is loop.body else replace(loop, body=body)


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
