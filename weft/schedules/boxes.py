"""The box of a buffer to set storage aside for: as `weft.poly.infer_region`, but always an answer.

A dimension whose subscripts cannot be bounded is taken whole, and sides are numbers wherever one suffices. A box
may reach beyond the buffer where guards keep the accesses inside: who copies it must test the buffer's bounds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from weft.ir.buffer import Buffer
from weft.ir.expr import Binary, BinaryOp, Const, Expr, idx
from weft.ir.interval import Interval, bounds, half_open
from weft.ir.simplify import simplify
from weft.ir.visit import free_vars
from weft.poly.infer_region import Box, extremes
from weft.poly.leaves import Access, Leaf

Ranges = Mapping[str, Interval]


def infer_box(buffer: Buffer, touched: Sequence[tuple[Leaf, Access]], fixed: set[str], ranges: Ranges) -> Box:
    """A box that holds all accesses ``touched``, in terms of the variables ``fixed``."""
    starts: list[Expr] = []
    extents: list[Expr] = []
    for d, size in enumerate(buffer.shape):
        start, extent = _side([_span(leaf, a, d, fixed, ranges) for leaf, a in touched], size, ranges)
        if start == idx(0):
            beyond = bounds(simplify(extent - size, ranges), ranges).hi
            extent = size if beyond is None or beyond > 0 else extent
        starts.append(start)
        extents.append(extent)
    return Box(tuple(starts), tuple(extents))


def _side(spans: Sequence[tuple[Expr, Expr] | None], size: Expr, ranges: Ranges) -> tuple[Expr, Expr]:
    """Start and extent of one dimension."""
    found = [s for s in spans if s is not None]
    if not found or len(found) < len(spans):
        return idx(0), size
    first = _extreme("min", [low for low, _ in found], ranges)
    last = _extreme("max", [high for _, high in found], ranges)
    length = simplify(last - first + 1, ranges)
    if isinstance(length, Const):
        return first, length if length.value >= 0 else idx(0)
    known = bounds(length, ranges)
    if known.hi is not None:
        return first, idx(max(known.hi, 0))
    if known.lo is None or known.lo < 0:
        length = simplify(Binary("max", length, idx(0)), ranges)
    return first, length


def _extreme(op: BinaryOp, ends: Sequence[Expr], ranges: Ranges) -> Expr:
    result = ends[0]
    for e in ends[1:]:
        result = result if e == result else simplify(Binary(op, result, e), ranges)
    return result


def _span(leaf: Leaf, access: Access, d: int, fixed: set[str], ranges: Ranges) -> tuple[Expr, Expr] | None:
    """The least and the greatest subscript in dimension ``d``."""
    limits: dict[str, tuple[Expr, Expr]] = {}
    known = dict(ranges)
    inner = [(x.name, x.lo, x.hi) for x in leaf.loops if x.name not in fixed]
    for name, lo, hi in (*inner, *((a.var.name, a.lo, a.hi) for a in access.axes)):
        if hi is not None:
            limits[name] = leaf.resolve(lo), simplify(leaf.resolve(hi) - 1, known)
            known[name] = half_open(bounds(limits[name][0], known), bounds(leaf.resolve(hi), known))
    span = extremes(simplify(leaf.resolve(access.indices[d]), known), limits)
    if span is None or any(not free_vars(end).keys() <= fixed for end in span):
        return None
    return simplify(span[0], known), simplify(span[1], known)
