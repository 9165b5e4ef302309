"""Vector loops of any extent to loops over whole vectors, and what is left over.

``vector for i in lo:hi`` becomes a serial loop around a vector loop of a fixed number of lanes from 0 (strip-mining),
then the tail: one predicated vector, that is, one under a mask where the machine has masks, else a serial loop. A loop
that cannot run as lanes becomes serial, which always is right; so do loops of threads inside one that can.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from weft.ir.expr import Binary, Compare, Const, Expr, Var, idx
from weft.ir.nesting import in_turn
from weft.ir.simplify import simplify
from weft.ir.stmt import For, If, Kernel, Seq, Stmt
from weft.ir.visit import fresh_name, map_statements, substitute, used_names
from weft.passes.analysis.check_vector import check_vector

#: How many lanes a loop gets, where it was scheduled as a vector loop, or not.
ChooseLanes = Callable[[For, bool], int]


def strip_vector_loops(kernel: Kernel, *, choose_lanes: ChooseLanes, has_masks: bool) -> Kernel:
    """Every vector loop cut to the lanes that ``choose_lanes`` gives for it."""
    taken = used_names(kernel)

    def visit(s: Stmt, in_lanes: bool) -> Stmt:
        lanes = 1
        if isinstance(s, For) and s.kind == "vector":
            lanes = 1 if in_lanes or check_vector(s) is not None else choose_lanes(s, True)
            if lanes == 1:
                s = replace(s, kind="serial")
        inside = in_lanes or lanes > 1
        s = map_statements(s, lambda n: visit(n, inside))
        fits = isinstance(s, For) and s.lo == idx(0) and s.hi == idx(lanes)
        return strip_loop(s, lanes, taken, has_masks) if isinstance(s, For) and lanes > 1 and not fits else s

    return replace(kernel, body=visit(kernel.body, False))


@dataclass(frozen=True, slots=True)
class _Strip:
    """How one loop is cut; ``lane`` is a variable of its body that stands for the number of the lane."""

    loop: For
    lanes: int
    taken: set[str]
    has_masks: bool
    lane: Var | None


def strip_loop(loop: For, lanes: int, taken: set[str], has_masks: bool, lane: Var | None = None) -> Stmt:
    """A loop, whose iterations can be lanes, cut to vectors; ``taken`` are names not to use for its parts.

    ``lane`` may name a variable of the body that stands for the lane's number (0 where there are no lanes).
    """
    strip = _Strip(loop, lanes, taken, has_masks, lane)
    extent = simplify(Binary("-", loop.hi, loop.lo))
    if isinstance(extent, Const):
        return _strip_constant(strip, int(extent.value))
    width = idx(lanes)
    whole = Binary("//", Binary("max", extent, idx(0)), width)
    start = Binary("+", loop.lo, Binary("*", whole, width))
    rest = _rest(strip, start)
    left_over = If(Compare("<", start, loop.hi), rest) if has_masks else rest
    return Seq((_vectors(strip, whole), left_over), span=loop.span)


def _strip_constant(strip: _Strip, extent: int) -> Stmt:
    count = max(0, extent) // strip.lanes
    parts: list[Stmt] = []
    if count:
        parts.append(_vectors(strip, idx(count)))
    if extent > count * strip.lanes:
        parts.append(_rest(strip, simplify(Binary("+", strip.loop.lo, idx(count * strip.lanes)))))
    return parts[0] if len(parts) == 1 else Seq(tuple(parts), span=strip.loop.span)


def _vectors(strip: _Strip, count: Expr) -> Stmt:
    """``count`` whole vectors from the loop's start."""
    loop = strip.loop
    if isinstance(count, Const) and count.value == 1:
        return _lanes(strip, loop.lo, strip.lanes)
    outer = Var(fresh_name(f"{loop.var.name}_vector", strip.taken), span=loop.var.span)
    start = simplify(Binary("+", loop.lo, Binary("*", outer, idx(strip.lanes))))
    return For(outer, idx(0), count, "serial", _lanes(strip, start, strip.lanes), span=loop.span)


def _lanes(strip: _Strip, start: Expr, lanes: int, limit: Expr | None = None) -> For:
    """One vector from ``start``; lanes from ``limit`` on do nothing."""
    loop = strip.loop
    lane = Var(fresh_name(f"{loop.var.name}_lane", strip.taken), span=loop.var.span)
    here = lane if isinstance(start, Const) and start.value == 0 else Binary("+", start, lane)
    body = substitute(loop.body, {loop.var: here} if strip.lane is None else {loop.var: here, strip.lane: lane})
    if limit is not None:
        body = If(Compare("<", lane, simplify(Binary("-", limit, start))), body, span=loop.span)
    return For(lane, idx(0), idx(lanes), "vector", in_turn(body, "thread"), span=loop.span)


def _rest(strip: _Strip, start: Expr) -> Stmt:
    loop = strip.loop
    left = simplify(Binary("-", loop.hi, start))
    if not strip.has_masks:
        if isinstance(left, Const) and int(left.value) > 1:
            return _smaller_vectors(strip, start, int(left.value))
        body = loop.body if strip.lane is None else substitute(loop.body, {strip.lane: idx(0)})
        return replace(loop, kind="serial", lo=start, body=body)
    if not isinstance(left, Const):
        return _lanes(strip, start, strip.lanes, loop.hi)
    if left.value == 1:
        return substitute(loop.body, {loop.var: start} if strip.lane is None else {loop.var: start, strip.lane: idx(0)})
    fewest = 1 << (int(left.value) - 1).bit_length()
    return _lanes(strip, start, fewest, loop.hi if left.value < fewest else None)


def _smaller_vectors(strip: _Strip, start: Expr, count: int) -> Stmt:
    """``count`` iterations as vectors of powers of two, the largest first: 6 as 4 and 2."""
    lanes = 1 << (count.bit_length() - 1)
    first = _lanes(strip, start, lanes)
    if lanes == count:
        return first
    return Seq((first, _rest(strip, simplify(Binary("+", start, idx(lanes))))), span=strip.loop.span)
