"""What is added to every element of a tile in registers, added to their extremum instead, and taken off exponents.

::

    unroll i { X[i] = P[i] * c + (a + float32(i)) * f }      unroll i { X[i] = P[i] * c + float32(i) * f }
    unroll r { M[r] = -inf }                                 unroll r { M[r] = -inf }
    unroll r, i { M[r] = max(M[r], X[i]) }              ->   unroll r, i { M[r] = max(M[r], X[i]) }
                                                             unroll r { M[r] = M[r] + a * f }
    unroll i { W[i] = exp(X[i] - S[r]) }                     unroll i { W[i] = exp(X[i] - (S[r] - a * f)) }

A score that is shifted by where its row and tile are (a linear bias) then costs one operation an element: the rest is
a number of its own. For fast numerics: sums are rounded elsewhere, and what is added is taken to be finite. Masked
elements stay minus infinity.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from weft.ir import dtype as dt
from weft.ir.expr import Binary, Const, Expr, Load, Select, Unary
from weft.ir.nesting import flat, sequence, statements_in
from weft.ir.simplify import assigned_names
from weft.ir.stmt import Alloc, For, Kernel, Stmt, Store
from weft.ir.visit import Node, free_vars, loads, map_statements, mentions, rewrite, stores


def hoist_addends(kernel: Kernel) -> Kernel:
    """``kernel`` with fewer sums in unrolled nests of which an extremum and exponentials are taken."""
    stored, changing = mentions(kernel.body).stored, assigned_names(kernel.body)

    def visit(s: Stmt) -> Stmt:
        s = map_statements(s, visit)
        tile = Tile.find(s) if isinstance(s, Alloc) else None
        return s if tile is None else _hoisted(tile, stored, changing) or s

    return replace(kernel, body=visit(kernel.body))


def _hoisted(tile: Tile, stored: frozenset[str], changing: frozenset[str]) -> Stmt | None:
    """The storage with what is added hoisted; None where that is nothing, or not all that read it can do without."""
    bound = mentions(tile.alloc.body).bound

    def is_fixed(e: Expr) -> bool:
        names = free_vars(e).keys()
        return not (names & bound or names & changing or {n.buffer.name for n in loads(e)} & stored)

    rest, addend = _split(tile.store.value, is_fixed)
    if addend is None or isinstance(addend, Const) or rest is None:
        return None
    return tile.changed(rest, lambda x, y: Binary("-", x, Binary("-", y, addend)), lambda m: m + addend)


@dataclass(frozen=True)
class Tile:
    """An array in registers, and the nest that stores it, an element at a time."""

    alloc: Alloc
    nest: For
    store: Store

    @staticmethod
    def find(alloc: Alloc) -> Tile | None:
        name = alloc.buffer.name
        if alloc.buffer.dtype != dt.float32 or alloc.buffer.scope not in ("register", "local"):
            return None
        writes = [n for n in stores(alloc.body) if n.buffer.name == name]
        write = writes[0] if len(writes) == 1 else None
        if not isinstance(write, Store) or name in mentions(alloc.body).addressed:
            return None
        nest = next((n for n in statements_in(alloc.body, For) if n.kind == "unroll" and _has(n, write)), None)
        return None if nest is None else Tile(alloc, nest, write)

    def changed(
        self, value: Expr, exponent: Callable[[Expr, Expr], Expr], extremum: Callable[[Expr], Expr]
    ) -> Stmt | None:
        """The storage with ``value`` in place of what it holds, what ``exponent`` makes of an element and what is
        taken off it in place of their difference, and ``extremum`` of the greatest; None where it is read otherwise."""
        reads = sum(n.buffer == self.alloc.buffer for n in loads(self.alloc.body))
        done = 0

        def difference(n: Node) -> Node | None:
            nonlocal done
            if isinstance(n, Binary) and n.op == "-" and self._is_read(n.left) and not self._is_in(n.right):
                done += 1
                return exponent(n.left, n.right)
            return None

        def visit(s: Stmt) -> Stmt:
            nonlocal done
            if s is self.nest:
                return rewrite(s, lambda n: replace(self.store, value=value) if n is self.store else None)
            parts = list(flat(s))
            if len(parts) < 2:
                return rewrite(s, difference) if isinstance(s, Store) else map_statements(s, visit)
            made: list[Stmt] = []
            for before, part in zip([None, *parts], parts):
                if before is not None and self._is_extremum(before, part):
                    done += 1
                    made += [part, rewrite(before, lambda n: _updated(n, extremum))]
                else:
                    made.append(visit(part))
            return sequence(made)

        body = visit(self.alloc.body)
        return replace(self.alloc, body=body) if done == reads else None

    def _is_extremum(self, before: Stmt, s: Stmt) -> bool:
        """Whether ``s`` finds the maximum of elements, and ``before`` starts it with that of nothing."""
        starts, updates = stores(before), stores(s)
        if len(starts) != 1 or len(updates) != 1:
            return False
        start, update = starts[0], updates[0]
        if not isinstance(start, Store) or not isinstance(update, Store) or start.buffer != update.buffer:
            return False
        value, own = update.value, Load(update.buffer, update.indices)
        is_start = isinstance(start.value, Const) and start.value.value == -math.inf and not loads(before)
        is_max = isinstance(value, Binary) and value.op == "max" and value.left == own and self._is_read(value.right)
        return is_start and is_max and len(loads(s)) == 2

    def _is_read(self, e: Expr) -> bool:
        return isinstance(e, Load) and e.buffer == self.alloc.buffer

    def _is_in(self, e: Expr) -> bool:
        return any(n.buffer == self.alloc.buffer for n in loads(e))


def _updated(n: Node, change: Callable[[Expr], Expr]) -> Node | None:
    return replace(n, value=change(Load(n.buffer, n.indices))) if isinstance(n, Store) else None


def _has(nest: For, store: Store) -> bool:
    """Whether ``nest`` is loops that are written out around ``store``, and nothing else."""
    inner: Stmt = nest
    while isinstance(inner, For) and inner.kind == "unroll":
        inner = inner.body
    return inner is store


def _split(e: Expr, is_fixed: Callable[[Expr], bool]) -> tuple[Expr | None, Expr | None]:
    """``e`` as a sum of what changes from element to element, and of what does not; None where there is none."""
    if is_fixed(e):
        return None, e
    if isinstance(e, Binary) and e.op in ("+", "-"):
        (left, first), (right, second) = _split(e.left, is_fixed), _split(e.right, is_fixed)
        return _sum(e.op, left, right), _sum(e.op, first, second)
    if isinstance(e, Binary) and e.op == "*":
        for factor, other in ((e.left, e.right), (e.right, e.left)):
            if is_fixed(factor):
                rest, addend = _split(other, is_fixed)
                return _times(rest, factor), _times(addend, factor)
    if isinstance(e, Select) and isinstance(e.otherwise, Const) and e.otherwise.value == -math.inf:
        rest, addend = _split(e.then, is_fixed)
        return (e, None) if rest is None else (replace(e, then=rest), addend)
    return e, None


def _sum(op: str, left: Expr | None, right: Expr | None) -> Expr | None:
    if right is None:
        return left
    if left is None:
        return Unary("-", right) if op == "-" else right
    return left + right if op == "+" else left - right


def _times(e: Expr | None, factor: Expr) -> Expr | None:
    return None if e is None else e * factor
