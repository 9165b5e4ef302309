"""Barriers exactly where one is needed: between two touches of one element by different threads, one of them a write.

The body of a thread is made of units, pieces in which threads have nothing to do with one another, in loops and
tests that all threads take alike. What has run since the last barrier is followed through these; where a unit meets
something of another thread among it, a barrier goes in front of the outermost loop or test that holds the one and
not the other, so that it is passed as seldom as possible and does for others too. In the end barriers that others
make needless are taken out, and those that only hold back threads of one warp are made so.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from weft.ir.buffer import Buffer
from weft.ir.errors import InternalError
from weft.ir.expr import Load
from weft.ir.nesting import around, inner_statements
from weft.ir.solve import Form, combine
from weft.ir.stmt import JUMPS, Alloc, Barrier, BarrierScope, For, If, Kernel, Let, Seq, Stmt, Tensorized, While
from weft.ir.visit import fact, map_statements, walk
from weft.passes.analysis.loop_ranges import constant_extent, runs_at_least_once
from weft.passes.analysis.thread_reductions import is_reduction
from weft.passes.analysis.thread_shapes import WARP, suffix_products
from weft.passes.analysis.thread_units import headers
from weft.poly.conflicts import Meeting, Memory, Surroundings, after, before, commute, difference, primed, written_by
from weft.poly.leaves import Access, Leaf, leaves, sizes_of


@dataclass(frozen=True, slots=True)
class Entry:
    """A node of the program that ran since the last barrier.

    ``crossing`` is the loop of which the next iteration (``exact``) or a later one has begun since. Of ``warp``
    entries the threads of one warp are ordered.
    """

    node: int
    crossing: int | None = None
    exact: bool = True
    warp: bool = False


State = frozenset[Entry]
NOTHING: State = frozenset()


class _Uncovered(Exception):
    """Before node ``place`` a barrier of ``scope`` is missing."""

    def __init__(self, place: int, scope: BarrierScope) -> None:
        self.place = place
        self.scope = scope


@dataclass(frozen=True, slots=True)
class Grid:
    """A launch of ``kernel``: ``blocks`` around ``shared`` arrays around ``threads``."""

    kernel: Kernel
    blocks: tuple[For, ...]
    shared: tuple[Buffer, ...]
    threads: tuple[For, ...]

    def around(self, body: Stmt) -> Stmt:
        body = around(self.threads, body)
        for buffer in reversed(self.shared):
            body = Alloc(buffer, body)
        return around(self.blocks, body)


def insert_barriers(grid: Grid, body: Stmt, units: Sequence[Stmt], ignored: frozenset[str] = frozenset()) -> Stmt:
    """The launch with ``body`` as that of its threads, and the barriers it needs.

    ``units`` are the statements in it between which barriers may stand; ``ignored`` buffers need none.
    """
    flow = _Flow(replace(grid.kernel, body=grid.around(body)), grid.threads, body, units, ignored)
    return grid.around(flow.with_barriers())


@dataclass(slots=True)
class _Flow:
    """Follows what has run since the last barrier through the body of a thread."""

    kernel: Kernel
    threads: tuple[For, ...]
    body: Stmt
    units: Sequence[Stmt]
    ignored: frozenset[str]
    barriers: dict[int, BarrierScope] = field(default_factory=dict)
    #: Of nodes by identity: the loops around each, the loops and tests down to it, and what its own accesses are.
    loops: dict[int, tuple[int, ...]] = field(default_factory=dict)
    paths: dict[int, tuple[int, ...]] = field(default_factory=dict)
    touched: dict[int, list[tuple[Leaf, Access]]] = field(default_factory=dict)
    known: dict[object, BarrierScope | None] = field(default_factory=dict)
    left: list[State] = field(default_factory=list)
    memory: Memory = field(default_factory=Memory)
    around: Surroundings = Surroundings()
    is_unit: frozenset[int] = frozenset()

    @property
    def extents(self) -> list[int]:
        return [constant_extent(t) or 0 for t in self.threads]

    def with_barriers(self) -> Stmt:
        self.threads = tuple(t for t in self.threads if constant_extent(t) != 1)
        if not self.threads:
            return self.body
        self.is_unit = frozenset(map(id, self.units))
        self.around = Surroundings(frozenset(), written_by(leaves(self.kernel)), sizes_of(self.kernel))
        self.note(self.body, (), ())
        while (missing := self.find_missing()) is not None:
            have = self.barriers.get(missing.place)
            if have == "block":
                raise InternalError("a barrier does not order what it stands between")
            self.barriers[missing.place] = "block" if have is not None else missing.scope
        self.remove_needless()
        return self.built(self.body)

    def note(self, s: Stmt, loops: tuple[int, ...], path: tuple[int, ...]) -> None:
        """What is to be known of each node."""
        key = id(s)
        self.loops[key], self.paths[key] = loops, (*path, key)
        found: list[Leaf] = []
        if key in self.is_unit:
            found = leaves(self.kernel, s)
        elif any(isinstance(n, Load) for e in headers(s) for n in walk(e)):
            found = [leaf for leaf in leaves(self.kernel, s) if leaf.stmt is s]
        self.touched[key] = [(leaf, a) for leaf in found for a in leaf.accesses if self.is_common(a)]
        if key not in self.is_unit:
            inside = (*loops, key) if isinstance(s, (For, While)) else loops
            below = (*path, key) if isinstance(s, (For, While, If)) else path
            for inner in inner_statements(s):
                self.note(inner, inside, below)

    def is_common(self, a: Access) -> bool:
        """Whether several threads can reach what is touched."""
        own = {t.var.name for t in self.threads} <= set(a.owners)
        return not own and a.buffer.name not in self.ignored and a.buffer.name in self.around.written

    # Following the program

    def find_missing(self) -> _Uncovered | None:
        self.left = []
        try:
            self.follow(self.body, NOTHING)
        except _Uncovered as found:
            return found
        return None

    def follow(self, s: Stmt, state: State) -> State:
        """What has run without a barrier since, when ``s`` ends."""
        if id(s) in self.is_unit:
            state = self.leave(s, self.meet(s, state))
            if any(isinstance(n, JUMPS) for n in inner_statements(s)):
                self.left.append(state)
            return state
        if isinstance(s, Seq):
            for stmt in s.body:
                state = self.follow(stmt, state)
            return state
        state = NOTHING if isinstance(s, Barrier) else self.meet(s, state)
        if isinstance(s, If):
            other = state if s.otherwise is None else self.follow(s.otherwise, state)
            return self.follow(s.then, state) | other
        if isinstance(s, (For, While)):
            return self.repeat(s, state)
        if isinstance(s, (Let, Alloc, Tensorized)):
            return self.follow(s.body, state)
        return state

    def leave(self, s: Stmt, state: State) -> State:
        """A reduction across threads waits for them itself."""
        scope = _last_barrier(s)
        return state if scope is None else _after(state, scope)

    def repeat(self, s: For | While, state: State) -> State:
        key, outer = id(s), self.left
        self.left = []
        seen = state
        while True:
            ended = self.follow(s.body, seen).union(*self.left)
            if isinstance(s, While):
                ended = self.meet(s, ended, slot=_at_end(s))
            more = frozenset(self.carried(e, key) for e in ended)
            if more <= seen:
                break
            seen |= more
        self.left = outer
        passed = ended if isinstance(s, For) and runs_at_least_once(s, {}) else seen | ended
        return frozenset(replace(e, crossing=None, exact=True) if e.crossing == key else e for e in passed)

    def carried(self, e: Entry, loop: int) -> Entry:
        """``e`` when the next iteration of ``loop`` begins."""
        if loop not in self.loops[e.node] and e.node != loop:
            return e
        if e.crossing == loop:
            return replace(e, exact=False)
        return replace(e, crossing=loop, exact=True)

    def meet(self, s: Stmt, state: State, *, slot: int | None = None) -> State:
        """What ``s`` itself touches, after what has run before; ``slot``: where a barrier stands if not before it."""
        key = id(s)
        scope = self.barriers.get(key if slot is None else slot)
        if scope is not None:
            state = _after(state, scope)
        if not self.touched[key]:
            return state
        for e in state:
            needed = self.conflict(e, key)
            if needed == "block" or (needed == "warp" and not e.warp):
                raise _Uncovered(self.place(e, key) if slot is None else slot, needed)
        return state | {Entry(key)}

    def place(self, e: Entry, key: int) -> int:
        """The node that a barrier between ``e`` and the node ``key`` goes in front of."""
        path, other = self.paths[key], self.paths[e.node]
        if e.crossing is not None:
            return path[path.index(e.crossing) + 1]
        return next((mine for mine, its in itertools.zip_longest(path, other) if mine != its and mine is not None), key)

    # Conflicts

    def conflict(self, e: Entry, key: int) -> BarrierScope | None:
        """The least barrier that keeps threads apart in ``e`` and then the node ``key``."""
        question = (e.node, e.crossing, e.exact, key)
        if question not in self.known:
            self.known[question] = self.find_conflict(e, key)
        return self.known[question]

    def find_conflict(self, e: Entry, key: int) -> BarrierScope | None:
        found: BarrierScope | None = None
        for first, a in self.touched[e.node]:
            for second, b in self.touched[key]:
                if a.buffer.name != b.buffer.name or not (a.writes or b.writes):
                    continue
                if commute(a, b, "fast", concurrent=True):
                    continue
                scope = self.compare(first, a, second, b, e)
                if scope == "block":
                    return "block"
                found = found or scope
        return found

    def compare(self, first: Leaf, a: Access, second: Leaf, b: Access, e: Entry) -> BarrierScope | None:
        shared, order = self.relation(first, second, e)
        around = replace(self.around, shared=shared)
        meeting = Meeting(first, a, second, b, around, self.memory)
        names = [t.var.name for t in self.threads]
        differ = [n for n in names if meeting.distance(n)]
        if not any(meeting.find([*order, way(n)]) is not None for n in differ for way in (after, before)):
            return None
        if math.prod(self.extents) <= WARP:
            return "warp"
        apart = any(meeting.find([*order, *self.in_warps(), *way]) is not None for way in _OTHER_WARP)
        return "block" if apart else "warp"

    def relation(self, first: Leaf, second: Leaf, e: Entry) -> tuple[frozenset[str], list[Form]]:
        """The loops that have equal values in both iterations, and how the others are ordered."""
        threads = {t.var.name for t in self.threads}
        equal: set[str] = set()
        order: list[Form] = []
        for one, other in zip(first.loops, second.loops):
            if one.node is not other.node:
                break
            if e.crossing is not None and id(one.node) == e.crossing:
                order.append(after(one.name))
                if e.exact:
                    order.append(combine({"": 1}, difference(one.name), -1))
                break
            if one.name not in threads:
                equal.add(one.name)
        return frozenset(equal), order

    def in_warps(self) -> Iterator[Form]:
        """``warp`` and its prime are the numbers of the warps of both threads."""
        number = {t.var.name: s for t, s in zip(self.threads, suffix_products(self.extents))}
        for form, warp in ((number, _WARP_NAME), ({primed(n): c for n, c in number.items()}, primed(_WARP_NAME))):
            yield combine(form, {warp: WARP}, -1)
            yield combine({warp: WARP, "": WARP - 1}, form, -1)

    # The result

    def remove_needless(self) -> None:
        """Takes out barriers one by one, those passed most often first, where the rest suffices."""
        for place in sorted(self.barriers, key=lambda p: -len(self.loops_at(p))):
            scope = self.barriers.pop(place)
            if self.find_missing() is None:
                continue
            self.barriers[place] = "warp"
            if scope == "block" and self.find_missing() is not None:
                self.barriers[place] = "block"
        self.merge_scopes()

    def loops_at(self, place: int) -> tuple[int, ...]:
        """The loops around a barrier."""
        return self.loops[place] if place in self.loops else (*self.loops[~place], ~place)

    def merge_scopes(self) -> None:
        """One barrier of the block instead of one of the warp and one of the block soon after or before."""
        for weak in [p for p, scope in self.barriers.items() if scope == "warp"]:
            for strong in [p for p, scope in self.barriers.items() if scope == "block"]:
                if self.loops_at(weak) != self.loops_at(strong):
                    continue
                tried = {p: s for p, s in self.barriers.items() if p != strong} | {weak: "block"}
                kept, self.barriers = self.barriers, tried
                if self.find_missing() is None:
                    break
                self.barriers = kept

    def built(self, s: Stmt) -> Stmt:
        scope = self.barriers.get(id(s))
        made = s if id(s) in self.is_unit else map_statements(s, self.built)
        end = self.barriers.get(_at_end(s))
        if isinstance(made, While) and end is not None:
            made = replace(made, body=Seq((made.body, Barrier(end))))
        return made if scope is None else Seq((Barrier(scope), made))


_WARP_NAME = "warp number"
_OTHER_WARP: tuple[list[Form], ...] = ([after(_WARP_NAME)], [before(_WARP_NAME)])


@fact
def _last_barrier(s: Stmt) -> BarrierScope | None:
    """Of the last reduction across threads in ``s``."""
    scopes = [n.scope for inner in walk(s) if is_reduction(inner) for n in walk(inner) if isinstance(n, Barrier)]
    return scopes[-1] if scopes else None


def _at_end(s: Stmt) -> int:
    """The place of a barrier at the end of the body of a while loop, before its condition is tested again."""
    return ~id(s)


def _after(state: State, scope: str) -> State:
    """``state`` after a barrier."""
    return frozenset(replace(e, warp=True) for e in state) if scope == "warp" else NOTHING
