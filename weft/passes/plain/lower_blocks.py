"""Blocks to plain statements: iterators replaced by what they are bound to, initializations placed."""

from __future__ import annotations

from dataclasses import replace

from weft.ir.expr import Compare, Expr, Var
from weft.ir.interval import Interval, Ranges, bounds, ranges_through
from weft.ir.nesting import around
from weft.ir.stmt import Block, For, If, Kernel, Seq, Stmt
from weft.ir.visit import map_statements, substitute
from weft.passes.analysis.loop_ranges import loop_range, runs_at_least_once


def lower_blocks(kernel: Kernel) -> Kernel:
    """Every block replaced by its body.

    An initialization goes before the outermost reduction loop where the reduction loops are the
    innermost ones and surely run; elsewhere it stays in place under a test for the first iteration.
    """
    return replace(kernel, body=_lower(kernel.body, {}))


def _lower(s: Stmt, ranges: Ranges) -> Stmt:
    if isinstance(s, Block):
        return _lower_nest([], s, ranges)
    if isinstance(s, For):
        loops, inside = [], s
        while isinstance(inside, For):
            loops.append(inside)
            inside = inside.body  # type: ignore[assignment]
        if isinstance(inside, Block):
            return _lower_nest(loops, inside, ranges)
        return around(loops, _lower(inside, ranges_through(loops, ranges)))
    return map_statements(s, lambda n: _lower(n, ranges))


def _lower_nest(loops: list[For], block: Block, ranges: Ranges) -> Stmt:
    """The block directly inside ``loops``, which are given outermost first."""
    inner = ranges_through(loops, ranges)
    values: dict[Var, Expr] = {i.var: i.binding for i in block.iters}
    body = _lower(substitute(block.body, values), inner)
    if block.init is None:
        return around(loops, body)
    init = _lower(substitute(block.init, values), inner)
    split = _reduction_depth(loops, block, ranges)
    if split is not None:
        return around(loops[:split], Seq((init, around(loops[split:], body))))
    first = [Compare("==", i.binding, substitute(i.lo, values)) for i in block.iters if i.kind == "reduce"]
    for test in reversed(first):
        init = If(test, init)
    return around(loops, Seq((init, body)))


def _reduction_depth(loops: list[For], block: Block, ranges: Ranges) -> int | None:
    """How many loops stay outside the initialization, or None where it must stay in place."""
    values: dict[Var, Expr] = {i.var: i.binding for i in block.iters}
    starts = {i.binding: substitute(i.lo, values) for i in block.iters if i.kind == "reduce"}
    depth = len(loops) - len(starts)
    if depth < 0 or {loop.var for loop in loops[depth:]} != set(starts):
        return None
    inner_ranges = dict(ranges)
    for position, loop in enumerate(loops):
        if position >= depth:
            starts_there = starts[loop.var] == loop.lo or bounds(starts[loop.var] - loop.lo, inner_ranges) == Interval(
                0, 0
            )
            if loop.kind not in ("serial", "unroll") or not starts_there or not runs_at_least_once(loop, inner_ranges):
                return None
        inner_ranges[loop.var.name] = loop_range(loop, inner_ranges)
    return depth
