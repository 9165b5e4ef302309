"""What is added to each sum of a product that is scaled, added by the product: sums start with it.

::

    P[i] = 0; P[i] = P[i] + products                   P[i] = float32(i) * f / c; P[i] = P[i] + products
    X[i] = P[i] * c + float32(i) * f                   X[i] = P[i]
    m = -inf; m = max(m, X[i])                    ->   m = -inf; m = max(m, X[i]); m = m * c
    w[i] = exp(X[i] - y)                               w[i] = exp(X[i] * c - y)

The product adds it at no cost, and it is known before there is anything to wait for. A factor ``c`` that is more than
zero leaves a maximum where it is. For fast numerics: sums are rounded elsewhere.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

from weft.ir import dtype as dt
from weft.ir.expr import Binary, Const, Expr, Load, Select, Var
from weft.ir.nesting import flat, perfect_nest, sequence
from weft.ir.stmt import Alloc, For, Kernel, Stmt, Store
from weft.ir.visit import free_vars, loads, map_statements, mentions, rewrite, stores, substitute
from weft.passes.analysis.element_tests import digits_of
from weft.passes.analysis.loop_ranges import loop_range
from weft.passes.analysis.matrix_work import has_products, is_zeros
from weft.passes.registers.hoist_addends import Tile


def start_sums(kernel: Kernel) -> Kernel:
    """``kernel``, in grid form before products are instructions, with sums that start with what is added to them."""
    stored = mentions(kernel.body).stored

    def visit(s: Stmt) -> Stmt:
        if isinstance(s, For) and s.kind == "block" and not has_products(s):
            return s
        s = map_statements(s, visit)
        found = _Start.find(s) if isinstance(s, Alloc) else None
        return s if found is None else found.applied(stored) or s

    return replace(kernel, body=visit(kernel.body))


@dataclass(frozen=True, slots=True)
class _Start:
    """Sums of a product, the nest of zeros that they start with, and the tile that is made of them."""

    sums: Alloc
    zeros: Stmt
    tile: Tile

    @staticmethod
    def find(sums: Alloc) -> _Start | None:
        parts = flat(sums.body)
        if not is_zeros(parts[0]) or {n.buffer for n in stores(parts[0])} != {sums.buffer}:
            return None
        readers = [s for s in parts if any(n.buffer == sums.buffer for n in loads(s))]
        tiles = [Tile.find(s) for s in readers if isinstance(s, Alloc)]
        if len(tiles) != 1 or tiles[0] is None or not all(has_products(s) for s in readers if not isinstance(s, Alloc)):
            return None
        read = [n for n in loads(tiles[0].alloc) if n.buffer == sums.buffer]
        own = sums.buffer.name not in mentions(tiles[0].alloc).stored and len(read) == 1
        return _Start(sums, parts[0], tiles[0]) if own and read[0] in loads(tiles[0].store.value) else None

    def applied(self, stored: frozenset[str]) -> Stmt | None:
        found = _scaled(self.tile.store.value, self.sums)
        if found is None or any(n.buffer.name in stored for n in loads(found.added)):
            return None
        zeros = self._begun(found)
        factor = found.factor
        tile = self.tile.changed(found.plain, lambda x, y: Binary("-", x * factor, y), lambda m: m * factor)
        if zeros is None or tile is None:
            return None
        parts = [zeros if s is self.zeros else tile if s is self.tile.alloc else s for s in flat(self.sums.body)]
        return replace(self.sums, body=sequence(parts))

    def _begun(self, found: _Scaled) -> Stmt | None:
        """The nest that sums start with, with what is added to them; None where that is not known there."""
        zeros, zero = perfect_nest(self.zeros, "unroll")
        loops, _ = perfect_nest(self.tile.nest, "unroll")
        if not isinstance(zero, Store):
            return None
        sides = []
        for access, own in ((found.sum, loops), (zero, zeros)):
            ranges = {x.var.name: loop_range(x, {}) for x in own}
            sides.append({d: var for var, d in digits_of(access, frozenset(ranges), ranges).items()})
        there, here = sides
        values: dict[Var, Expr] = {there[d]: here[d] for d in there if d in here}
        bound = mentions(self.sums.body).bound
        if any(name in bound and Var(name) not in values for name in free_vars(found.added)):
            return None
        value = substitute(found.added, values) * Const(1 / float(found.factor.value), dt.float32)
        return rewrite(self.zeros, lambda n: replace(zero, value=value) if n == zero else None)


class _Scaled(NamedTuple):
    """A ``sum`` times ``factor``, and what is ``added``; ``plain`` is the sum alone, where neither is."""

    sum: Load
    factor: Const
    added: Expr
    plain: Expr


def _scaled(e: Expr, sums: Alloc) -> _Scaled | None:
    """``e`` taken apart, where it is that, or that under a mask whose other side is minus infinity."""
    if isinstance(e, Select) and isinstance(e.otherwise, Const) and e.otherwise.value == -math.inf:
        inner = _scaled(e.then, sums)
        return None if inner is None else inner._replace(plain=replace(e, then=inner.plain))
    sides = ((e.left, e.right), (e.right, e.left)) if isinstance(e, Binary) and e.op == "+" else ()
    for product, added in sides:
        factors = (product.left, product.right) if isinstance(product, Binary) and product.op == "*" else ()
        read = next((n for n in factors if isinstance(n, Load) and n.buffer == sums.buffer), None)
        factor = next((n for n in factors if isinstance(n, Const) and 0 < n.value < math.inf), None)
        if read is not None and factor is not None and all(n.buffer != sums.buffer for n in loads(added)):
            return _Scaled(read, factor, added, read)
    return None
