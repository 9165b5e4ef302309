"""Random fork-join programs: the interpreter reports a race exactly where trying all pairs of accesses finds one."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.ir import dtype as dt
from weft.ir import interpret_threads
from weft.ir.buffer import Buffer
from weft.ir.errors import DataRace
from weft.ir.expr import Expr, Load, Var, idx
from weft.ir.interpret import interpret
from weft.ir.stmt import Atomic, Barrier, For, Kernel, Let, Seq, Stmt, Store

SIZE = 4
X = Buffer("X", dt.int64, (idx(SIZE),))
VERBS = {"read": "reads", "write": "writes", "atomic": "updates"}


@dataclass(frozen=True)
class Touch:
    """An access of element ``(scale * var + shift) % SIZE``; ``depth`` picks the variable among those around it."""

    action: str
    depth: int
    scale: int
    shift: int


@dataclass(frozen=True)
class Sync:
    scope: str


@dataclass(frozen=True)
class Loop:
    kind: str
    count: int
    body: tuple[Any, ...]


touches = st.builds(Touch, st.sampled_from(["read", "read", "write", "atomic"]), st.integers(0, 3),
                    st.integers(0, 2), st.integers(0, 3))  # fmt: skip


def bodies(inner: Any) -> Any:
    return st.lists(inner, min_size=1, max_size=3).map(tuple)


def loops(kinds: list[str], inner: Any, most: int = 3) -> Any:
    return st.builds(Loop, st.sampled_from(kinds), st.integers(1, most), bodies(inner))


plain = st.recursive(touches, lambda inner: loops(["serial", "parallel", "vector"], inner), max_leaves=5)
syncs = st.builds(Sync, st.sampled_from(["block", "block", "warp", "grid"]))
threaded = st.one_of(plain, syncs, loops(["serial"], st.one_of(touches, syncs), 2))
grids = loops(["block"], st.one_of(touches, loops(["thread"], threaded, 4)), 2)
programs = bodies(st.one_of(plain, grids, loops(["thread"], threaded, 4)))


def to_stmt(nodes: tuple[Any, ...], variables: tuple[Var, ...]) -> Stmt:
    return Seq(tuple(_stmt(n, variables, position) for position, n in enumerate(nodes)))


def _stmt(node: Any, variables: tuple[Var, ...], position: int) -> Stmt:
    if isinstance(node, Sync):
        return Barrier(node.scope)  # type: ignore[arg-type]
    if isinstance(node, Loop):
        var = Var(f"v{len(variables)}_{position}")
        return For(var, idx(0), idx(node.count), node.kind, to_stmt(node.body, (*variables, var)))  # type: ignore[arg-type]
    where: Expr = idx(node.shift)
    if variables:
        where = (variables[node.depth % len(variables)] * node.scale + node.shift) % SIZE
    if node.action == "atomic":
        return Atomic("+", X, (where,), idx(1))
    if node.action == "write":
        return Store(X, (where,), idx(1))
    return Let(Var("seen"), Load(X, (where,)), Seq(()))


@dataclass
class Level:
    """Where one loop's iteration stands: a place in program order, or phases around an unordered number."""

    order: list[int] = field(default_factory=lambda: [0])
    unordered: list[int] = field(default_factory=list)

    def path(self) -> tuple[tuple[bool, int], ...]:
        parts: list[tuple[bool, int]] = []
        for n, phase in enumerate(self.order):
            parts.append((False, phase))
            parts += [(True, u) for u in self.unordered[n : n + 1]]
        return tuple(parts)


@dataclass(frozen=True)
class Access:
    action: str
    element: int
    path: tuple[tuple[bool, int], ...]
    iteration: str


@dataclass
class Tracer:
    """Runs a program by the definition of order alone, recording every access."""

    warp: int
    accesses: list[Access] = field(default_factory=list)

    def run(self, nodes: tuple[Any, ...], levels: list[tuple[str, Level]], names: dict[str, int]) -> None:
        for position, node in enumerate(nodes):
            if isinstance(node, Sync):
                self.sync(node.scope, levels)
                continue
            here = [*levels, ("place", Level([position]))]
            if isinstance(node, Loop):
                self.run_loop(node, here, names, f"v{len(names)}_{position}")
            else:
                self.touch(node, here, names)

    def run_loop(self, node: Loop, levels: list[tuple[str, Level]], names: dict[str, int], name: str) -> None:
        own = levels
        for i in range(node.count):
            if node.kind != "serial":  # each iteration passes the barriers around it for itself
                own = deepcopy(levels)
            self.run(node.body, [*own, (node.kind, self.level(node.kind, i))], {**names, name: i})
        for (_, level), (_, passed) in zip(levels, own):
            level.order = passed.order

    def level(self, kind: str, i: int) -> Level:
        if kind == "serial":
            return Level([i])
        if kind == "thread":
            return Level([0, 0], [i // self.warp, i])
        return Level([0], [i])

    def sync(self, scope: str, levels: list[tuple[str, Level]]) -> None:
        threads = [level for kind, level in levels if kind == "thread"]
        blocks = [level for kind, level in levels if kind == "block"]
        if scope == "warp":
            threads[0].order[1] += 1
        else:
            held = blocks or threads if scope == "grid" else threads
            held[0].order[0] += 1

    def touch(self, node: Touch, levels: list[tuple[str, Level]], names: dict[str, int]) -> None:
        values = list(names.values())
        element = (values[node.depth % len(values)] * node.scale + node.shift) % SIZE if values else node.shift
        path = tuple(part for _, level in levels for part in level.path())
        iteration = "(" + ", ".join(f"{n}={v}" for n, v in names.items()) + ")"
        self.accesses.append(Access(node.action, element, path, iteration))


def conflict(a: Access, b: Access) -> bool:
    if a.element != b.element or (a.action == b.action and a.action != "write"):
        return False
    for left, right in zip(a.path, b.path):
        if left != right:
            return left[0]
    return False


@pytest.fixture(scope="module", autouse=True)
def _small_warps():
    before, interpret_threads.WARP = interpret_threads.WARP, 2
    yield
    interpret_threads.WARP = before


def reported(nodes: tuple[Any, ...]) -> str | None:
    """The race the interpreter finds, as it words it."""
    try:
        interpret(Kernel("k", (X,), ("X",), to_stmt(nodes, ())), [np.zeros(SIZE, np.int64)])
    except DataRace as race:
        return (race.why or "").removesuffix(", and nothing orders the two")
    return None


@settings(max_examples=300, deadline=None)
@given(programs)
def test_races_are_reported_exactly(nodes):
    tracer = Tracer(2)
    tracer.run(nodes, [], {})
    races = [(a, b) for a, b in combinations(tracer.accesses, 2) if conflict(a, b)]
    texts = {
        f"iteration {p.iteration} {VERBS[p.action]} it and iteration {q.iteration} {VERBS[q.action]} it"
        for a, b in races
        for p, q in ((a, b), (b, a))
    }
    assert reported(nodes) in (texts or {None})
