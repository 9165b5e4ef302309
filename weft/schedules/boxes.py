"""The box of a buffer to set storage aside for: as `weft.poly.infer_spans`, as starts and extents.

A dimension whose subscripts cannot be bounded is taken whole, and sides are numbers wherever one suffices. A box
may reach beyond the buffer where guards keep the accesses inside: who copies it must test the buffer's bounds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from weft.ir.buffer import Buffer
from weft.ir.expr import Axis, Binary, BinaryOp, Const, Expr, idx
from weft.ir.interval import Interval, bounds, range_between
from weft.ir.simplify import simplify
from weft.ir.visit import free_vars
from weft.poly.infer_spans import Span, extremes
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
    around = _Limits(fixed, ranges)
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


class _Limits:
    """Between which subscripts accesses lie; those of one nest share most of the answer."""

    def __init__(self, fixed: set[str], ranges: Ranges) -> None:
        self.fixed = fixed
        self.ranges = ranges
        self.of_loops: dict[int, tuple[dict[str, Span], dict[str, Interval]]] = {}
        self.spans: dict[tuple[int, tuple[Axis, ...], Expr], Span | None] = {}

    def span(self, leaf: Leaf, access: Access, d: int) -> Span | None:
        """The least and the greatest subscript in dimension ``d``."""
        index = leaf.resolve(access.indices[d])
        key = (id(leaf.loops), access.axes, index)
        if key not in self.spans:
            self.spans[key] = self.infer_span(leaf, access, index)
        return self.spans[key]

    def infer_span(self, leaf: Leaf, access: Access, index: Expr) -> Span | None:
        limits, ranges = self.around(leaf)
        if access.axes:
            limits, ranges = dict(limits), dict(ranges)
            for axis in access.axes:
                _add_limits(leaf, (axis.var.name, axis.lo, axis.hi), limits, ranges)
        span = extremes(simplify(index, ranges), limits)
        if span is None or any(not free_vars(end).keys() <= self.fixed for end in span):
            return None
        return simplify(span[0], ranges), simplify(span[1], ranges)

    def around(self, leaf: Leaf) -> tuple[dict[str, Span], dict[str, Interval]]:
        """Ends and range of each loop that moves."""
        kept = self.of_loops.get(id(leaf.loops))
        if kept is None:
            kept = self.of_loops[id(leaf.loops)] = {}, dict(self.ranges)
            for loop in leaf.loops:
                if loop.hi is not None and loop.name not in self.fixed:
                    _add_limits(leaf, (loop.name, loop.lo, loop.hi), *kept)
        return kept


def _add_limits(leaf: Leaf, loop: tuple[str, Expr, Expr], limits: dict[str, Span], ranges: dict[str, Interval]) -> None:
    name, lo, hi = loop[0], leaf.resolve(loop[1]), leaf.resolve(loop[2])
    limits[name] = lo, simplify(hi - 1, ranges)
    ranges[name] = range_between(lo, hi, ranges)
