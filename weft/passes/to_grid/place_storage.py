"""Where storage of a block lives when its threads run as one: each thread's own, shared memory, or device memory.

An element belongs to the thread whose number its subscript spells (`thread_digits`). Storage all of whose accesses
spell the same digits is distributed: each thread has an array of what is left of the subscripts. Threads that
differ only in digits that no subscript spells each have a copy, which they compute alike.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from weft.ir.buffer import Buffer
from weft.ir.errors import UnsupportedError
from weft.ir.expr import AddressOf, Const, Expr, Load, idx
from weft.ir.interval import Interval, bounds
from weft.ir.intrinsics import HINTS
from weft.ir.stmt import JUMPS, Alloc, Assign, Atomic, Evaluate, Stmt, Store
from weft.ir.visit import children, mentions, walk
from weft.passes.analysis.thread_digits import Placed, Split, join_digits, rest_size, split_subscript
from weft.passes.analysis.thread_shapes import Shape
from weft.passes.analysis.thread_units import Touch, Unit

#: Bytes of one thread's own array of which more are better shared.
MOST_OWN_BYTES = 1024


@dataclass(frozen=True, slots=True)
class Own:
    """Each thread has ``buffer`` for itself: what the digits ``placed`` leave of the original."""

    buffer: Buffer
    placed: tuple[Placed, ...]


@dataclass(slots=True)
class Use:
    """Accesses to one buffer: by which unit (None: by all threads alike), with which ranges of variables."""

    touches: list[tuple[Unit | None, Touch, dict[str, Interval]]] = field(default_factory=list)


@dataclass(slots=True)
class Placement:
    """What storage is distributed, which units are reductions across threads, and which are run by all alike."""

    own: dict[str, Own] = field(default_factory=dict)
    reductions: set[int] = field(default_factory=set)
    repeated: set[int] = field(default_factory=set)


def place_storage(
    made: Iterable[Alloc], units: list[Unit], uses: dict[str, Use], shape: Shape, ranges: dict[str, Interval]
) -> Placement:
    """Which of ``made`` is distributed over threads; the rest is shared."""
    placer = _Placer({a.buffer.name: a.buffer for a in made}, units, uses, shape, ranges)
    return placer.place()


def is_written(n: Touch) -> bool:
    return isinstance(n, (Store, Atomic))


@dataclass(slots=True)
class _Placer:
    buffers: dict[str, Buffer]
    units: list[Unit]
    uses: dict[str, Use]
    shape: Shape
    ranges: dict[str, Interval]
    placement: Placement = field(default_factory=Placement)

    def place(self) -> Placement:
        found = self.placement
        candidates = {name for name, b in self.buffers.items() if b.scope != "shared"}
        found.reductions = {id(u) for u in self.units if u.reduction is not None}
        while True:
            before = (set(candidates), set(found.reductions))
            found.own = {}
            for name in sorted(candidates):
                own = self.distribute(name)
                if own is None:
                    candidates.discard(name)
                else:
                    found.own[name] = own
            found.reductions &= {id(u) for u in self.units if self.is_distributed(u)}
            candidates -= self.not_repeatable()
            if (candidates, found.reductions) == before:
                break
        found.own = {name: own for name, own in found.own.items() if name in candidates}
        found.repeated = {id(u) for u in self.units if self.is_repeated(u)}
        for name in self.buffers.keys() - found.own.keys():
            if self.buffers[name].scope in ("register", "local") and self.shape.total > 1:
                raise _not_one_thread(self.buffers[name])
        return found

    def split(self, unit: Unit | None, n: Touch, ranges: dict[str, Interval]) -> Split | None:
        digits = {} if unit is None else dict(unit.digits)
        if unit is not None and id(unit) in self.placement.reductions:
            digits.update(unit.group)
        return split_subscript(n.indices, digits, ranges)

    def distribute(self, name: str) -> Own | None:
        """How ``name`` is distributed, or None where it cannot be or should not."""
        buffer, use = self.buffers[name], self.uses.get(name, Use())
        if buffer.strides is not None or not use.touches:
            return None
        pattern: tuple[Placed, ...] | None = None
        for unit, n, ranges in use.touches:
            split = None if isinstance(n, AddressOf) else self.split(unit, n, ranges)
            if split is None or (pattern is not None and split.placed != pattern):
                return None
            pattern = split.placed
            if is_written(n) and not self.writes_own(unit, n, pattern):
                return None
        return self.own_buffer(buffer, pattern or ())

    def writes_own(self, unit: Unit | None, n: Touch, pattern: tuple[Placed, ...]) -> bool:
        """Whether all threads with the digits of ``pattern`` make the write, and none else."""
        if isinstance(n, Atomic):
            return False
        return unit is None or unit.own == join_digits(p.digit for p in pattern)

    def own_buffer(self, buffer: Buffer, pattern: tuple[Placed, ...]) -> Own | None:
        shape: list[Expr] = []
        for dim, size in enumerate(buffer.shape):
            most = int(size.value) if isinstance(size, Const) else bounds(size, self.ranges).hi
            if most is None:
                return None
            shape.append(idx(rest_size(most, dim, pattern)))
        asked = buffer.scope in ("register", "local")
        own = replace(buffer, shape=tuple(shape), scope=buffer.scope if asked else "local")
        too_large = (own.byte_count() or 0) > MOST_OWN_BYTES and not asked and self.shape.total > 1
        return None if too_large else Own(own, pattern)

    def is_distributed(self, unit: Unit) -> bool:
        """Whether a reduction runs over storage of which each thread has its part."""
        if unit.reduction is None:
            return False
        return all(load.buffer.name in self.placement.own for load in unit.reduction.sources(self.buffers))

    def is_repeated(self, unit: Unit) -> bool:
        """Whether threads that differ in other digits than the unit's all run it: it writes what each of them has."""
        if id(unit) in self.placement.reductions or not self.shape.others(unit.own) or _is_for_all(unit.body):
            return True
        return any(is_written(n) and n.buffer.name in self.placement.own for n, _ in unit.touches())

    def not_repeatable(self) -> set[str]:
        """Distributed storage that a unit writes which cannot be run by all threads alike."""
        names: set[str] = set()
        for unit in self.units:
            if id(unit) in self.placement.reductions or not self.shape.others(unit.own) or not self.is_repeated(unit):
                continue
            inside = mentions(unit.body)
            written = {n.buffer.name for n, _ in unit.touches() if is_written(n)}
            foreign = written - self.placement.own.keys() - inside.allocated
            read = _read_outside(unit.body, foreign)
            atomics = any(isinstance(n, Atomic) and n.result is not None for n, _ in unit.touches())
            if foreign & read or atomics or inside.addressed:
                names |= written & self.placement.own.keys()
        return names


def _is_for_all(s: Stmt) -> bool:
    """Whether ``s`` is for every thread: it changes a variable, ends something, or says something about memory."""
    if isinstance(s, Atomic) and s.result is not None:
        raise UnsupportedError(
            f"the old value of `{s.buffer.name}` is needed by all threads of the block",
            span=s.span,
            why="one thread makes the atomic update",
            help="make the update inside a thread loop",
        )
    return isinstance(s, (Assign, *JUMPS)) or (isinstance(s, Evaluate) and s.call.name in HINTS)


def _read_outside(s: Stmt, foreign: set[str]) -> set[str]:
    """Buffers that are read in ``s`` other than to write ``foreign`` ones, which one thread alone does."""
    if isinstance(s, (Store, Atomic)) and s.buffer.name in foreign:
        return set()
    names = {n.buffer.name for e in children(s) if isinstance(e, Expr) for n in walk(e) if isinstance(n, Load)}
    return names.union(*(_read_outside(inner, foreign) for inner in children(s) if isinstance(inner, Stmt)))


def _not_one_thread(buffer: Buffer) -> UnsupportedError:
    return UnsupportedError(
        f"`{buffer.name}` cannot be {buffer.scope} storage here",
        span=buffer.span,
        why="it is made outside the thread loops and not every element belongs to one thread",
        help="leave its scope to the compiler, or make it shared",
    )
