"""Neighbouring blocks merged into one with a longer row, where threads only ask for their place in the whole.

``block b { alloc S: f32[16] in shared; thread t in 0:16 { S[t] = A[b * 12 + t] }; thread t in 2:14 { B[b * 12 + t] =
S[t - 2] + S[t + 2] } }``: blocks that overlap compute the same at their borders again, in short rows. What a thread
does depends only on ``b * 12 + t``, so many blocks are one block with many times 12 more threads: rows are long,
borders are computed once. For this no phase may leave gaps between neighbours, and what is read of a shared array must
lie inside what each earlier phase stored to it: then it does not matter whose threads stored it.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeGuard

from weft.ir.affine import Linear, linear_form
from weft.ir.buffer import Buffer
from weft.ir.dtype import index
from weft.ir.expr import AddressOf, Binary, Const, Expr, Load, Select, Var, idx
from weft.ir.interval import Interval, bounds
from weft.ir.nesting import flat, has_loop, perfect_nest, strip
from weft.ir.simplify import assigned_names, simplify
from weft.ir.stmt import Alloc, Assign, For, If, Kernel, Let, Seq, Stmt, Store
from weft.ir.visit import Node, free_vars, fresh_name, map_statements, mentions, rewrite, substitute, used_names, walk
from weft.passes.analysis.conditions import guarded, is_pure, peel_guards
from weft.passes.analysis.loop_ranges import constant_extent, loop_range
from weft.passes.analysis.thread_teams import Team
from weft.passes.gpu_to_cpu.clamps import bounds_where, open_clamps, split_tests
from weft.passes.gpu_to_cpu.forward_phases import forwarded
from weft.passes.guards.hoist_guards import narrow

#: Blocks that are merged at most.
MOST = 1024

#: Statements of a thread whose effects are known.
_PLAIN = (Alloc, Assign, If, Let, Seq, Store)


@dataclass(frozen=True, slots=True)
class _Limits:
    """How far blocks are merged: groups of them that must be left to run in parallel, bytes of the cache they use."""

    groups: int
    room: int


def merge_blocks(kernel: Kernel, *, cores: int, cache_bytes: int) -> Kernel:
    """``kernel`` with rows of neighbouring blocks as one block each."""
    limits = _Limits(cores, cache_bytes // 8)  # the memory that phases read and write goes through it too
    return replace(kernel, body=_visit(kernel.body, used_names(kernel), limits))


def _visit(s: Stmt, taken: set[str], limits: _Limits) -> Stmt:
    if isinstance(s, For) and s.kind == "block":
        if not has_loop(s.body, "block"):
            return _merged(s, taken, limits) or s
        limits = replace(limits, groups=1)  # the loop here is parallel
    return map_statements(s, lambda n: _visit(n, taken, limits))


def _merged(loop: For, taken: set[str], limits: _Limits) -> Stmt | None:
    buffers, lets, body = _storage(loop.body, loop.var)
    parts = [_narrowed(stmt) for nest in flat(_settled(body)) for stmt in _cut(nest)]
    if len(parts) < 2 or not all(isinstance(stmt, For) and stmt.kind == "thread" for stmt in parts):
        return None
    shared = {b.name: b for b in buffers}
    parts = [_lift_choices(stmt) for stmt in forwarded(parts, shared, taken)]
    row = _find_row(loop, parts, shared)
    made = None if row is None else row.merged(taken, limits)
    return None if made is None else functools.reduce(lambda s, let: replace(let, body=s), reversed(lets), made)


def _storage(s: Stmt, block: Var) -> tuple[list[Buffer], list[Let], Stmt]:
    """The buffers made around all the rest of ``s``, variables that do not depend on the ``block``, and that rest."""
    buffers: list[Buffer] = []
    lets: list[Let] = []
    changing = assigned_names(s)
    while isinstance(s := strip(s), (Alloc, Let)):
        if isinstance(s, Alloc):
            buffers.append(s.buffer)
        elif is_pure(s.value, changing) and block.name not in free_vars(s.value) and s.var.name not in changing:
            lets.append(s)
        else:
            break
        s = s.body
    return buffers, lets, s


def _settled(s: Stmt) -> Stmt:
    """``s`` without tests of numbers; what else could be simplified would no longer say where in the row it is."""
    s = map_statements(s, _settled)
    if not isinstance(s, If):
        return s
    condition = simplify(s.condition)
    if isinstance(condition, Const):
        return s.then if condition.value else s.otherwise or Seq(())
    return replace(s, condition=condition)


def _cut(s: Stmt) -> Iterator[Stmt]:
    """A nest of threads as one nest for each of its statements: all threads may wait between any two."""
    loops, body = perfect_nest(s, "thread")
    if not loops or not isinstance(body, Seq) or not _is_plain(body):
        yield s
        return
    for stmt in flat(body):
        yield Team(loops).around(stmt)


def _narrowed(s: Stmt) -> Stmt:
    """A nest of threads with its tests of one thread variable against numbers as bounds."""
    loops, inside = perfect_nest(s, "thread")
    tests, body = peel_guards(inside)
    changing = assigned_names(body)
    tests = split_tests(tests, {})
    kept: list[Expr] = []
    for n, test in enumerate(tests):
        if not is_pure(test, changing):
            kept += tests[n:]
            break
        own = [loop for loop in loops if set(free_vars(test)) == {loop.var.name}]
        made = narrow(own[0], test) if own else None
        if made is None:
            kept.append(test)
        else:
            loops = tuple(made if loop is own[0] else loop for loop in loops)
    ranges = {loop.var.name: loop_range(loop, {}) for loop in loops}
    return Team(loops).around(guarded(split_tests(kept, ranges), open_clamps(body, ranges))) if loops else s


@dataclass(frozen=True, slots=True)
class _Phase:
    """A nest of threads and what each runs."""

    loops: tuple[For, ...]
    body: Stmt

    @property
    def row(self) -> For:
        return self.loops[-1]


@dataclass(frozen=True, slots=True)
class _Row:
    """Phases of a block whose number is ``block``: block and thread only matter as ``block * stride + thread``."""

    block: For
    thread: Var
    stride: int
    phases: tuple[_Phase, ...]
    #: Shared arrays, and the dimension of each that goes along the row.
    along: dict[str, tuple[Buffer, int]]

    def merged(self, taken: set[str], limits: _Limits) -> Stmt | None:
        """The loop over groups of blocks, each with the phases of them all; None where they do not fit."""
        most = self.fitting(limits.room)
        if most < 2:
            return None
        blocks = Binary("-", self.block.hi, self.block.lo)
        share = Binary("//", Binary("+", blocks, idx(limits.groups - 1)), idx(limits.groups))
        value = simplify(Binary("max", idx(1), Binary("min", idx(most), share))) if limits.groups > 1 else idx(most)
        group, merged = (Var(fresh_name(f"{self.block.var.name}_{what}", taken)) for what in ("group", "merged"))
        count = value if isinstance(value, Const) else merged
        first = simplify(Binary("+", self.block.lo, Binary("*", group, count)))
        longer = {name: self.lengthened(name, most) for name in self.along}
        parts = [self.phase(phase, first, count, longer) for phase in self.phases]
        made: Stmt = Seq(tuple(parts))
        if self.block.var.name in free_vars(made):
            return None
        for buffer in longer.values():
            made = Alloc(buffer, made)
        groups = simplify(Binary("//", Binary("+", blocks, Binary("-", count, idx(1))), count))
        made = For(group, idx(0), groups, "block", made, span=self.block.span)
        return made if isinstance(value, Const) else Let(merged, value, made)

    def phase(self, phase: _Phase, first: Expr, count: Expr, longer: dict[str, Buffer]) -> Stmt:
        """``phase`` of ``count`` blocks from ``first`` on, those that exist."""
        before = Binary("*", Binary("-", self.block.var, first), idx(self.stride))

        def place(n: object) -> Load | Store | None:
            """Accesses of shared arrays in terms of the merged block."""
            if not isinstance(n, (Load, Store)) or n.buffer.name not in longer:
                return None
            at = self.along[n.buffer.name][1]
            indices = (*n.indices[:at], _plus(n.indices[at], before), *n.indices[at + 1 :])
            return replace(n, buffer=longer[n.buffer.name], indices=indices)

        placed = rewrite(phase.body, place)
        body = simplify(substitute(placed, {self.thread: Binary("-", self.thread, before)}))
        others = Binary("min", Binary("-", count, idx(1)), Binary("-", Binary("-", self.block.hi, idx(1)), first))
        hi = simplify(Binary("+", phase.row.hi, Binary("*", others, idx(self.stride))))
        return Team((*phase.loops[:-1], replace(phase.row, hi=hi))).around(body)

    def fitting(self, room: int) -> int:
        """How many blocks may be merged."""
        one, two = (sum(self.lengthened(name, count).byte_count() or 0 for name in self.along) for count in (1, 2))
        return 1 + (room - one) // (two - one) if two > one else MOST

    def lengthened(self, name: str, count: int) -> Buffer:
        buffer, dimension = self.along[name]
        shape = list(buffer.shape)
        shape[dimension] = simplify(Binary("+", shape[dimension], idx((count - 1) * self.stride)))
        return replace(buffer, shape=tuple(shape))


def _plus(e: Expr, more: Expr) -> Expr:
    """The sum, with each side of a choice or an extreme apart."""
    if isinstance(e, Select):
        return replace(e, then=_plus(e.then, more), otherwise=_plus(e.otherwise, more))
    if isinstance(e, Binary) and e.op in ("min", "max"):
        return replace(e, left=_plus(e.left, more), right=_plus(e.right, more))
    return Binary("+", e, more)


def _lift_choices(s: Stmt) -> Stmt:
    """``s`` with choices and extremes in sums of subscripts as those of sums."""

    def lifted(n: Node) -> Node | None:
        return replace(n, indices=tuple(map(_lifted, n.indices))) if isinstance(n, (Load, Store)) else None

    return rewrite(s, lifted)


def _lifted(e: Expr) -> Expr:
    """``(c ? x : y) + 1`` as ``c ? x + 1 : y + 1``."""
    if isinstance(e, Select):
        return replace(e, then=_lifted(e.then), otherwise=_lifted(e.otherwise))
    total = linear_form(e)
    choice = next((atom for atom, factor in total.terms.items() if _is_choice(atom, factor)), None)
    if choice is None:
        return e
    factor = total.terms.pop(choice)
    arms = (choice.then, choice.otherwise) if isinstance(choice, Select) else (choice.left, choice.right)
    one, other = (_lifted(Linear().add(total).add(linear_form(arm), factor).expr(index)) for arm in arms)
    if isinstance(choice, Select):
        return Select(choice.condition, one, other, span=e.span)
    return replace(choice, left=one, right=other)


def _is_choice(atom: Expr, factor: int) -> TypeGuard[Select | Binary]:
    is_extreme = isinstance(atom, Binary) and atom.op in ("min", "max") and factor > 0
    return isinstance(atom, Select) or is_extreme


def _find_row(loop: For, parts: Sequence[Stmt], shared: dict[str, Buffer]) -> _Row | None:
    """What is known of the phases ``parts`` of a block, where they may be merged with those of its neighbours."""
    phases = tuple(_Phase(*perfect_nest(stmt, "thread")) for stmt in parts)
    if not phases or any(not phase.loops or constant_extent(phase.row) is None for phase in phases):
        return None
    thread = phases[0].row.var
    stride = _stride(parts, loop.var, thread)
    if stride is None or any(p.row.var != thread or (constant_extent(p.row) or 0) < stride for p in phases):
        return None
    if not all(_is_plain(phase.body) for phase in phases) or _hands_on_outside(phases, shared):
        return None
    along: dict[str, tuple[Buffer, int]] = {}
    for buffer in shared.values():
        dimension = _dimension(buffer, parts, thread)
        if dimension is not None and not _is_read_inside(buffer, dimension, phases):
            return None
        if dimension is not None:
            along[buffer.name] = buffer, dimension
        elif any(buffer.name in used_names(stmt) for stmt in parts):
            return None
    return _Row(loop, thread, stride, phases, along)


def _stride(parts: Sequence[Stmt], block: Var, thread: Var) -> int | None:
    """How many threads further on in memory the next block is."""
    for stmt in parts:
        for access in _accesses(stmt):
            for e in access.indices:
                terms = linear_form(e).terms
                if terms.get(thread) == 1 and terms.get(block, 0) > 0:
                    return terms[block]
    return None


def _accesses(s: Stmt) -> Iterator[Load | Store]:
    return (n for n in walk(s) if isinstance(n, (Load, Store)))


def _is_plain(s: Stmt) -> bool:
    for n in walk(s):
        if isinstance(n, AddressOf) or (isinstance(n, For) and n.kind not in ("serial", "unroll")):
            return False
        if isinstance(n, Stmt) and not isinstance(n, (For, *_PLAIN)):
            return False
    return True


def _hands_on_outside(phases: Sequence[_Phase], shared: dict[str, Buffer]) -> bool:
    """Whether memory of the kernel that is written may be read as well."""
    stores = [n for phase in phases for n in _accesses(phase.body) if isinstance(n, Store)]
    read = [n for phase in phases for n in _accesses(phase.body) if isinstance(n, Load)]
    inside = frozenset(name for phase in phases for name in mentions(Team(phase.loops).around(phase.body)).bound)
    return any(
        load.buffer.name == store.buffer.name
        and store.buffer.name not in shared
        and not _differ(load.indices, store.indices, inside)
        for store in stores
        for load in read
    )


def _dimension(buffer: Buffer, parts: Sequence[Stmt], thread: Var) -> int | None:
    """The dimension of a shared array that goes along the row; None where there is no single one."""
    dimensions: set[int] = set()
    for stmt in parts:
        for access in _accesses(stmt):
            if access.buffer.name == buffer.name:
                here = {d for d, e in enumerate(access.indices) if thread.name in free_vars(e)}
                if len(here) != 1:
                    return None
                dimensions |= here
    fixed = buffer.strides is None and all(isinstance(e, Const) for e in buffer.shape)
    return dimensions.pop() if len(dimensions) == 1 and fixed else None


def _is_read_inside(buffer: Buffer, dimension: int, phases: Sequence[_Phase]) -> bool:
    """Whether every read lies inside what each phase up to its own stores, along the row."""
    stored: list[Interval] = []
    for phase in phases:
        ranges = {phase.row.var.name: loop_range(phase.row, {})}
        tests = peel_guards(phase.body)[0]
        for access in _accesses(phase.body):
            if isinstance(access, Store) and access.buffer.name == buffer.name:
                if free_vars(simplify(Binary("-", access.indices[dimension], phase.row.var))):
                    return False
                stored.append(bounds(access.indices[dimension], ranges))
        for access in _accesses(phase.body):
            if isinstance(access, Load) and access.buffer.name == buffer.name:
                read = bounds_where(access.indices[dimension], tests, ranges)
                if not all(s.lo is not None and s.hi is not None and read.within(s.lo, s.hi) for s in stored):
                    return False
    return True


def _differ(a: Sequence[Expr], b: Sequence[Expr], inside: frozenset[str]) -> bool:
    """Whether two places are apart in some dimension, whatever the variables ``inside`` are in either."""
    for left, right in zip(a, b):
        gap = linear_form(Binary("-", left, right))
        if not gap.terms and gap.constant and not inside & set(free_vars(left)):
            return True
    return False
