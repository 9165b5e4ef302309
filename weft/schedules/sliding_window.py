"""Sliding windows: where storage outlives an iteration, only what earlier iterations have not computed is computed.

Of the halo that neighbouring iterations share nothing is computed twice. In ``for y`` a reader needs rows ``y`` to
``y + 2``; the rows up to ``y + 1`` are there since the iteration before, so from the second iteration on one row is
left to compute.
"""

from __future__ import annotations

from collections.abc import Sequence

from weft.ir.expr import Binary, Compare, Expr, Select, idx
from weft.ir.interval import Interval
from weft.ir.nesting import statements
from weft.ir.simplify_expr import ExprSimplifier
from weft.ir.stmt import Alloc, Break, Continue, For, Return, Seq
from weft.ir.visit import substitute
from weft.poly.infer_spans import Span, Spans, is_at_most, knowing_loops, mentions
from weft.schedules.compute_at import is_settled
from weft.schedules.find import path_to, size_ranges
from weft.schedules.infer_stage import Stage
from weft.schedules.place_stage import Place


def slide(stage: Stage, spans: Spans, place: Place, outer: int) -> tuple[Spans, list[str]]:
    """``spans`` without what previous iterations of the loops behind the first ``outer`` have left behind.

    Also the loops along which the window slides.
    """
    found, along = list(spans), []
    between = place.loops[outer:]
    with knowing_loops(place.loops, size_ranges(place.kernel)) as simple:
        for loop in between:
            dim = _moving_dim(loop, between, spans, place)
            if dim is None or not is_settled(place.kernel, stage, loop):
                continue
            fresh = _fresh_part(loop, spans[dim], simple)
            if fresh is not None:
                found[dim] = (fresh, spans[dim][1])
                along.append(loop.var.name)
    return tuple(found), along


def _moving_dim(loop: For, between: Sequence[For], spans: Spans, place: Place) -> int | None:
    """The one dimension whose window moves with ``loop``, and with no other of the loops."""
    name = loop.var.name
    dims = [d for d, span in enumerate(spans) if any(mentions(e, {name}) for e in span)]
    if len(dims) != 1 or loop.kind not in ("serial", "unroll"):
        return None
    if any(isinstance(s, (Break, Continue, Return)) for s in statements(loop)):
        return None
    others = {f.var.name for f in between if f is not loop}
    inner = between[next(i for i, f in enumerate(between) if f is loop) + 1 :]
    if any(mentions(e, others) for e in spans[dims[0]]) or any(
        mentions(e, {name}) for f in inner for e in (f.lo, f.hi)
    ):
        return None
    path = path_to(loop, place.parent)
    return dims[0] if all(isinstance(s, (For, Seq, Alloc)) for s in path[:-1]) else None


def _fresh_part(loop: For, span: Span, simple: ExprSimplifier) -> Expr | None:
    """Where the part of ``span`` starts that the iteration before did not have; None where it does not move onward."""
    first, end = span
    before = {loop.var: loop.var - idx(1)}
    was_first, was_end = (simple.expr(substitute(e, before)) for e in span)
    ranges: dict[str, Interval] = {**simple.ranges}
    if not is_at_most(was_first, first, ranges) or not is_at_most(was_end, end, ranges):
        return None
    return simple.expr(Select(Compare(">", loop.var, loop.lo), Binary("max", first, was_end), first))
