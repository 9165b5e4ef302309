"""Vector loops of any extent to loops over whole vectors, and what is left over.

``vector for i in lo:hi`` becomes a serial loop around a vector loop of a fixed number of lanes
from 0, then the rest: one vector under a mask where the machine has masks, else a serial loop.
A loop that cannot run as lanes becomes serial, which always is right.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from weft.ir.expr import Binary, Compare, Const, Expr, Var, idx
from weft.ir.simplify import simplify
from weft.ir.stmt import For, If, Kernel, Seq, Stmt
from weft.ir.visit import fresh_name, rebuild, substitute, used_names
from weft.passes.check_vector import check_vector

ChooseLanes = Callable[[For], int]


def strip_vector_loops(kernel: Kernel, choose_lanes: ChooseLanes, *, has_masks: bool) -> Kernel:
    """Every vector loop cut to the lanes that ``choose_lanes`` gives for it."""
    taken = used_names(kernel)

    def visit(s: Stmt, in_lanes: bool) -> Stmt:
        lanes = 1
        if isinstance(s, For) and s.kind == "vector":
            lanes = 1 if in_lanes or check_vector(s) is not None else choose_lanes(s)
            if lanes == 1:
                s = replace(s, kind="serial")
        inside = in_lanes or lanes > 1
        s = rebuild(s, lambda n: visit(n, inside) if isinstance(n, Stmt) else n)
        return _strip(s, lanes, taken, has_masks) if isinstance(s, For) and lanes > 1 else s

    return replace(kernel, body=visit(kernel.body, False))


def _strip(loop: For, lanes: int, taken: set[str], has_masks: bool) -> Stmt:
    extent = simplify(Binary("-", loop.hi, loop.lo))
    if isinstance(extent, Const):
        return _strip_constant(loop, int(extent.value), lanes, taken, has_masks)
    width = idx(lanes)
    whole = Binary("//", Binary("max", extent, idx(0)), width)
    start = Binary("+", loop.lo, Binary("*", whole, width))
    rest = _rest(loop, start, lanes, taken, has_masks)
    left_over = If(Compare("<", start, loop.hi), rest) if has_masks else rest
    return Seq((_vectors(loop, whole, lanes, taken), left_over), span=loop.span)


def _strip_constant(loop: For, extent: int, lanes: int, taken: set[str], has_masks: bool) -> Stmt:
    count = extent // lanes
    parts: list[Stmt] = []
    if count:
        parts.append(_vectors(loop, idx(count), lanes, taken))
    if extent > count * lanes:
        parts.append(_rest(loop, simplify(Binary("+", loop.lo, idx(count * lanes))), lanes, taken, has_masks))
    return parts[0] if len(parts) == 1 else Seq(tuple(parts), span=loop.span)


def _vectors(loop: For, count: Expr, lanes: int, taken: set[str]) -> Stmt:
    """``count`` whole vectors from the loop's start."""
    outer = Var(fresh_name(f"{loop.var.name}_vector", taken), span=loop.var.span)
    if isinstance(count, Const) and count.value == 1:
        return _lanes(loop, loop.lo, lanes, taken)
    start = simplify(Binary("+", loop.lo, Binary("*", outer, idx(lanes))))
    return For(outer, idx(0), count, "serial", _lanes(loop, start, lanes, taken), span=loop.span)


def _lanes(loop: For, start: Expr, lanes: int, taken: set[str], limit: Expr | None = None) -> For:
    """One vector from ``start``; lanes from ``limit`` on do nothing."""
    lane = Var(fresh_name(f"{loop.var.name}_lane", taken), span=loop.var.span)
    here = Binary("+", start, lane)
    body = substitute(loop.body, {loop.var: here})
    if limit is not None:
        body = If(Compare("<", lane, simplify(Binary("-", limit, start))), body, span=loop.span)
    return For(lane, idx(0), idx(lanes), "vector", body, span=loop.span)


def _rest(loop: For, start: Expr, lanes: int, taken: set[str], has_masks: bool) -> Stmt:
    if not has_masks:
        return replace(loop, kind="serial", lo=start)
    left = simplify(Binary("-", loop.hi, start))
    fewest = lanes
    if isinstance(left, Const):
        fewest = max(2, 1 << (int(left.value) - 1).bit_length())
    return _lanes(loop, start, min(lanes, fewest), taken, loop.hi)
