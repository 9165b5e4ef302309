"""Several neighbouring blocks run together, phase by phase: rows of memory as long as all of them.

A tile of 16 x 16 touches 16 rows and of each only a line or two: no cache likes that. Blocks are independent, so each
phase may run for several of them before the next phase starts; shared arrays get a place for each. It is done where a
block's threads form rows, all tests are decided for the whole group (see `weft.passes.separate_blocks`), and phases
have no loops of their own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from weft.ir.buffer import Buffer
from weft.ir.expr import AddressOf, Binary, Compare, Const, Expr, Load, Var, idx
from weft.ir.nesting import perfect_nest
from weft.ir.simplify import simplify
from weft.ir.stmt import Alloc, Atomic, For, If, Kernel, Seq, Stmt, Store
from weft.ir.visit import free_vars, fresh_name, rebuild, substitute, used_names, walk
from weft.passes.loop_ranges import constant_extent
from weft.passes.thread_teams import Team

#: Blocks in a group at most, bytes of shared memory they may have together, and elements in a row of threads that
#: is long enough by itself.
MOST, ROOM, LONG_ROW = 4, 16 << 10, 64


def group_blocks(kernel: Kernel) -> Kernel:
    """``kernel`` with neighbouring blocks of tiles in groups."""
    return replace(kernel, body=_visit(kernel.body, used_names(kernel), inside=False))


def _visit(s: Stmt, taken: set[str], *, inside: bool) -> Stmt:
    if isinstance(s, For) and s.kind == "block":
        made = _group(s, taken) if inside else None
        return made or replace(s, body=_visit(s.body, taken, inside=True))
    return rebuild(s, lambda n: _visit(n, taken, inside=inside) if isinstance(n, Stmt) else n)


def _group(loop: For, taken: set[str]) -> Stmt | None:
    buffers, body = _storage(loop.body)
    if not isinstance(body, If) or not buffers or not _is_plain(body.then, loop.var):
        return None
    sizes = [math.prod(int(e.value) for e in b.shape if isinstance(e, Const)) * b.dtype.itemsize for b in buffers]
    count = min(MOST, ROOM // max(1, sum(sizes)))
    if count < 2 or any(not isinstance(e, Const) or b.strides for b in buffers for e in b.shape):
        return None
    group, member = (Var(fresh_name(f"{loop.var.name}_{part}", taken)) for part in ("group", "member"))
    first = simplify(Binary("+", loop.lo, Binary("*", group, idx(count))))
    last = simplify(Binary("+", first, idx(count - 1)))
    whole = Binary("&&", Compare("<", last, loop.hi), _for_all(body.condition, loop.var, first, last))
    places = {
        b.name: Buffer(fresh_name(b.name, taken), b.dtype, (idx(count), *b.shape), scope=b.scope) for b in buffers
    }
    here = simplify(Binary("+", first, member))
    inner = _Grouped(loop.var, here, For(member, idx(0), idx(count), "thread", Seq(())), places).visit(body.then)
    for buffer in places.values():
        inner = Alloc(buffer, inner)
    one_by_one = replace(loop, lo=first, hi=simplify(Binary("min", Binary("+", first, idx(count)), loop.hi)))
    extent = Binary("-", loop.hi, loop.lo)
    groups = simplify(Binary("//", Binary("+", extent, idx(count - 1)), idx(count)))
    return For(group, idx(0), groups, "block", If(simplify(whole), inner, one_by_one), span=loop.span)


def _storage(s: Stmt) -> tuple[list[Buffer], Stmt]:
    buffers: list[Buffer] = []
    while isinstance(s, Alloc) or (isinstance(s, Seq) and len(s.body) == 1):
        if isinstance(s, Alloc):
            buffers.append(s.buffer)
            s = s.body
        else:
            s = s.body[0]
    return buffers, s


def _is_plain(s: Stmt, block: Var) -> bool:
    """Whether ``s`` is thread loops in short rows, one after another, that do not loop inside."""
    parts = s.body if isinstance(s, Seq) else (s,)
    for part in parts:
        if not isinstance(part, For) or part.kind != "thread":
            return False
        loops, body = perfect_nest(part, "thread")
        extents = [constant_extent(loop) for loop in loops]
        if len(loops) < 2 or None in extents or (extents[-1] or 0) >= LONG_ROW:
            return False
        if any(isinstance(n, (For, Alloc, Atomic, AddressOf)) for n in walk(body)):
            return False
    return len(parts) > 1


def _for_all(e: Expr, var: Var, first: Expr, last: Expr) -> Expr:
    """A test that holds where ``e`` does for all values of ``var`` between the two: comparisons are of sums."""
    if var.name not in free_vars(e):
        return e
    if isinstance(e, Binary) and e.op in ("&&", "||"):
        return replace(e, left=_for_all(e.left, var, first, last), right=_for_all(e.right, var, first, last))
    return Binary("&&", substitute(e, {var: first}), substitute(e, {var: last}))


@dataclass(frozen=True, slots=True)
class _Grouped:
    """Phases of one block as phases of all in a group: ``member`` counts them, and ``here`` is the block's number."""

    block: Var
    here: Expr
    member: For
    places: Mapping[str, Buffer]

    def visit(self, s: Stmt) -> Stmt:
        if isinstance(s, For) and s.kind == "thread":
            loops, body = perfect_nest(s, "thread")
            body = substitute(self.redirected(body), {self.block: self.here})
            return Team((*loops[:-1], self.member, loops[-1])).around(body)
        return rebuild(s, lambda n: self.visit(n) if isinstance(n, Stmt) else n)

    def redirected(self, n: Any) -> Any:
        if isinstance(n, Buffer):
            return n
        n = rebuild(n, self.redirected)
        if isinstance(n, (Load, Store)) and n.buffer.name in self.places:
            return replace(n, buffer=self.places[n.buffer.name], indices=(self.member.var, *n.indices))
        return n
