"""From the fork-join form of a GPU program to the grid form: one nest of threads in each block, with barriers.

    block b { thread t { a } ; for k { thread t { b } } }         # fork-join: a thread loop ends before what follows
    block b { thread t { a ; for k { barrier ; b } } }            # grid: threads go on until a barrier

Thread nests that follow one another become one; what the block does outside of them is done by one thread, or by
all of them alike where each has the result for itself (`place_storage`). Barriers stand where two threads touch one
element (`insert_barriers`). Reductions over an element of each thread become ``thread_reduce``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from weft.ir.buffer import Buffer
from weft.ir.errors import UnsupportedError
from weft.ir.expr import AddressOf, Compare, Const, Expr, Load, Select, Var, identity, idx
from weft.ir.interval import Interval, bounds
from weft.ir.simplify import simplify
from weft.ir.stmt import Alloc, Atomic, Barrier, For, Kernel, Seq, Stmt, Store
from weft.ir.visit import children, fresh_name, rebuild, replace_buffers, substitute, used_names, walk
from weft.passes.conditions import guarded
from weft.passes.insert_barriers import insert_barriers
from weft.passes.level_threads import around
from weft.passes.loop_ranges import loop_range
from weft.passes.make_units import make_units
from weft.passes.pad_shared import bytes_of, pad_shared
from weft.passes.place_storage import Placement, Use, place_storage
from weft.passes.split_launches import Launch, split_launches
from weft.passes.thread_digits import Digit, split_subscript
from weft.passes.thread_reductions import build_reduction, combined
from weft.passes.thread_shapes import WARP, Shape
from weft.passes.thread_units import Unit, change_memory, headers, made_in, units_in
from weft.poly.leaves import sizes_of

Ranges = Mapping[str, Interval]


def join_threads(kernel: Kernel, *, fast: bool = False, shared_bytes: int = 232448, most_threads: int = 1024) -> Kernel:
    """``kernel`` in grid form. Launches that have barriers already are left as they are."""
    joined = split_launches(kernel, lambda launch: _Join(kernel, fast, shared_bytes, most_threads).launch(launch))
    return simplify(joined)


@dataclass(slots=True)
class _Join:
    kernel: Kernel
    fast: bool
    shared_bytes: int
    most_threads: int
    taken: set[str] = field(default_factory=set)
    shape: Shape = Shape((), ())
    placement: Placement = field(default_factory=Placement)
    shared: list[Buffer] = field(default_factory=list)
    #: Storage of a block in device memory, and how its subscripts start.
    device: list[Buffer] = field(default_factory=list)
    moved: dict[str, tuple[Buffer, tuple[Expr, ...]]] = field(default_factory=dict)
    scratch: dict[str, Buffer] = field(default_factory=dict)
    units: list[Stmt] = field(default_factory=list)

    def launch(self, launch: Launch) -> Stmt:
        blocks = launch.blocks or (For(Var(self.fresh("b")), idx(0), idx(1), "block", Seq(())),)
        if any(isinstance(n, Barrier) for n in walk(launch.body)):
            return around(blocks, launch.body)
        self.taken = used_names(self.kernel)
        ranges = {name: Interval(0, None) for name in sizes_of(self.kernel)}
        for loop in blocks:
            ranges[loop.var.name] = loop_range(loop, ranges)
        body = self.unique_storage(launch.body)
        tree, self.shape = make_units(body, ranges, fast=self.fast, most_threads=self.most_threads)
        made = made_in(tree)
        self.placement = place_storage(made, units_in(tree), _uses(tree, ranges), self.shape, ranges)
        self.place_others(made, blocks, ranges)
        body = self.join(tree, ranges)
        threads = [For(v, idx(0), idx(n), "thread", Seq(())) for v, n in zip(self.shape.vars, self.shape.extents)]
        body = insert_barriers(
            self.kernel, blocks, [*self.shared, *self.scratch.values()], threads, body, self.units,
            frozenset(b.name for b in self.scratch.values()),
        )  # fmt: skip
        body = pad_shared(body, threads, self.shared_bytes - sum(map(bytes_of, (*self.shared, *self.scratch.values()))))
        for buffer in reversed(self.device):
            body = Alloc(buffer, body)
        return body

    def fresh(self, name: str) -> str:
        self.taken |= used_names(self.kernel)
        return fresh_name(name, self.taken)

    def unique_storage(self, body: Stmt) -> Stmt:
        """Storage made at several places under one name gets names of its own."""
        seen: set[str] = set()

        def visit(n: Any) -> Any:
            if not isinstance(n, Stmt):
                return n
            n = rebuild(n, visit)
            if isinstance(n, Alloc):
                if n.buffer.name in seen:
                    other = replace(n.buffer, name=self.fresh(n.buffer.name))
                    n = Alloc(other, replace_buffers(n.body, {n.buffer: other}), span=n.span)
                seen.add(n.buffer.name)
            return n

        return visit(body)  # type: ignore[no-any-return]

    # Storage

    def place_others(self, made: list[Alloc], blocks: tuple[For, ...], ranges: Ranges) -> None:
        """Storage that is not distributed: shared, or in device memory where it is too large for that."""
        used = 0
        for alloc in made:
            old = alloc.buffer
            if old.name in self.placement.own:
                continue
            sizes = [bounds(size, ranges).hi for size in old.shape]
            known = [n for n in sizes if n is not None]
            count = math.prod(known) * old.dtype.itemsize if len(known) == len(sizes) else None
            fits = count is not None and used + count <= self.shared_bytes
            if old.scope == "shared" and not fits:
                raise _does_not_fit(old, used, count, self.shared_bytes)
            if fits and count is not None:
                used += count
                new = replace(old, shape=tuple(idx(n) for n in known), scope="shared")
                self.shared.append(new)
                self.moved[old.name] = (new, ())
            else:
                grid = tuple(loop.hi for loop in blocks)
                new = replace(old, shape=(*grid, *old.shape), scope="global", strides=None)
                self.device.append(new)
                self.moved[old.name] = (new, tuple(loop.var for loop in blocks))

    def relocated(self, digits: Mapping[str, Digit], node: Any, ranges: Ranges) -> Any:
        """``node`` with accesses to storage of the block where that now is."""

        def change(n: Any, inside: Ranges) -> Any:
            own = self.placement.own.get(n.buffer.name)
            if own is not None:
                split = split_subscript(n.indices, digits, inside)
                assert split is not None
                return replace(n, buffer=own.buffer, indices=split.rest)
            moved = self.moved.get(n.buffer.name)
            return n if moved is None else replace(n, buffer=moved[0], indices=(*moved[1], *n.indices))

        return change_memory(node, ranges, change)

    # Joining

    def join(self, s: Stmt, ranges: Ranges) -> Stmt:
        if isinstance(s, Unit):
            return self.reduction(s) if id(s) in self.placement.reductions else self.marked(self.unit(s))
        if isinstance(s, Alloc):
            own = self.placement.own.get(s.buffer.name)
            body = self.join(s.body, ranges)
            return body if own is None else Alloc(own.buffer, body, span=s.span)
        inside = {**ranges, s.var.name: loop_range(s, ranges)} if isinstance(s, For) else ranges

        def visit(n: Any) -> Any:
            if isinstance(n, Stmt):
                return self.join(n, inside)
            return self.relocated({}, n, ranges) if isinstance(n, Expr) else n

        made = rebuild(s, visit)
        return replace(made) if made is s else made  # type: ignore[type-var]

    def marked(self, s: Stmt) -> Stmt:
        """``s`` as a piece between which and others barriers may stand."""
        self.units.append(Seq((s,)))
        return self.units[-1]

    def unit(self, unit: Unit) -> Stmt:
        body = self.relocated(unit.digits, unit.body, unit.ranges)
        first = self.shape.first_of(unit.own)
        if id(unit) in self.placement.repeated:
            if first:
                body = _guard_foreign(body, first, {own.buffer.name for own in self.placement.own.values()})
            first = []
        body = substitute(guarded(list(unit.nest.tests), _own_scope(body)), self.values(unit.digits))
        return guarded(first, body)

    def values(self, digits: Mapping[str, Digit]) -> dict[Var, Expr]:
        return {Var(name): self.shape.digit(d) for name, d in digits.items()}

    def reduction(self, unit: Unit) -> Stmt:
        """Combines what the threads of a group have; where some have nothing to do they bring what changes nothing."""
        c = unit.reduction
        assert c is not None
        inside = {**unit.ranges, **{loop.var.name: loop_range(loop, unit.ranges) for loop in c.loops}}
        values = self.values({**unit.digits, **unit.group})
        starts: dict[Var, Expr] = {loop.var: loop.lo + loop.var for loop in c.loops if loop.lo != idx(0)}
        value = substitute(c.value, starts)
        value = self.relocated({**unit.digits, **unit.group}, value, {**inside, **_from_zero(unit.group)})
        tests = [*unit.nest.tests, *c.guards]
        mine = [
            Compare("<", loop.var, simplify(loop.hi - loop.lo)) for loop in c.loops if not _is_whole(loop, unit.group)
        ]
        value = substitute(value, values)
        zero = identity(c.op, c.store.buffer.dtype) if c.op in ("+", "*", "min", "max") else None
        conditions = [substitute(t, values) for t in (*tests, *mine)]
        if conditions and zero is None:
            raise UnsupportedError(f"a reduction with `{c.op}` across threads of which some have no value")
        for test in reversed(conditions):
            assert zero is not None
            value = Select(test, value, zero)
        target = c.store.buffer.name
        keep = target in self.placement.own and not tests
        place = substitute(self.relocated(unit.digits, Load(c.store.buffer, c.store.indices), unit.ranges), values)
        if keep or zero is None:
            return self.marked(self.combine(unit, c.op, value, place))
        result = Buffer(self.fresh(f"{target}_all"), c.store.buffer.dtype, (idx(1),), scope="local")
        all_of = Load(result, (idx(0),))
        update = Store(place.buffer, place.indices, combined(c.op, place, all_of), span=c.store.span)
        first = [] if target in self.placement.own else self.shape.first_of(unit.own)
        after = guarded([*first, *(substitute(t, values) for t in tests)], update)
        combine = Seq((Store(result, (idx(0),), zero), self.combine(unit, c.op, value, all_of)))
        return Alloc(result, Seq((self.marked(combine), self.marked(after))))

    def combine(self, unit: Unit, op: str, value: Expr, place: Load) -> Stmt:
        reach = max(d.stride * d.extent for d in unit.group.values())
        in_warp = (reach <= WARP and WARP % reach == 0) or self.shape.total <= WARP
        scratch = self.scratch.get(str(value.dtype))
        if scratch is None:
            scratch = Buffer(self.fresh("passed"), value.dtype, (idx(self.shape.total),), scope="shared")
            self.scratch[str(value.dtype)] = scratch
        assert unit.reduction is not None
        own = [(loop.var, unit.group[loop.var.name], self.shape.digit(unit.group[loop.var.name]))
               for loop in unit.reduction.loops]  # fmt: skip
        store = Store(place.buffer, place.indices, value, span=unit.reduction.store.span)
        return build_reduction(store, op, value, scratch, self.shape.number(), own, "warp" if in_warp else "block")


def _is_whole(loop: For, group: Mapping[str, Digit]) -> bool:
    extent = simplify(loop.hi - loop.lo)
    return isinstance(extent, Const) and int(extent.value) == group[loop.var.name].extent


def _from_zero(group: Mapping[str, Digit]) -> dict[str, Interval]:
    return {name: Interval(0, d.extent - 1) for name, d in group.items()}


def _uses(tree: Stmt, ranges: Ranges) -> dict[str, Use]:
    """The accesses to each buffer, by units and by conditions and bounds that all threads evaluate."""
    found: dict[str, Use] = {}

    def visit(s: Stmt, ranges: Ranges) -> None:
        if isinstance(s, Unit):
            for n, inside in s.touches():
                found.setdefault(n.buffer.name, Use()).touches.append((s, n, dict(inside)))
            return
        for e in headers(s):
            for read in walk(e):
                if isinstance(read, (Load, AddressOf)):
                    found.setdefault(read.buffer.name, Use()).touches.append((None, read, dict(ranges)))
        inside = {**ranges, s.var.name: loop_range(s, ranges)} if isinstance(s, For) else ranges
        for inner in children(s):
            if isinstance(inner, Stmt):
                visit(inner, inside)

    visit(tree, ranges)
    return found


def _guard_foreign(s: Stmt, first: list[Expr], own: set[str]) -> Stmt:
    """``s``, which all threads of a group run, with writes to what they share made by one of them."""
    inside = {n.buffer.name for n in walk(s) if isinstance(n, Alloc)}

    def visit(n: Any) -> Any:
        if not isinstance(n, Stmt):
            return n
        if isinstance(n, (Store, Atomic)):
            return n if n.buffer.name in own | inside else guarded(first, n)
        return rebuild(n, visit)

    return visit(s)  # type: ignore[no-any-return]


def _own_scope(s: Stmt) -> Stmt:
    """Storage made by a thread is its own."""

    def visit(n: Any) -> Any:
        if not isinstance(n, Stmt):
            return n
        n = rebuild(n, visit)
        if isinstance(n, Alloc) and n.buffer.scope == "shared":
            raise UnsupportedError(
                f"`{n.buffer.name}` is shared storage made by one thread", span=n.span,
                help="make it outside the thread loops",
            )  # fmt: skip
        if isinstance(n, Alloc) and n.buffer.scope == "global":
            new = replace(n.buffer, scope="local")
            return Alloc(new, replace_buffers(n.body, {n.buffer: new}), span=n.span)
        return n

    return visit(s)  # type: ignore[no-any-return]


def _does_not_fit(buffer: Buffer, used: int, count: int | None, most: int) -> UnsupportedError:
    size = "a size that is not a constant" if count is None else f"{count} bytes"
    return UnsupportedError(
        f"`{buffer.name}` does not fit in shared memory",
        span=buffer.span,
        why=f"it has {size}, and {most - used} of {most} bytes are left",
        help="stage a smaller tile",
    )
