"""Atomic updates of few elements made in a copy that each part of the blocks has to itself, and added in the end.

    block b in 0:n {                        parallel p in 0:8 {
      thread t in 0:256 {                     alloc H_own: uint32[256]
        atomic H[X[b * 256 + t]] += 1         for i in 0:256 { H_own[i] = 0 }
      }                                       block b in p * n // 8:(p + 1) * n // 8 {
    }                                           thread t in 0:256 { atomic H_own[X[b * 256 + t]] += 1 }
                                              }
                                              for i in 0:256 { if H_own[i] != 0 { atomic H[i] += H_own[i] } }
                                            }

This is privatization, as of histograms. A copy is memory of one core, where an update is a load and a store. The order
of atomic updates is nobody's, so floats may be added in copies too. Which elements are updated is known from the range
of the subscript, or a launch tells by the size of the buffer: then a subscript outside it goes to the buffer itself.
Blocks must do enough updates for as many elements as the copies have.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from weft.ir.buffer import Buffer
from weft.ir.expr import Binary, Compare, Const, Expr, Load, Var, identity, idx
from weft.ir.interval import Interval, Ranges, bounds
from weft.ir.nesting import around, inner_statements, sequence
from weft.ir.simplify import assigned_names, simplify
from weft.ir.stmt import Alloc, Atomic, AtomicOp, For, If, Kernel, Let, Seq, Stmt, Store
from weft.ir.visit import Node, fresh_name, loads, map_statements, rewrite, used_names, walk
from weft.passes.analysis.conditions import all_of
from weft.passes.analysis.loop_ranges import constant_extent, ranges_inside, ranges_where
from weft.poly.updates import is_used_besides

#: Parts of the blocks for each core, so that one that is late leaves work to others.
PARTS_A_CORE = 4
#: Updates that must be made for each element of all copies.
WORTH = 2
#: A larger part of a core's cache (one of so many) is not given to copies.
SHARE = 4
_OPERATORS = frozenset({"+", "min", "max", "&", "|", "^"})


def privatize_atomics(kernel: Kernel, *, cores: int, cache_bytes: int) -> Kernel:
    """``kernel`` with copies of buffers for parts of its blocks."""
    taken, given = used_names(kernel), {b.name for b in kernel.buffers}

    def visit(s: Stmt) -> Stmt:
        if isinstance(s, For) and s.kind == "block":
            parts = cores * PARTS_A_CORE if cores > 1 else 1
            return _Blocks(s, given, parts, cache_bytes // SHARE, taken).privatized() or s
        return s if isinstance(s, For) and s.kind == "parallel" else map_statements(s, visit)

    return replace(kernel, body=visit(kernel.body))


@dataclass(frozen=True, slots=True)
class _Update:
    """An update, what its subscripts can be, and how often a block surely makes it."""

    node: Atomic
    box: tuple[Interval, ...]
    times: int


@dataclass(frozen=True, slots=True)
class _Copy:
    """Elements ``lows`` and on of ``buffer`` in ``own``; ``checked`` where subscripts may be elsewhere."""

    buffer: Buffer
    own: Buffer
    lows: tuple[int, ...]
    op: AtomicOp
    checked: bool
    times: int

    def elements(self) -> Expr:
        total: Expr = idx(1)
        for size in self.own.shape:
            total = Binary("*", total, size)
        return total

    def loops(self, taken: set[str]) -> list[For]:
        names = [fresh_name(f"{self.own.name}_{d}", taken) for d in range(self.own.rank)]
        return [For(Var(n), idx(0), size, "serial", Seq(())) for n, size in zip(names, self.own.shape)]

    def start(self, taken: set[str]) -> Stmt:
        loops = self.loops(taken)
        return around(loops, Store(self.own, tuple(x.var for x in loops), identity(self.op, self.own.dtype)))

    def total(self, taken: set[str]) -> Stmt:
        loops = self.loops(taken)
        kept = Load(self.own, tuple(x.var for x in loops))
        there = tuple(simplify(Binary("+", x.var, idx(low))) for x, low in zip(loops, self.lows))
        changed = Compare("!=", kept, identity(self.op, self.own.dtype))
        return around(loops, If(changed, Atomic(self.op, self.buffer, there, kept)))

    def redirected(self, s: Atomic, taken: set[str]) -> Stmt:
        at = tuple(simplify(Binary("-", i, idx(low))) for i, low in zip(s.indices, self.lows))
        if not self.checked:
            return replace(s, buffer=self.own, indices=at)
        place = Var(fresh_name("place", taken))
        inside = all_of([Compare(">=", place, idx(0)), Compare("<", place, self.own.shape[0])])
        own, other = replace(s, buffer=self.own, indices=(place,)), replace(s, indices=(place,))
        return Let(place, at[0], If(inside, own, other))


@dataclass(frozen=True, slots=True)
class _Blocks:
    """A loop through blocks, and what is known of the machine."""

    loop: For
    given: set[str]
    parts: int
    room: int
    taken: set[str]

    def privatized(self) -> Stmt | None:
        copies = self.copies()
        if not copies:
            return None
        worth = simplify(all_of([self.is_worth(c) for c in copies]))
        if isinstance(worth, Const):
            return self.with_copies(copies) if worth.value else None
        return If(worth, self.with_copies(copies), self.loop)

    def copies(self) -> list[_Copy]:
        updates: dict[str, list[_Update]] = {}
        for n in _updates(self.loop.body, {}, 1, assigned_names(self.loop.body)):
            updates.setdefault(n.node.buffer.name, []).append(n)
        found = (self.copy(of) for name, of in updates.items() if name in self.given)
        return [c for c in found if c is not None]

    def copy(self, updates: Sequence[_Update]) -> _Copy | None:
        """A copy for ``updates``, which are all of one buffer."""
        buffer, op = updates[0].node.buffer, updates[0].node.op
        nodes = [u.node for u in updates]
        if op not in _OPERATORS or any(n.op != op or n.result is not None for n in nodes):
            return None
        if buffer.strides is not None or (op in ("min", "max") and not buffer.dtype.is_integer):
            return None
        reads = (e for n in nodes for value in (n.value, *n.indices) for e in loads(value))
        if any(e.buffer.name == buffer.name for e in reads) or is_used_besides(self.loop.body, buffer.name, nodes):
            return None
        times = sum(u.times for u in updates)
        box = [_united([u.box[d] for u in updates]) for d in range(buffer.rank)]
        name = fresh_name(f"{buffer.name}_own", self.taken)
        if all(side.lo is not None and side.hi is not None for side in box):
            lows = tuple(side.lo or 0 for side in box)
            sizes = [(side.hi or 0) - low + 1 for side, low in zip(box, lows)]
            if math.prod(sizes) * buffer.dtype.itemsize <= self.room:
                own = Buffer(name, buffer.dtype, tuple(map(idx, sizes)))
                return _Copy(buffer, own, lows, op, checked=False, times=times)
        if buffer.rank > 1:
            return None
        return _Copy(buffer, Buffer(name, buffer.dtype, buffer.shape), (0,), op, checked=True, times=times)

    def is_worth(self, copy: _Copy) -> Expr:
        blocks = Binary("-", self.loop.hi, self.loop.lo)
        updates = Binary("*", blocks, idx(copy.times))
        needed = Binary("*", copy.elements(), idx(WORTH * self.parts))
        enough: Expr = Compare(">=", updates, needed)
        if copy.checked:
            most = idx(self.room // copy.own.dtype.itemsize)
            enough = all_of([Compare("<=", copy.elements(), most), enough])
        return enough

    def with_copies(self, copies: Sequence[_Copy]) -> Stmt:
        of = {c.buffer.name: c for c in copies}

        def redirected(n: Node) -> Node | None:
            copy = of.get(n.buffer.name) if isinstance(n, Atomic) else None
            return copy.redirected(n, self.taken) if isinstance(n, Atomic) and copy is not None else None

        body = rewrite(self.loop.body, redirected)
        part = Var(fresh_name(f"{self.loop.var.name}_part", self.taken))
        lo, hi = (self.bound(Binary("+", part, idx(n))) for n in (0, 1))
        starts, totals = [c.start(self.taken) for c in copies], [c.total(self.taken) for c in copies]
        made = sequence([*starts, replace(self.loop, lo=lo, hi=hi, body=body), *totals])
        for c in copies:
            made = Alloc(c.own, made)
        return For(part, idx(0), idx(self.parts), "parallel", made, span=self.loop.span)

    def bound(self, part: Expr) -> Expr:
        """Where the blocks of ``part`` begin."""
        count = Binary("max", Binary("-", self.loop.hi, self.loop.lo), idx(0))
        return simplify(Binary("+", self.loop.lo, Binary("//", Binary("*", count, part), idx(self.parts))))


def _updates(s: Stmt, ranges: Ranges, times: int, changing: frozenset[str]) -> list[_Update]:
    """The atomic updates in ``s``, each made ``times`` times or more, tests and loops of unknown length aside."""
    if isinstance(s, Atomic):
        return [_Update(s, tuple(bounds(i, ranges) for i in s.indices), times)]
    if not any(isinstance(n, Atomic) for n in walk(s)):
        return []
    if isinstance(s, For):
        ranges, times = ranges_inside(s, ranges), times * (constant_extent(s) or 1)
    if isinstance(s, Let) and s.var.name not in changing and s.var.dtype.is_integer:
        ranges = {**ranges, s.var.name: bounds(s.value, ranges)}
    found: list[_Update] = []
    for inner in inner_statements(s):
        held = ranges_where(s.condition, inner is s.then, ranges, changing) if isinstance(s, If) else ranges
        found += _updates(inner, held, times, changing)
    return found


def _united(sides: Sequence[Interval]) -> Interval:
    united = sides[0]
    for side in sides[1:]:
        united = united.union(side)
    return united
