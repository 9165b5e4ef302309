"""Launches: the parts of a program that run on a GPU as one grid of blocks each.

>>> split_launches(kernel, join)      # `join` gives the grid form of one `Launch`

A top-level nest of ``block`` (or ``parallel``) loops is a launch, and so is any run of statements without them,
which needs one block. Storage made around launches is memory of the device, tests of sizes stay around launches.
A loop around launches stays around them: the host counts its steps. Where data decide how often it runs, or whether the
kernel ends early, blocks take turns within one block.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from weft.ir.expr import Compare, Expr, idx
from weft.ir.interval import Interval, Ranges, bounds, ranges_through
from weft.ir.nesting import exits, in_turn, inner_statements, sequence, statements_in
from weft.ir.simplify import is_empty, simplify
from weft.ir.stmt import Alloc, For, If, Kernel, Let, Return, Seq, Stmt
from weft.ir.visit import free_vars, loads, substitute
from weft.passes.analysis.conditions import guarded
from weft.poly.leaves import is_assigned, sizes_of

_BLOCKS = ("block", "parallel")


@dataclass(frozen=True, slots=True)
class Launch:
    """One grid: ``blocks`` loops from 0, outermost first, their ends free of each other, around ``body``."""

    blocks: tuple[For, ...]
    body: Stmt


Join = Callable[[Launch], Stmt]


def split_launches(kernel: Kernel, join: Join) -> Kernel:
    """``kernel`` with every launch replaced by what ``join`` makes of it."""
    ranges = {name: Interval(0, None) for name in sizes_of(kernel)}
    body = in_turn(kernel.body, *_BLOCKS) if _may_return(kernel.body) else kernel.body
    return replace(kernel, body=sequence(_Splitter(join, ranges).split(body)))


def _may_return(s: Stmt) -> bool:
    """Whether a return in ``s`` ends the kernel, which no launch can do; in blocks and threads it ends only these."""
    if isinstance(s, For) and s.kind in ("block", "thread"):
        return False
    return isinstance(s, Return) or any(map(_may_return, inner_statements(s)))


def has_blocks(s: Stmt) -> bool:
    """Whether there is a loop over blocks in ``s``."""
    return any(n.kind in _BLOCKS for n in statements_in(s, For))


@dataclass(frozen=True, slots=True)
class _Splitter:
    join: Join
    ranges: Ranges

    def split(self, s: Stmt) -> list[Stmt]:
        """The launches of ``s`` in order; neighbours that need one block are one launch."""
        made: list[Stmt] = []
        pending: list[Stmt] = []
        for stmt in s.body if isinstance(s, Seq) else (s,):
            if self.is_single(stmt):
                pending.append(stmt)
                continue
            made += self.single(pending)
            pending = []
            made += self.part(stmt)
        return made + self.single(pending)

    def single(self, parts: list[Stmt]) -> list[Stmt]:
        body = in_turn(sequence(parts), *_BLOCKS)
        return [] if is_empty(body) else [self.join(Launch((), body))]

    def is_single(self, s: Stmt) -> bool:
        """Whether ``s`` runs in one block."""
        if isinstance(s, Alloc):
            return s.buffer.scope not in ("global", "constant")
        if isinstance(s, Let):
            return not _is_plain(s)
        return not isinstance(s, Seq) and not has_blocks(s)

    def part(self, s: Stmt) -> list[Stmt]:
        if isinstance(s, Seq):
            return self.split(s)
        if isinstance(s, Alloc):
            return [replace(s, body=sequence(self.split(s.body)))]
        if isinstance(s, Let):
            return self.split(substitute(s.body, {s.var: s.value}))
        if isinstance(s, If) and not loads(s.condition):
            otherwise = None if s.otherwise is None else sequence(self.split(s.otherwise))
            return [replace(s, then=sequence(self.split(s.then)), otherwise=otherwise)]
        if isinstance(s, For) and s.kind in _BLOCKS:
            return [self.join(self.grid(s))]
        if isinstance(s, For):
            return self.repeated(s)
        return self.single([in_turn(s, *_BLOCKS)])

    def repeated(self, s: For) -> list[Stmt]:
        """A serial loop around launches, which the host counts: no launch can leave it."""
        if loads(s.lo) or loads(s.hi) or s.kind != "serial" or exits(s.body):
            return self.single([in_turn(s, *_BLOCKS)])
        inner = replace(self, ranges=ranges_through([s], self.ranges))
        return [replace(s, body=sequence(inner.split(s.body)))]

    def grid(self, s: Stmt) -> Launch:
        """The perfect nest of loops over blocks that ``s`` starts; what stands between them moves inside."""
        loops: list[For] = []
        wrappers: list[Callable[[Stmt], Stmt]] = []
        ranges = dict(self.ranges)
        while True:
            if isinstance(s, Seq) and len(s.body) == 1:
                s = s.body[0]
            elif isinstance(s, For) and s.kind in _BLOCKS:
                plain = self.rebase(s, loops, ranges)
                if plain is None:
                    break
                loop, guard, s = plain
                loops.append(loop)
                ranges[loop.var.name] = Interval(0, bounds(loop.hi - idx(1), ranges).hi)
                if guard is not None:
                    wrappers.append(_under(guard))
            elif isinstance(s, Alloc) and has_blocks(s.body):
                wrappers.append(_storing(s))
                s = s.body
            elif isinstance(s, Let) and has_blocks(s.body) and _is_plain(s):
                s = substitute(s.body, {s.var: s.value})
            elif isinstance(s, If) and s.otherwise is None and has_blocks(s) and not loads(s.condition):
                wrappers.append(_under(s.condition))
                s = s.then
            else:
                break
        body = in_turn(s, *_BLOCKS)
        for wrap in reversed(wrappers):
            body = wrap(body)
        return Launch(tuple(loops), body)

    def rebase(self, loop: For, outer: list[For], ranges: Ranges) -> tuple[For, Expr | None, Stmt] | None:
        """``loop`` from 0 to an end free of ``outer`` loops, the test that this needs, and the new body."""
        extent = simplify(loop.hi - loop.lo, ranges)
        body = loop.body if loop.lo == idx(0) else substitute(loop.body, {loop.var: loop.lo + loop.var})
        around = {o.var.name for o in outer}
        if not around & set(free_vars(extent)) and not loads(extent):
            return replace(loop, kind="block", lo=idx(0), hi=extent, body=Seq(())), None, body
        most = bounds(extent, ranges).hi
        if most is None or loads(extent):
            return None
        boxed = replace(loop, kind="block", lo=idx(0), hi=idx(max(most, 0)), body=Seq(()))
        return boxed, Compare("<", loop.var, extent), body


def _under(condition: Expr) -> Callable[[Stmt], Stmt]:
    return lambda body: guarded([condition], body)


def _storing(alloc: Alloc) -> Callable[[Stmt], Stmt]:
    return lambda body: replace(alloc, body=body)


def _is_plain(s: Let) -> bool:
    return not loads(s.value) and not is_assigned(s)
