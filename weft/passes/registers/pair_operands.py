"""Numbers in registers combined in pairs before they are combined with a running maximum, minimum or sum.

::

    unroll i, j in 0:2 { m = max(m, x[i, j]) }   ->   unroll i { m = max(m, max(x[i, 0], x[i, 1])) }

As many operations, of which half as many wait for one another. Only in launches in which matrices are multiplied. For
fast numerics: sums are added in another order.
"""

from __future__ import annotations

from dataclasses import replace

from weft.ir.expr import Binary, Expr, Load, idx
from weft.ir.simplify import simplify
from weft.ir.stmt import For, Kernel, Stmt, Store
from weft.ir.visit import free_vars, loads, map_statements, substitute
from weft.passes.analysis.loop_ranges import constant_extent
from weft.passes.analysis.matrix_work import has_products

_OPERATORS = ("max", "min", "+")


def pair_operands(kernel: Kernel) -> Kernel:
    """``kernel`` with innermost loops of two iterations, which are written out, as one operation more."""

    def visit(s: Stmt) -> Stmt:
        if isinstance(s, For) and s.kind == "block" and not has_products(s):
            return s
        if isinstance(s, For) and s.kind == "unroll" and isinstance(s.body, Store):
            return _paired(s, s.body)
        return map_statements(s, visit)

    return replace(kernel, body=visit(kernel.body))


def _paired(loop: For, store: Store) -> Stmt:
    own, value = Load(store.buffer, store.indices), store.value
    if constant_extent(loop) != 2 or store.buffer.scope not in ("local", "register") or not own.dtype.is_float:
        return loop
    if not isinstance(value, Binary) or value.op not in _OPERATORS or own not in (value.left, value.right):
        return loop
    other = value.right if value.left == own else value.left
    moves = any(loop.var.name in free_vars(i) for i in store.indices)
    if moves or loop.var.name not in free_vars(other) or any(n.buffer == store.buffer for n in loads(other)):
        return loop
    first, second = (simplify(substitute(other, {loop.var: at})) for at in (loop.lo, loop.lo + idx(1)))
    pair: Expr = Binary(value.op, first, second)
    return replace(store, value=Binary(value.op, own, pair))
