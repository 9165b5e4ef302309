"""Blocks and their threads as whole rows, where no shared memory holds a block together.

``block by, bx { thread ty, tx { A[by * 16 + ty, bx * 16 + tx] } }`` becomes ``block y { thread x { A[y, x] } }``: tiles
are for GPUs; a CPU wants long stretches of memory. A block loop and a thread loop are joined where the program only
ever asks for their sum; the last pair makes the row, the others run in parallel.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from weft.ir.expr import Binary, Const, Expr, Var
from weft.ir.nesting import around, has_loop, perfect_nest
from weft.ir.simplify import simplify
from weft.ir.stmt import Alloc, For, Kernel, Seq, Stmt
from weft.ir.visit import free_vars, fresh_name, map_statements, substitute, used_names, walk
from weft.passes.analysis.loop_ranges import constant_extent
from weft.passes.analysis.thread_teams import barriers_in

#: Blocks that are too few for all threads of a machine to have work until the end.
FEW = 8


def coalesce_blocks(kernel: Kernel) -> Kernel:
    """``kernel`` with block and thread loops joined to rows."""
    return replace(kernel, body=_visit(kernel.body, used_names(kernel)))


def _visit(s: Stmt, taken: set[str]) -> Stmt:
    if not isinstance(s, For) or s.kind != "block":
        return map_statements(s, lambda n: _visit(n, taken))
    blocks, inside = perfect_nest(s, "block")
    if isinstance(inside, For) and inside.kind == "thread":
        threads, body = perfect_nest(inside, "thread")
        if not barriers_in(body) and not has_loop(body, "thread"):
            rows = _Rows(list(blocks), list(threads), body, taken).join()
            if rows is not None:
                return rows
    return _turned(blocks) or s


def _turned(blocks: tuple[For, ...]) -> Stmt | None:
    """The second block loop outside the first, where the first is too short to keep a machine busy."""
    if len(blocks) < 2:
        return None
    first, second = blocks[:2]
    short, other = constant_extent(first), constant_extent(second)
    if short is None or short >= FEW or (other is not None and other < FEW * short):
        return None
    if any(first.var.name in free_vars(e) for e in (second.lo, second.hi)):
        return None
    return replace(second, body=replace(first, body=second.body))


@dataclass(slots=True)
class _Rows:
    """Loops that are still to be joined, and the body in terms of those that are."""

    blocks: list[For]
    threads: list[For]
    body: Stmt
    taken: set[str]

    def join(self) -> Stmt | None:
        """The loops joined; None where there would be no row, or nothing to run in parallel."""
        joined: dict[str, For] = {}  # by the name of the block loop
        for thread in reversed(self.threads):
            for block in reversed(self.blocks):
                made = None if block.var.name in joined else self.pair(block, thread)
                if made is not None:
                    joined[block.var.name] = made
                    self.threads = [t for t in self.threads if t is not thread]
                    break
        outer = [joined.get(block.var.name, block) for block in self.blocks]
        if not joined or (not self.threads and len(outer) == 1):
            return None
        if not self.threads:
            last = max(n for n, block in enumerate(self.blocks) if block.var.name in joined)
            self.threads = [replace(outer.pop(last), kind="thread")]
        return around([*outer, *self.threads], self.body)

    def pair(self, block: For, thread: For) -> For | None:
        """One loop instead of two, where only ``block * extent + thread`` is asked for."""
        if not (isinstance(thread.lo, Const) and thread.lo.value == 0 and isinstance(thread.hi, Const)):
            return None
        extent = thread.hi
        name = _joined_name(block.var.name, thread.var.name)
        row = Var(fresh_name(name, self.taken), span=thread.var.span)
        there: Expr = Binary("-", row, Binary("*", block.var, extent))
        body = simplify(substitute(self.body, {thread.var: there}))
        bounds = [e for loop in (*self.blocks, *self.threads) for e in (loop.lo, loop.hi)]
        if block.var.name in free_vars(body) or _makes_buffers_of(body, block.var):
            return None
        if any({block.var.name, thread.var.name} & set(free_vars(e)) for e in bounds):
            return None
        self.body = body
        lo, hi = (simplify(Binary("*", e, extent)) for e in (block.lo, block.hi))
        return For(row, lo, hi, "block", Seq(()), span=block.span)


def _joined_name(block: str, thread: str) -> str:
    """``by`` and ``ty`` make ``y``."""
    common = ""
    for a, b in zip(reversed(block), reversed(thread)):
        if a != b:
            break
        common = a + common
    return common if common.isidentifier() else thread


def _makes_buffers_of(body: Stmt, var: Var) -> bool:
    sizes = [e for n in walk(body) if isinstance(n, Alloc) for e in n.buffer.shape]
    return any(var.name in free_vars(e) for e in sizes)
