"""From the fork-join form of a GPU program to the grid form: one nest of threads in each block, with barriers.

    block b { thread t { a } ; for k { thread t { b } } }         # fork-join: a thread loop ends before what follows
    block b { thread t { a ; for k { barrier ; b } } }            # grid: threads go on until a barrier

Thread nests that follow one another become one; what the block does outside of them is done by one thread, or by
all of them alike where each has the result for itself (`place_storage`). Barriers stand where two threads touch one
element (`insert_barriers`). Reductions over an element of each thread become ``thread_reduce``.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from weft.ir.errors import UnsupportedError
from weft.ir.expr import AddressOf, Const, Expr, Load, Var, idx
from weft.ir.interval import Interval, Ranges, ranges_through
from weft.ir.nesting import around, in_turn, statements_in
from weft.ir.simplify import simplify
from weft.ir.stmt import Alloc, Atomic, Break, For, Kernel, Let, Return, Seq, Stmt, Store, Tensorized, While
from weft.ir.visit import (
    children,
    fresh_name,
    loads,
    map_statements,
    mentions,
    rebuild,
    stores,
    substitute,
    used_names,
    walk,
)
from weft.passes.analysis.conditions import guarded
from weft.passes.analysis.loop_ranges import extent, ranges_inside
from weft.passes.analysis.name_apart import name_apart
from weft.passes.analysis.thread_shapes import Shape
from weft.passes.analysis.thread_teams import barriers_in, check_shared
from weft.passes.analysis.thread_units import Unit, headers
from weft.passes.to_grid.insert_barriers import Grid, insert_barriers
from weft.passes.to_grid.join_reductions import ReductionJoiner
from weft.passes.to_grid.launch_storage import LaunchStorage
from weft.passes.to_grid.make_units import make_units
from weft.passes.to_grid.pad_shared import pad_shared
from weft.passes.to_grid.place_storage import Use, place_storage
from weft.passes.to_grid.split_launches import Launch, split_launches
from weft.poly.leaves import sizes_of


def join_threads(kernel: Kernel, *, fast: bool = False, shared_bytes: int = 232448, most_threads: int = 1024) -> Kernel:
    """``kernel`` in grid form. Launches that have barriers in thread loops already must have it."""
    joined = split_launches(kernel, lambda launch: _Join(kernel, fast, shared_bytes, most_threads).launch(launch))
    return simplify(replace(joined, body=name_apart(joined.body, set(), used_names(joined), (Alloc,))))


def _checked_grid(s: Stmt) -> Stmt:
    """``s``, a block with barriers, where they are in one nest of threads; more loops of threads in it take turns."""
    if isinstance(s, (Alloc, Let)) or (isinstance(s, Seq) and len(s.body) == 1):
        return map_statements(s, _checked_grid)
    if isinstance(s, For) and s.kind == "thread" and isinstance(extent(s), Const):
        return replace(s, body=_checked_grid(s.body))
    for loop in walk(s):
        if isinstance(loop, For) and loop.kind == "thread" and barriers_in(loop):
            raise UnsupportedError(
                f"loop `{loop.var.name}` has barriers inside but is not a loop over the threads of a launch",
                span=loop.span,
                why="threads and blocks are perfectly nested loops with sizes known before the launch",
                help="put the block and thread loops around everything else, with constant numbers of threads",
            )
    return in_turn(s, "thread")


@dataclass(slots=True)
class _Join:
    """The joining of one launch."""

    kernel: Kernel
    fast: bool
    shared_bytes: int
    most_threads: int
    taken: set[str] = field(default_factory=set)
    units: list[Stmt] = field(default_factory=list)

    def launch(self, launch: Launch) -> Stmt:
        blocks = launch.blocks or (For(Var(self.fresh("b")), idx(0), idx(1), "block", Seq(())),)
        if any(n.kind == "thread" and barriers_in(n) for n in statements_in(launch.body, For)):
            check_shared(launch.body)
            return around(blocks, _checked_grid(launch.body))
        ranges = ranges_through(blocks, {name: Interval(0, None) for name in sizes_of(self.kernel)})
        body = name_apart(launch.body, set(), self.names(), (Alloc,))
        tree, shape = make_units(body, ranges, self.fresh, fast=self.fast, most_threads=self.most_threads)
        made = statements_in(tree, Alloc)
        placement = place_storage(made, statements_in(tree, Unit), _uses(tree, ranges), shape, ranges)
        storage = LaunchStorage(
            blocks,
            shape,
            placement,
            self.shared_bytes,
            frozenset(v.name for v in self.kernel.scalars),
            uncounted=_computed_operands(body),
        )
        storage.place(made, ranges)
        return self.finished(storage, self.join(tree, storage, ranges))

    def finished(self, storage: LaunchStorage, body: Stmt) -> Stmt:
        """The loops and the storage around the body of a thread, and the barriers in it."""
        shape = storage.shape
        threads = [For(v, idx(0), idx(n), "thread", Seq(())) for v, n in zip(shape.vars, shape.extents)]
        passing = list(storage.passing.values())
        grid = Grid(self.kernel, storage.blocks, (*storage.shared, *passing), tuple(threads))
        body = insert_barriers(grid, body, self.units, frozenset(b.name for b in passing))
        body = pad_shared(body, threads, storage.spare_bytes)
        for buffer in reversed(storage.device):
            body = Alloc(buffer, body)
        return body

    def names(self) -> set[str]:
        """Those that are taken."""
        self.taken |= used_names(self.kernel)
        return self.taken

    def fresh(self, name: str) -> str:
        return fresh_name(name, self.names())

    def join(self, s: Stmt, storage: LaunchStorage, ranges: Ranges) -> Stmt:
        if isinstance(s, Unit):
            if id(s) in storage.placement.reductions:
                return ReductionJoiner(storage, self.marked, self.fresh).join(s)
            return self.marked(_join_unit(s, storage))
        if isinstance(s, Alloc):
            own = storage.placement.own.get(s.buffer.name)
            body = self.join(s.body, storage, ranges)
            return body if own is None else Alloc(own.buffer, body, span=s.span)
        inside = ranges_inside(s, ranges)

        def visit(n: Any) -> Any:
            if isinstance(n, Stmt):
                return self.join(n, storage, inside)
            return storage.relocated({}, n, ranges) if isinstance(n, Expr) else n

        made = rebuild(s, visit)
        if isinstance(made, For) and made.kind in ("vector", "parallel"):
            return replace(made, kind="serial")  # all threads go through it together
        return replace(made) if made is s else made  # type: ignore[type-var]

    def marked(self, s: Stmt) -> Stmt:
        """``s`` as a piece between which and others barriers may stand."""
        self.units.append(Seq((s,)))
        return self.units[-1]


def _join_unit(unit: Unit, storage: LaunchStorage) -> Stmt:
    """What a thread does of a nest; of a nest for fewer threads one of those that agree, or each of them."""
    first = storage.shape.first_of(unit.own)
    repeated = id(unit) in storage.placement.repeated
    alone = not unit.own and bool(first) and not repeated
    unit = _named_unlike(unit, storage.shape)
    body = _ending_here(unit.body) if unit.nest.loops else unit.body
    body = storage.own_storage(body, unit.ranges, alone=alone)
    body = storage.relocated(unit.digits, body, unit.ranges)
    if repeated and first:
        body = _guard_foreign(body, first, {own.buffer.name for own in storage.placement.own.values()})
    body = substitute(guarded(list(unit.nest.tests), body), storage.shape.values(unit.digits))
    return body if repeated else guarded(first, body)


def _named_unlike(unit: Unit, shape: Shape) -> Unit:
    """``unit`` with loops named apart from threads that count something else: its body is to mention these too."""
    values = shape.values(unit.digits)
    clash = [v for v in shape.vars if values.get(v, v) != v]
    if not clash:
        return unit
    new: dict[Var, Expr] = {v: Var(f"{v.name}'") for v in clash}
    names = {v.name: f"{v.name}'" for v in clash}
    nest = replace(
        unit.nest,
        tests=tuple(substitute(t, new) for t in unit.nest.tests),
        body=substitute(unit.body, new),
        ranges={names.get(name, name): known for name, known in unit.ranges.items()},
    )
    return replace(unit, nest=nest, digits={names.get(name, name): d for name, d in unit.digits.items()})


def _ending_here(s: Stmt) -> Stmt:
    """``s`` with returns, which end an iteration of a thread loop, as ends of a loop that runs once."""
    if not statements_in(s, Return):
        return s

    def visit(n: Stmt, inside: bool) -> Stmt:
        if isinstance(n, Return):
            if inside:
                raise UnsupportedError(
                    "a thread that returns from inside a loop",
                    span=n.span,
                    why="what its block does next is joined with what it does here",
                    help="leave the loop with break",
                )
            return Break(span=n.span)
        return map_statements(n, lambda inner: visit(inner, inside or isinstance(n, (For, While))))

    return For(Var(fresh_name("once", used_names(s))), idx(0), idx(1), "serial", visit(s, False))


def _computed_operands(body: Stmt) -> frozenset[str]:
    """Shared storage that hardware intrinsics alone read, of what threads computed: these may have it in registers."""
    made, read = mentions(body).allocated, [n.buffer.name for n in loads(body)]
    inside = [n.buffer.name for s in statements_in(body, Tensorized) for n in loads(s)]
    stored = {s.buffer.name for s in stores(body) if s.buffer.scope == "shared"}
    copied = {s.buffer.name for s in stores(body) for n in loads(s) if n.buffer.name not in made}
    return frozenset(n for n in stored - copied if inside.count(n) == read.count(n) > 0)


def _uses(tree: Stmt, ranges: Ranges) -> dict[str, Use]:
    """The accesses to each buffer, by units and by conditions and bounds that all threads evaluate."""
    uses: dict[str, Use] = {}

    def visit(s: Stmt, ranges: Ranges) -> None:
        if isinstance(s, Unit):
            for n, inside in s.touches():
                uses.setdefault(n.buffer.name, Use()).touches.append((s, n, dict(inside)))
            return
        for e in headers(s):
            for read in walk(e):
                if isinstance(read, (Load, AddressOf)):
                    uses.setdefault(read.buffer.name, Use()).touches.append((None, read, dict(ranges)))
        inside = ranges_inside(s, ranges)
        for inner in children(s):
            if isinstance(inner, Stmt):
                visit(inner, inside)

    visit(tree, ranges)
    return uses


def _guard_foreign(s: Stmt, first: list[Expr], own: set[str]) -> Stmt:
    """``s``, which all threads of a group run, with writes to what they share made by one of them."""
    inside = mentions(s).allocated

    def visit(n: Stmt) -> Stmt:
        if isinstance(n, (Store, Atomic)):
            return n if n.buffer.name in own | inside else guarded(first, n)
        return map_statements(n, visit)

    return visit(s)
