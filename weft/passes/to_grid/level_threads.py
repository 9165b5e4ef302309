"""Thread nests side by side: every thread loop of a block heads a perfect nest of thread loops.

>>> thread y { m[] = 0; thread x { a } ; b }       # becomes
>>> thread y { m[y] = 0 } ; thread y { thread x { a } } ; thread y { b }

Iterations of a thread loop are independent, so it may be run for one part of its body after another, also inside
serial loops and tests. Storage made in it becomes storage of the block with one more dimension. Where that is not
possible the thread loops inside run one iteration after another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from weft.ir.expr import AddressOf, Binary, Compare, Expr, Load, idx
from weft.ir.interval import Interval, bounds
from weft.ir.nesting import around, perfect_nest
from weft.ir.simplify import simplify
from weft.ir.stmt import Alloc, Atomic, For, If, Let, Seq, Stmt, Store
from weft.ir.visit import children, free_vars, mentions, rebuild, rewrite, substitute, walk
from weft.passes.analysis.conditions import guarded
from weft.passes.analysis.loop_ranges import Ranges, loop_range
from weft.poly.leaves import is_assigned

#: Whether a statement inside these thread loops must stand in a nest of its own.
Apart = Callable[[Stmt, Sequence[For]], bool]


def level_threads(s: Stmt, ranges: Ranges, apart: Apart = lambda s, loops: False) -> Stmt:
    """``s``, the body of a block, with perfect thread nests only, and statements that are ``apart`` on their own."""
    return _Leveler(apart).stmt(s, dict(ranges))


class _NotSplit(Exception):
    """A statement between thread loops that they cannot be moved through."""


@dataclass(frozen=True, slots=True)
class _Leveler:
    apart: Apart

    def stmt(self, s: Stmt, ranges: dict[str, Interval]) -> Stmt:
        if isinstance(s, For) and s.kind == "thread":
            loops, body = perfect_nest(s, "thread")
            try:
                return self.nest(list(loops), [], body, ranges)
            except _NotSplit:
                return around(loops, _one_after_another(body))
        if isinstance(s, For):
            ranges = {**ranges, s.var.name: loop_range(s, ranges)}
        return rebuild(s, lambda n: self.stmt(n, ranges) if isinstance(n, Stmt) else n)

    def must_split(self, s: Stmt, loops: list[For]) -> bool:
        if self.apart(s, loops) or (isinstance(s, For) and s.kind == "thread"):
            return True
        return any(self.must_split(n, loops) for n in children(s) if isinstance(n, Stmt))

    def nest(self, loops: list[For], guards: list[Expr], s: Stmt, ranges: dict[str, Interval]) -> Stmt:
        """``s`` inside ``loops`` and under ``guards``, with these where they can be run for a part of it."""
        if self.apart(s, loops) or not self.must_split(s, loops):
            return around(loops, guarded(guards, s))
        if isinstance(s, Seq):
            return Seq(tuple(self.nest(loops, guards, part, ranges) for part in self.grouped(s, loops)))
        if isinstance(s, For) and s.kind == "thread":
            inner, body = perfect_nest(s, "thread")
            return self.nest([*loops, *inner], guards, body, ranges)
        if isinstance(s, For) and s.kind in ("serial", "unroll"):
            return self.loop(loops, guards, s, ranges)
        if isinstance(s, If):
            return self.branch(loops, guards, s, ranges)
        if isinstance(s, Alloc):
            return self.storage(loops, guards, s, ranges)
        if isinstance(s, Let) and not is_assigned(s) and not _loads(s.value):
            return self.nest(loops, guards, substitute(s.body, {s.var: s.value}), ranges)
        raise _NotSplit

    def grouped(self, s: Seq, loops: list[For]) -> list[Stmt]:
        """The parts of ``s``; neighbours that need not be split stay together."""
        groups: list[list[Stmt]] = []
        for stmt in s.body:
            if groups and not any(self.must_split(p, loops) for p in (stmt, groups[-1][-1])):
                groups[-1].append(stmt)
            else:
                groups.append([stmt])
        return [g[0] if len(g) == 1 else Seq(tuple(g)) for g in groups]

    def loop(self, loops: list[For], guards: list[Expr], s: For, ranges: dict[str, Interval]) -> Stmt:
        names = {loop.var.name for loop in loops}
        if _loads(s.lo) or _loads(s.hi):
            raise _NotSplit
        inside = {**ranges, **_thread_ranges(loops, ranges)}
        inside[s.var.name] = loop_range(s, inside)
        if not names & {*free_vars(s.lo), *free_vars(s.hi)}:
            return replace(s, body=self.nest(loops, guards, s.body, inside))
        low, high = bounds(s.lo, inside).lo, bounds(s.hi, inside).hi
        if low is None or high is None:
            raise _NotSplit
        tests: list[Expr] = [Compare(">=", s.var, s.lo), Compare("<", s.var, s.hi)]
        body = self.nest(loops, [*guards, *tests], s.body, inside)
        return replace(s, lo=idx(low), hi=idx(max(low, high)), body=body)

    def branch(self, loops: list[For], guards: list[Expr], s: If, ranges: dict[str, Interval]) -> Stmt:
        names = {loop.var.name for loop in loops}
        changed = mentions(s).stored | mentions(s).addressed
        if any(n.buffer.name in changed for n in walk(s.condition) if isinstance(n, Load)):
            raise _NotSplit
        if not names & set(free_vars(s.condition)) and not _loads(s.condition):
            otherwise = None if s.otherwise is None else self.nest(loops, guards, s.otherwise, ranges)
            return replace(s, then=self.nest(loops, guards, s.then, ranges), otherwise=otherwise)
        if s.otherwise is not None:
            raise _NotSplit
        return self.nest(loops, [*guards, s.condition], s.then, ranges)

    def storage(self, loops: list[For], guards: list[Expr], s: Alloc, ranges: dict[str, Interval]) -> Stmt:
        """Storage of each iteration: a dimension for each loop in front of its own."""
        inside = {**ranges, **_thread_ranges(loops, ranges)}
        sizes = [bounds(loop.hi - loop.lo, inside).hi for loop in loops]
        shape = [size if not {v.var.name for v in loops} & set(free_vars(size)) else None for size in s.buffer.shape]
        if None in sizes or None in shape or s.buffer.strides is not None:
            raise _NotSplit
        whole = tuple(idx(int(n or 0)) for n in sizes) + s.buffer.shape
        scope = "global" if s.buffer.scope in ("register", "local") else s.buffer.scope
        wide = replace(s.buffer, shape=whole, scope=scope)
        own = tuple(simplify(Binary("-", loop.var, loop.lo)) for loop in loops)
        name = s.buffer.name

        def visit(n: object) -> Stmt | Expr | None:
            if isinstance(n, (Load, Store, Atomic, AddressOf)) and n.buffer.name == name:
                return replace(n, buffer=wide, indices=(*own, *n.indices))
            return None

        return Alloc(wide, self.nest(loops, guards, rewrite(s.body, visit), ranges), span=s.span)


def _thread_ranges(loops: Sequence[For], ranges: Ranges) -> dict[str, Interval]:
    inner_ranges = dict(ranges)
    for loop in loops:
        inner_ranges[loop.var.name] = loop_range(loop, inner_ranges)
    return {loop.var.name: inner_ranges[loop.var.name] for loop in loops}


def _loads(e: Expr) -> bool:
    return any(isinstance(n, Load) for n in walk(e))


def _one_after_another(s: Stmt) -> Stmt:
    """``s`` with its thread loops serial."""

    def visit(n: object) -> Stmt | None:
        return replace(n, kind="serial") if isinstance(n, For) and n.kind == "thread" else None

    return rewrite(s, visit)
