"""The box of a buffer to set storage aside for: as `weft.poly.infer_spans`, as starts and extents.

A dimension whose subscripts cannot be bounded is taken whole, and sides are numbers wherever one suffices. A box
may reach beyond the buffer where guards keep the accesses inside: who copies it must test the buffer's bounds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from weft.ir.buffer import Buffer
from weft.ir.expr import Binary, BinaryOp, Const, Expr, idx
from weft.ir.interval import Interval, bounds
from weft.ir.simplify import simplify
from weft.poly.infer_spans import Limits, Span
from weft.poly.leaves import Access, Leaf

Ranges = Mapping[str, Interval]


@dataclass(frozen=True, slots=True)
class Box:
    """Elements from ``starts``, ``extents`` a side."""

    starts: tuple[Expr, ...]
    extents: tuple[Expr, ...]


def infer_box(
    buffer: Buffer,
    touched: Sequence[tuple[Leaf, Access]],
    fixed: set[str],
    ranges: Ranges,
    *,
    beyond: bool = False,
) -> Box:
    """A box that holds all accesses ``touched``, in terms of the variables ``fixed``.

    Where it starts with the buffer it ends with it, unless what guards keep from being touched counts ``beyond``.
    """
    starts: list[Expr] = []
    extents: list[Expr] = []
    around = Limits(lambda leaf: {*leaf.loop_names, *leaf.lets} - fixed, ranges)
    for d, size in enumerate(buffer.shape):
        start, extent = _side([around.span(leaf, a, d) for leaf, a in touched], size, ranges)
        if start == idx(0) and not beyond:
            more = bounds(simplify(extent - size, ranges), ranges).hi
            extent = size if more is None or more > 0 else extent
        starts.append(start)
        extents.append(extent)
    return Box(tuple(starts), tuple(extents))


def _side(spans: Sequence[Span | None], size: Expr, ranges: Ranges) -> tuple[Expr, Expr]:
    """Start and extent of one dimension."""
    ends = [s for s in spans if s is not None]
    if not ends or len(ends) < len(spans):
        return idx(0), size
    first = _extreme("min", [low for low, _ in ends], ranges)
    last = _extreme("max", [high for _, high in ends], ranges)
    length = simplify(last - first + 1, ranges)
    if isinstance(length, Const):
        return first, length if length.value >= 0 else idx(0)
    interval = bounds(length, ranges)
    if interval.hi is not None:
        return first, idx(max(interval.hi, 0))
    if interval.lo is None or interval.lo < 0:
        length = simplify(Binary("max", length, idx(0)), ranges)
    return first, length


def _extreme(op: BinaryOp, ends: Sequence[Expr], ranges: Ranges) -> Expr:
    result = ends[0]
    for e in ends[1:]:
        result = result if e == result else simplify(Binary(op, result, e), ranges)
    return result
