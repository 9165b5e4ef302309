"""Loops through tiles of which only the last is not full: that one is written out by itself.

::

    for o in 0:21 { for s in o * 32:min(o * 32 + 32, 642) { ... } }
    ->  for o in 0:21 { if o <= 19 { for s in o * 32:o * 32 + 32 { ... } } else { for s in 640:642 { ... } } }

That is loop peeling, for tiles. Ranges and tests inside then speak of numbers in the last tile, and of full tiles
everywhere else. Loops whose tests are right inside, in unrolled and vector loops, are left to `separate_tiles`.
"""

from __future__ import annotations

from dataclasses import replace

from weft.ir.affine import linear_form
from weft.ir.expr import Binary, Compare, Expr, idx
from weft.ir.simplify import simplify
from weft.ir.stmt import For, If, Kernel, Stmt
from weft.ir.visit import count_nodes, map_statements, substitute, walk
from weft.passes.analysis.loop_ranges import constant_extent, loop_range
from weft.passes.analysis.truth import turn_at

#: Nodes of a loop's body that may be written out twice.
LONGEST = 300


def peel_last_tile(kernel: Kernel) -> Kernel:
    """``kernel`` with the last iteration of each outermost loop through tiles that do not come out even by itself."""
    body, peeled = _visit(kernel.body)
    return simplify(replace(kernel, body=body)) if peeled else kernel


def _visit(s: Stmt) -> tuple[Stmt, bool]:
    if isinstance(s, For) and s.kind in ("serial", "parallel") and _ends_early(s) and count_nodes(s.body) <= LONGEST:
        last = loop_range(s, {}).hi
        assert last is not None
        alone = substitute(s.body, {s.var: idx(last)})
        return replace(s, body=If(Compare("<=", s.var, idx(last - 1)), s.body, alone, span=s.body.span)), True
    peeled = False

    def inside(n: Stmt) -> Stmt:
        nonlocal peeled
        made, was_peeled = _visit(n)
        peeled |= was_peeled
        return made

    return map_statements(s, inside), peeled


def _ends_early(loop: For) -> bool:
    """Whether loops inside end where a tile does, or with the last of them before."""
    count = constant_extent(loop)
    if count is None or count < 2:
        return False
    inner = (n for n in walk(loop.body) if isinstance(n, For))
    ends = (e for n in inner for e in walk(n.hi) if isinstance(e, Binary) and e.op == "min")
    return any(_is_last_only(e, loop) for e in ends)


def _is_last_only(e: Expr, loop: For) -> bool:
    """Whether one side of the minimum ``e`` is the smaller in the last iteration of ``loop``, and there alone."""
    assert isinstance(e, Binary)
    more = linear_form(Binary("-", e.left, e.right) - idx(1))
    turn = turn_at(more, loop.var)
    return turn is not None and turn[0] == loop_range(loop, {}).hi
