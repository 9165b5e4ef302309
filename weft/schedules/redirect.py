"""Accesses of a buffer sent to other storage, blocks included.

A block knows only its iterators, so where a new subscript depends on the loops around, the block gets an
iterator for it: ``B[vk, vn]`` below ``j_o`` becomes ``B_cache[vk, vj_i]`` with ``vj_i = j_i``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from weft.ir.buffer import Buffer
from weft.ir.expr import Binary, Const, Expr, Load, Reduce, Var, idx
from weft.ir.interval import Interval, range_between, ranges_through
from weft.ir.quick_init import replace
from weft.ir.simplify import simplify
from weft.ir.stmt import Atomic, Block, For, Iter, Region, Stmt, Store
from weft.ir.visit import free_vars, fresh_name, loads, mentions, rebuild, stores, substitute
from weft.schedules.layouts import Layout
from weft.schedules.make_blocks import element_region


@dataclass(frozen=True, slots=True)
class Placement:
    """``buffer[starts + offset]`` is kept in ``storage[layout of offset]``.

    ``extra`` subscripts, with their positions among those of the storage, are the same for all elements.
    """

    buffer: Buffer
    storage: Buffer
    starts: tuple[Expr, ...]
    layout: Layout
    extra: tuple[tuple[int, Expr], ...] = ()

    @property
    def varies(self) -> bool:
        """Whether the place of an element depends on the loops around."""
        return bool(self.extra) or any(free_vars(s) for s in self.starts)

    def element(self, subscripts: tuple[Expr, ...], ranges: Mapping[str, Interval]) -> tuple[Expr, ...]:
        """Where ``buffer[subscripts]`` is kept."""
        offsets = [simplify(Binary("-", i, start), ranges) for i, start in zip(subscripts, self.starts)]
        found = [simplify(e, ranges) for e in self.layout.indices(offsets)]
        for position, e in self.extra:
            found.insert(position, e)
        return tuple(found)


@dataclass
class _Level:
    """What names mean in a block (or, without a parent, outside all blocks)."""

    ranges: dict[str, Interval]
    parent: _Level | None = None
    iters: list[Iter] = field(default_factory=list)
    #: Variables bound inside the block, which nothing outside can name.
    inner: frozenset[str] = frozenset()

    def outward(self, e: Expr) -> Expr:
        """``e`` in terms of what is outside all blocks."""
        if self.parent is None:
            return e
        return self.parent.outward(substitute(e, {i.var: i.binding for i in self.iters}))

    def bring(self, e: Expr, extent: Expr, taken: set[str], base: str) -> Expr:
        """The value of ``e``, given in outermost terms and in ``0:extent``, as an expression in here."""
        if self.parent is None or isinstance(e, Const):
            return e
        binding = self.parent.bring(e, extent, taken, base)
        for i in self.iters:
            if i.binding == binding:
                return i.var
        name = f"v{binding.name}" if isinstance(binding, Var) else f"v{base}"
        var = Var(fresh_name(name, taken))
        self.iters.append(Iter(var, idx(0), extent, "spatial", binding))
        return var


class Redirection:
    """Sends accesses below a statement to a place.

    ``only`` names the blocks concerned, None for all code; without ``writes`` only reads go there, with a ``part`` only
    reads whose subscript of that dimension is that number.
    """

    def __init__(
        self,
        place: Placement,
        taken: set[str],
        only: frozenset[str] | None = None,
        *,
        writes: bool = True,
        part: tuple[int, int] | None = None,
    ) -> None:
        self.place = place
        self.taken = taken
        self.only = only
        self.writes = writes
        self.part = part

    def apply(self, s: Stmt, ranges: Mapping[str, Interval]) -> Stmt:
        return self.stmt(s, _Level(dict(ranges)))

    def stmt(self, s: Stmt, level: _Level) -> Stmt:
        m, name = mentions(s), self.place.buffer.name
        if name not in m.loaded and name not in m.stored:
            return s
        if isinstance(s, For):
            lo, hi = self.expr(s.lo, level), self.expr(s.hi, level)
            level.ranges[s.var.name] = range_between(lo, hi, level.ranges)
            return replace(s, lo=lo, hi=hi, body=self.stmt(s.body, level))
        if isinstance(s, Block):
            return self.block(s, level)
        rebuilt = rebuild(s, lambda n: self.child(n, level))
        writes = self.writes and isinstance(rebuilt, (Store, Atomic)) and rebuilt.buffer == self.place.buffer
        if writes and self.concerns(level) and isinstance(rebuilt, (Store, Atomic)):
            indices = self.indices(rebuilt.indices, level)
            return replace(rebuilt, buffer=self.place.storage, indices=indices)
        return rebuilt

    def child(self, n: Any, level: _Level) -> Any:
        if isinstance(n, Buffer):
            return n
        return self.stmt(n, level) if isinstance(n, Stmt) else self.expr(n, level)

    def expr(self, e: Any, level: _Level) -> Any:
        if isinstance(e, Buffer):
            return e
        if isinstance(e, Reduce):
            level.ranges.update(ranges_through(e.axes, level.ranges))
        e = rebuild(e, lambda n: self.expr(n, level))
        mine = isinstance(e, Load) and e.buffer == self.place.buffer and is_in_part(e.indices, self.part)
        if mine and self.concerns(level):
            return Load(self.place.storage, self.indices(e.indices, level), span=e.span)
        return e

    def concerns(self, level: _Level) -> bool:
        return self.only is None or level.parent is not None

    def block(self, s: Block, level: _Level) -> Stmt:
        if self.only is not None and level.parent is None and s.name not in self.only:
            return s
        iters = [replace(i, binding=self.expr(i.binding, level)) for i in s.iters]
        inner = frozenset(name for stmt in (s.init, s.body) if stmt is not None for name in mentions(stmt).bound)
        here = _Level(ranges_through(iters, level.ranges), level, iters, inner)
        init = None if s.init is None else self.stmt(s.init, here)
        body = self.stmt(s.body, here)
        if init == s.init and body == s.body:
            return s if tuple(iters) == s.iters else replace(s, iters=tuple(iters))
        reads, writes = self.regions(s, init, body)
        return replace(s, iters=tuple(here.iters), init=init, body=body, reads=reads, writes=writes)

    def regions(self, s: Block, init: Stmt | None, body: Stmt) -> tuple[tuple[Region, ...], tuple[Region, ...]]:
        """What the block touches now: regions of the buffer give way to those of the storage."""
        parts = [body] if init is None else [init, body]
        inner = {name for p in parts for name in mentions(p).bound}
        storage = self.place.storage
        read = [(n.buffer, n.indices) for p in parts for n in loads(p)]
        written = [(n.buffer, n.indices) for p in parts for n in stores(p)]
        result = []
        for old, now in ((s.reads, read), (s.writes, written)):
            left = {b for b, _ in now}
            kept = [r for r in old if r.buffer != self.place.buffer or r.buffer in left]
            new = dict.fromkeys(element_region(storage, indices, inner) for b, indices in now if b == storage)
            result.append((*kept, *new))
        return result[0], result[1]

    def indices(self, old: tuple[Expr, ...], level: _Level) -> tuple[Expr, ...]:
        """The subscripts in the storage of what had the subscripts ``old``, in terms of ``level``."""
        place, ranges = self.place, level.ranges
        if not place.varies:
            return place.element(old, ranges)
        outer = self.outermost(level).ranges
        simple = not any(loads(i) or level.inner & free_vars(i).keys() for i in old)
        if simple:
            subscripts = place.element(tuple(level.outward(i) for i in old), outer)
            named = enumerate(zip(subscripts, place.storage.shape))
            return tuple(level.bring(e, size, self.taken, f"{place.storage.name}_{d}") for d, (e, size) in named)
        name = place.storage.name
        starts = tuple(self.bring_start(s, level, f"{name}_start{d}") for d, s in enumerate(place.starts))
        extra = tuple((d, self.bring_start(e, level, f"{name}_at{d}")) for d, e in place.extra)
        return replace(place, starts=starts, extra=extra).element(old, ranges)

    def bring_start(self, e: Expr, level: _Level, base: str) -> Expr:
        return level.bring(e, Binary("+", e, idx(1)), self.taken, base)

    def outermost(self, level: _Level) -> _Level:
        return level if level.parent is None else self.outermost(level.parent)


def is_in_part(indices: Sequence[Expr], part: tuple[int, int] | None) -> bool:
    """Whether an access is of that place of a dimension, which its subscript says as a number."""
    return part is None or indices[part[0]] == idx(part[1])


def only_plain_accesses(root: Stmt, buffer: str) -> bool:
    """Whether every mention of ``buffer`` in code is a load, a store or an atomic: no address is taken but in hints."""
    return buffer not in mentions(root).addressed
