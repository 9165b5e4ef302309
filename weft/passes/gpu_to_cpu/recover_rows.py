"""Threads in a line that ask for their row and column, as rows of threads.

::

    thread x in lo:hi { B[x] = A[(x + 1) % n] + C[(x + 1) // n] }
    ->  for q in (lo + 1) // n:(hi + n) // n { thread r in ... { B[q * n + r - 1] = A[r] + C[q] } }

The loop is strip-mined by the divisor, so that quotient and remainder are its loops: nothing is divided, and what is
read by column lies side by side. Where the divisor is small or something is negative, the line stays as it was.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from weft.ir import dtype as dt
from weft.ir.affine import linear_form
from weft.ir.expr import Binary, Compare, Const, Expr, Var, idx
from weft.ir.nesting import has_loop
from weft.ir.simplify import assigned_names, simplify
from weft.ir.stmt import For, If, Kernel, Stmt
from weft.ir.visit import (
    count_nodes,
    free_vars,
    fresh_name,
    map_statements,
    mentions,
    rewrite,
    substitute,
    used_names,
    walk,
)
from weft.passes.analysis.conditions import is_pure
from weft.passes.analysis.loop_ranges import constant_extent

#: Columns of a row that is worth a loop of its own; nodes of a body that may be written out twice.
LEAST, LONGEST = 32, 1000

_QUOTIENTS, _REMAINDERS = ("//", "tdiv"), ("%", "tmod")


def recover_rows(kernel: Kernel) -> Kernel:
    """``kernel`` with rows of threads where threads in a line divide to find theirs."""
    return replace(kernel, body=_visit(kernel.body, assigned_names(kernel.body), used_names(kernel)))


def _visit(s: Stmt, changing: frozenset[str], taken: set[str]) -> Stmt:
    if isinstance(s, For) and s.kind == "thread" and not has_loop(s.body, "thread"):
        line = next(_lines(s, changing), None) if _is_long(s) else None
        return s if line is None else line.as_rows(taken)
    return map_statements(s, lambda n: _visit(n, changing, taken))


def _is_long(loop: For) -> bool:
    extent = constant_extent(loop)
    return (extent is None or extent >= 2 * LEAST) and count_nodes(loop.body) <= LONGEST


@dataclass(frozen=True, slots=True)
class _Line:
    """Threads ``loop`` that divide ``loop.var + offset`` by ``columns``."""

    loop: For
    offset: Expr
    columns: Expr

    def as_rows(self, taken: set[str]) -> Stmt:
        loop, columns = self.loop, self.columns
        row, column = (Var(fresh_name(f"{loop.var.name}_{what}", taken)) for what in ("row", "column"))
        first, end = (simplify(e + self.offset) for e in (loop.lo, loop.hi))
        before = row * columns
        body = substitute(
            rewrite(loop.body, lambda n: self._part(n, row, column)), {loop.var: before + column - self.offset}
        )
        lo, hi = Binary("max", first - before, idx(0)), Binary("min", end - before, columns)
        inner = For(column, simplify(lo), simplify(hi), "thread", simplify(body), span=loop.span)
        rows = For(row, Binary("//", first, columns), Binary("//", end + columns - idx(1), columns), "serial", inner)
        wide = Binary("&&", Compare(">=", columns, idx(LEAST)), Compare(">=", first, idx(0)))
        return If(simplify(wide), rows, loop, span=loop.span)

    def _part(self, n: object, row: Var, column: Var) -> Expr | None:
        """A quotient as the row, a remainder as the column."""
        if not isinstance(n, Binary) or n.right != self.columns or n.op not in (*_QUOTIENTS, *_REMAINDERS):
            return None
        apart = linear_form(n.left - self.loop.var - self.offset)
        if apart.terms or apart.constant:
            return None
        return row if n.op in _QUOTIENTS else column


def _lines(loop: For, changing: frozenset[str]) -> Iterator[_Line]:
    """The divisions of the thread's number by something that is the same for all threads."""
    inside = mentions(loop.body).bound | {loop.var.name}
    for n in walk(loop.body):
        if not isinstance(n, Binary) or n.dtype != dt.index or n.op not in (*_QUOTIENTS, *_REMAINDERS):
            continue
        offset = linear_form(n.left)
        fixed = not any(
            inside & set(free_vars(e)) or not is_pure(e, changing) for e in (*offset.terms, n.right) if e != loop.var
        )
        short = isinstance(n.right, Const) and int(n.right.value) < LEAST
        if offset.terms.pop(loop.var, 0) == 1 and fixed and not short:
            yield _Line(loop, offset.expr(dt.index), n.right)
