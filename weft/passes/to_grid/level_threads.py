"""Thread nests side by side: every thread loop of a block heads a perfect nest of thread loops.

>>> thread y { m[] = 0; thread x { a } ; b }       # becomes
>>> thread y { m[y] = 0 } ; thread y { thread x { a } } ; thread y { b }

Iterations of a thread loop are independent, so it may be run for one part of its body after another, also inside
serial loops and tests. Storage made in it becomes storage of the block with one more dimension. Where that is not
possible the thread loops inside run one iteration after another.

Thread loops that run as often as sizes say, which only a call knows, are cut to pieces of a fixed number of threads:

>>> thread t in 0:n { a }                                          # becomes
>>> for t_o in 0:ceil(n / 256) { thread t in 0:256 { if t_o * 256 + t < n { a } } }
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from weft.ir.expr import AddressOf, Binary, Compare, Expr, Load, Var, idx
from weft.ir.interval import Interval, Ranges, bounds, ranges_through
from weft.ir.nesting import around, exits, grouped, in_turn, perfect_nest
from weft.ir.simplify import simplify
from weft.ir.stmt import Alloc, Atomic, For, If, Let, Seq, Stmt, Store
from weft.ir.visit import children, free_vars, loads, map_statements, mentions, rewrite, substitute, walk
from weft.passes.analysis.conditions import guarded
from weft.passes.analysis.loop_ranges import loop_range, ranges_inside
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

    def stmt(self, s: Stmt, ranges: Ranges) -> Stmt:
        if isinstance(s, For) and s.kind == "thread":
            loops, body = perfect_nest(s, "thread")
            try:
                if exits(body):
                    raise _NotSplit  # a thread that returns has no share in the parts that follow
                return self.nest(list(loops), [], body, ranges)
            except _NotSplit:
                return around(loops, in_turn(body, "thread"))
        ranges = ranges_inside(s, ranges)
        return map_statements(s, lambda n: self.stmt(n, ranges))

    def must_split(self, s: Stmt, loops: list[For]) -> bool:
        if self.apart(s, loops) or (isinstance(s, For) and s.kind == "thread"):
            return True
        return any(self.must_split(n, loops) for n in children(s) if isinstance(n, Stmt))

    def nest(self, loops: list[For], guards: list[Expr], s: Stmt, ranges: Ranges) -> Stmt:
        """``s`` inside ``loops`` and under ``guards``, with these where they can be run for a part of it."""
        if self.apart(s, loops) or not self.must_split(s, loops):
            return around(loops, guarded(guards, s))
        if isinstance(s, Seq):
            parts = grouped(s.body, lambda n: self.must_split(n, loops))
            return Seq(tuple(self.nest(loops, guards, part, ranges) for part in parts))
        if isinstance(s, For) and s.kind == "thread":
            inner, body = perfect_nest(s, "thread")
            return self.nest([*loops, *inner], guards, body, ranges)
        if isinstance(s, For) and s.kind in ("serial", "unroll"):
            return self.loop(loops, guards, s, ranges)
        if isinstance(s, If):
            return self.branch(loops, guards, s, ranges)
        if isinstance(s, Alloc):
            return self.storage(loops, guards, s, ranges)
        if isinstance(s, Let) and not is_assigned(s) and not loads(s.value):
            return self.nest(loops, guards, substitute(s.body, {s.var: s.value}), ranges)
        raise _NotSplit

    def loop(self, loops: list[For], guards: list[Expr], s: For, ranges: Ranges) -> Stmt:
        names = {loop.var.name for loop in loops}
        if loads(s.lo) or loads(s.hi) or exits(s.body):
            raise _NotSplit  # each thread for itself decides how often it runs
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

    def branch(self, loops: list[For], guards: list[Expr], s: If, ranges: Ranges) -> Stmt:
        names = {loop.var.name for loop in loops}
        changed = mentions(s).stored | mentions(s).addressed
        if any(n.buffer.name in changed for n in walk(s.condition) if isinstance(n, Load)):
            raise _NotSplit
        if not names & set(free_vars(s.condition)) and not loads(s.condition):
            otherwise = None if s.otherwise is None else self.nest(loops, guards, s.otherwise, ranges)
            return replace(s, then=self.nest(loops, guards, s.then, ranges), otherwise=otherwise)
        if s.otherwise is not None:
            raise _NotSplit
        return self.nest(loops, [*guards, s.condition], s.then, ranges)

    def storage(self, loops: list[For], guards: list[Expr], s: Alloc, ranges: Ranges) -> Stmt:
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
    inner_ranges = ranges_through(loops, ranges)
    return {loop.var.name: inner_ranges[loop.var.name] for loop in loops}


#: Threads of a block whose number the program does not say.
THREADS = 256


def cut_threads(s: Stmt, ranges: Ranges, fresh: Callable[[str], str]) -> Stmt:
    """``s``, whose thread nests are perfect, with thread loops of known extents only."""
    if isinstance(s, For) and s.kind == "thread":
        return _cut_nest(s, ranges, fresh)
    inside = ranges_inside(s, ranges)
    return map_statements(s, lambda n: cut_threads(n, inside, fresh))


def _cut_nest(s: For, ranges: Ranges, fresh: Callable[[str], str]) -> Stmt:
    nest, body = perfect_nest(s, "thread")
    loops = list(nest)
    sizes: list[int | None] = []
    inner_ranges = dict(ranges)
    for loop in loops:
        sizes.append(bounds(simplify(loop.hi - loop.lo, inner_ranges), inner_ranges).hi)
        inner_ranges[loop.var.name] = loop_range(loop, inner_ranges)
    if None not in sizes:
        return s
    piece = THREADS
    for size in sizes:
        piece = piece if size is None else max(1, piece // max(size, 1))
    kept: list[For] = []
    outer: list[For] = []
    for position, (loop, size) in enumerate(zip(loops, sizes)):
        if size is not None:
            kept.append(loop)
        elif _depends(loop, kept):
            rest = [replace(inner, kind="serial") for inner in loops[position:]]
            return around([*outer, *kept], around(rest, body))
        else:
            around_pieces, inner, place = _cut(loop, piece, fresh)
            outer.append(around_pieces)
            kept.append(inner)
            body = substitute(If(Compare("<", loop.var, loop.hi), body), {loop.var: place})
            loops[position + 1 :] = [_moved(later, loop.var, place) for later in loops[position + 1 :]]
            piece = 1
    return around([*outer, *kept], body)


def _depends(loop: For, threads: list[For]) -> bool:
    names = {t.var.name for t in threads}
    ends = (loop.lo, loop.hi)
    return any(names & free_vars(e).keys() or any(isinstance(n, Load) for n in walk(e)) for e in ends)


def _cut(loop: For, piece: int, fresh: Callable[[str], str]) -> tuple[For, For, Expr]:
    """The loop over pieces, the one over the threads of a piece, and what the variable was in terms of both."""
    turn = Var(fresh(f"{loop.var.name}_o"))
    count = simplify((loop.hi - loop.lo + idx(piece - 1)) // idx(piece))
    place = simplify(loop.lo + turn * idx(piece) + loop.var)
    return replace(loop, var=turn, lo=idx(0), hi=count, kind="serial"), replace(loop, lo=idx(0), hi=idx(piece)), place


def _moved(loop: For, var: Var, place: Expr) -> For:
    return replace(loop, lo=substitute(loop.lo, {var: place}), hi=substitute(loop.hi, {var: place}))
