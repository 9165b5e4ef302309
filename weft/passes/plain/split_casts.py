"""Floats of indices in loops that are written out: what changes from element to element is a number of its own.

::

    unroll i in 0:64 { X[i] = P[i] + float32(t * 64 + i - s) }
    ->  unroll i in 0:64 { X[i] = P[i] + (float32(t * 64 - s) + float32(i)) }

A GPU converts a quarter as many numbers at a time as it adds. Where all are below 2**24 the sum is exact.
"""

from __future__ import annotations

from dataclasses import replace

from weft.ir import dtype as dt
from weft.ir.affine import Linear, linear_form
from weft.ir.expr import Binary, Cast, Var
from weft.ir.interval import Ranges, bounds
from weft.ir.nesting import statements_in
from weft.ir.simplify import assigned_names
from weft.ir.stmt import For, Kernel, Let, Stmt
from weft.ir.visit import Node, map_statements, rewrite, walk
from weft.passes.analysis.loop_ranges import loop_range

#: Integers up to this are float32 numbers.
_EXACT = 1 << 24


def split_casts(kernel: Kernel) -> Kernel:
    """``kernel`` with conversions of sums in unrolled loops as sums of conversions."""
    return replace(kernel, body=_visit(kernel.body, {}, assigned_names(kernel.body)))


def _visit(s: Stmt, ranges: Ranges, changing: frozenset[str]) -> Stmt:
    if isinstance(s, For):
        ranges = {**ranges, s.var.name: loop_range(s, ranges)}
        if s.kind == "unroll":
            return _split(s, ranges)
    elif isinstance(s, Let) and s.var.name not in changing:
        ranges = {**ranges, s.var.name: bounds(s.value, ranges)}
    return map_statements(s, lambda n: _visit(n, ranges, changing))


def _split(nest: For, ranges: Ranges) -> Stmt:
    loops = [n for n in statements_in(nest, For) if n.kind in ("unroll", "vector")]
    inner = {**ranges, **{x.var.name: loop_range(x, ranges) for x in loops}}
    own = {x.var for x in loops}

    def visit(n: Node) -> Node | None:
        if not isinstance(n, Cast) or n.dtype != dt.float32 or n.operand.dtype != dt.index:
            return None
        form = linear_form(n.operand)
        here = Linear({e: c for e, c in form.terms.items() if e in own}, form.constant)
        around = Linear({e: c for e, c in form.terms.items() if e not in own})
        hidden = any(isinstance(v, Var) and v in own for e in around.terms for v in walk(e))
        left, right = (part.expr(dt.index) for part in (around, here))
        known = all(bounds(e, inner).within(-_EXACT, _EXACT) for e in (left, right, n.operand))
        if not here.terms or not around.terms or hidden or not known:
            return None
        return Binary("+", replace(n, operand=left), replace(n, operand=right))

    return rewrite(nest, visit)
