"""Loops through a tile count from zero: ``for i in t * 32:t * 32 + 32`` runs ``0:32``, with ``t * 32 + i`` inside.

Subscripts of storage that holds just the tile then are the loop itself, which is what later passes look for.
"""

from __future__ import annotations

from dataclasses import replace

from weft.ir.expr import Const, idx
from weft.ir.simplify import simplify
from weft.ir.stmt import For, Kernel, Stmt
from weft.ir.visit import rewrite, substitute


def rebase_loops(kernel: Kernel) -> Kernel:
    """Every loop of a known number of iterations from an unknown start counts from zero."""

    def visit(n: object) -> Stmt | None:
        if not isinstance(n, For) or isinstance(n.lo, Const):
            return None
        extent = simplify(n.hi - n.lo)
        if not isinstance(extent, Const):
            return None
        return replace(n, lo=idx(0), hi=extent, body=substitute(n.body, {n.var: n.lo + n.var}))

    body = rewrite(kernel.body, visit)
    return kernel if body is kernel.body else replace(kernel, body=body)
