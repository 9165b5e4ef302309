"""Vector loops over rows put end to end: lanes within one row need no division each.

    vector v in 0:8 { O[(b + v) // 4093, (b + v) % 4093] = X[(b + v) // 4093, (b + v) % 4093] + W[(b + v) % 4093] }

Where ``b % 4093 + 7 < 4093``, all lanes are in row ``b // 4093`` at ``b % 4093 + v``, so that the elements of ``W`` are
neighbours, too. Else the loop runs as it was.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from weft.ir.affine import linear_form
from weft.ir.expr import Binary, Compare, Const, Expr, Load, Var, idx
from weft.ir.offsets import linear_offset
from weft.ir.simplify import simplify
from weft.ir.stmt import For, Kernel, Stmt, Store
from weft.ir.visit import Node, map_statements, substitute, walk
from weft.passes.analysis.conditions import mentions
from weft.passes.analysis.loop_ranges import constant_extent
from weft.passes.analysis.truth import for_all_of
from weft.passes.guards.ask_once import Choice, decide
from weft.passes.guards.cut_pieces import TOGETHER


def keep_within_rows(kernel: Kernel) -> Kernel:
    """``kernel`` with vector loops written out for lanes in one row where that makes them neighbours."""

    def visit(n: Stmt) -> Stmt:
        return _within_row(n) if isinstance(n, For) and n.kind == "vector" else map_statements(n, visit)

    return replace(kernel, body=visit(kernel.body))


def _within_row(loop: For) -> Stmt:
    lanes = constant_extent(loop)
    divisions = set(_divisions(loop))
    if lanes is None or len(divisions) != 1 or any(isinstance(n, TOGETHER) for n in walk(loop.body)):
        return loop
    ((number, length),) = divisions
    if length < lanes or not _has_scattered_lanes(loop):
        return loop
    start = simplify(substitute(number, {loop.var: loop.lo}))
    first, row = Binary("%", start, idx(length)), Binary("//", start, idx(length))
    place: Expr = first + (loop.var - loop.lo)

    def choices(n: Node) -> Iterator[Choice]:
        if isinstance(n, Binary) and n.op in ("%", "//") and n.left == number:
            yield Choice(place if n.op == "%" else row, [Compare("<", place, idx(length))])

    return decide(loop, {}, choices, for_all_of).before(loop)


def _divisions(loop: For) -> Iterator[tuple[Expr, int]]:
    """What is divided by which numbers, if it grows with the lanes."""
    for n in walk(loop.body):
        if isinstance(n, Binary) and n.op in ("%", "//") and mentions(n, loop.var.name):
            plain = isinstance(n.right, Const) and linear_form(n.left).terms.get(loop.var) == 1
            yield n.left, int(n.right.value) if plain else 0  # type: ignore[attr-defined]


def _has_scattered_lanes(loop: For) -> bool:
    """Whether an access divides even as one offset: of other accesses, quotient and remainder cancel."""
    for n in walk(loop.body):
        if isinstance(n, (Load, Store)) and n.buffer.scope == "global":
            offset = linear_offset(n.buffer, n.indices)
            atoms = () if offset is None else (a for a in offset.terms if not isinstance(a, Var))
            if any(mentions(a, loop.var.name) for a in atoms):
                return True
    return False
