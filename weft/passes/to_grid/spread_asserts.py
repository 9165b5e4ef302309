"""Nests that only check are spread over many threads: their iterations depend on nothing but memory."""

from __future__ import annotations

from dataclasses import replace

from weft.ir.expr import Expr, Var, idx
from weft.ir.nesting import statement_kinds
from weft.ir.stmt import Assert, For, If, Kernel, Let, Seq, Stmt
from weft.ir.visit import fresh_name, map_statements, substitute, used_names
from weft.passes.analysis.loop_ranges import constant_extent

_THREADS = 256


def spread_asserts(kernel: Kernel) -> Kernel:
    """``kernel`` with the outermost serial loops around nothing but asserts as blocks of threads."""
    return replace(kernel, body=_spread(kernel.body, used_names(kernel)))


def _spread(s: Stmt, taken: set[str]) -> Stmt:
    if isinstance(s, For):
        return _spread_nest(s, taken) if s.kind == "serial" and only_checks(s) else s
    return map_statements(s, lambda n: _spread(n, taken))


def only_checks(s: Stmt) -> bool:
    """Whether ``s`` does nothing but to test."""
    return statement_kinds(s) <= {For, If, Let, Seq, Assert}


def _spread_nest(loop: For, taken: set[str]) -> Stmt:
    """The loops of a perfect nest with constant bounds counted as one, in blocks of threads."""
    nest, body = [loop], loop.body
    while isinstance(body, For) and body.kind == "serial" and constant_extent(body) is not None:
        nest.append(body)
        body = body.body
    if constant_extent(loop) is None:
        return replace(loop, kind="block")
    block, thread = Var(fresh_name("check", taken)), Var(fresh_name("checker", taken))
    number: Expr = block * idx(_THREADS) + thread
    total, values = 1, {}
    for inner in reversed(nest):
        extent = constant_extent(inner) or 0
        position = number // idx(total) % idx(extent) if total > 1 or inner is not nest[0] else number
        values[inner.var] = inner.lo + position
        total *= extent
    if total == 0:
        return Seq(())
    guarded = If(number < idx(total), substitute(body, values), span=loop.span)
    threads = For(thread, idx(0), idx(_THREADS), "thread", guarded, span=loop.span)
    return For(block, idx(0), idx(-(-total // _THREADS)), "block", threads, span=loop.span)
