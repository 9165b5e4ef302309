"""Memory as the interpreter sees it: every element with its value, and who touched it last.

Concurrency is fork and join. A `Fork` is one phase of a parallel loop (a barrier ends a
phase and starts the next), a `Strand` one iteration in it; two strands run concurrently
exactly where their paths to the root part at one fork. Iterations run depth first, so for
each element one strand of each access class (write, read, atomic) decides whether any
earlier access of that class races with a new one: keep the newest of ordered accesses and
the oldest of concurrent ones (Feng and Leiserson's argument for fork-join programs).

`Layout` and `Scope` are what is known about names while a program is translated.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import Any, NoReturn, TypeAlias

from weft.ir.buffer import Buffer
from weft.ir.errors import DataRace, OutOfBounds, ProgramError, UninitializedRead
from weft.ir.expr import Var
from weft.ir.span import Span

#: One thread's variables and buffers by slot; slot 0 holds its current strand.
Env: TypeAlias = "list[Any]"
STRAND = 0


class Fork:
    """One phase of a parallel loop: its strands are unordered among themselves."""

    __slots__ = ("parent",)

    def __init__(self, parent: Strand) -> None:
        self.parent = parent


class Strand:
    """One iteration within a phase; between its forks it runs in order."""

    __slots__ = ("depth", "fork")

    def __init__(self, fork: Fork | None) -> None:
        self.fork = fork
        self.depth: int = 0 if fork is None else fork.parent.depth + 1


def is_concurrent(a: Strand, b: Strand) -> bool:
    """Whether nothing orders the two strands."""
    while a is not b:
        if a.depth != b.depth:
            if a.depth > b.depth:
                a = a.fork.parent  # type: ignore[union-attr]
            else:
                b = b.fork.parent  # type: ignore[union-attr]
            continue
        if a.fork is b.fork:
            return True
        a, b = a.fork.parent, b.fork.parent  # type: ignore[union-attr]
    return False


class Memory:
    """The elements of one buffer instance; None stands for an uninitialized one.

    ``writers``, ``readers`` and ``atomics`` hold per element the deciding access as
    ``(strand, site, loop values...)``; they are empty where races are not looked for.
    """

    __slots__ = ("atomics", "data", "readers", "shape", "start", "strides", "writers")

    def __init__(self, data: list[Any], shape: Sequence[int], strides: Sequence[int], start: int, track: bool) -> None:
        self.data = data
        self.shape = tuple(shape)
        self.strides = tuple(strides)
        self.start = start
        count = len(data) if track else 0
        self.writers: list[Any] = [None] * count
        self.readers: list[Any] = [None] * count
        self.atomics: list[Any] = [None] * count

    def reach(self) -> tuple[int, int]:
        """The first and the last position that an index inside the shape leads to."""
        spans = [(size - 1) * step for size, step in zip(self.shape, self.strides)]
        return self.start + sum(min(0, s) for s in spans), self.start + sum(max(0, s) for s in spans)


def dense(shape: Sequence[int]) -> tuple[int, ...]:
    """Element strides of a row-major buffer."""
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


def allocate(shape: Sequence[int], strides: Sequence[int] | None, fill: Any, track: bool) -> Memory:
    """Fresh memory; strides may be negative, zero or leave gaps."""
    if any(size <= 0 for size in shape):
        return Memory([], shape, strides or dense(shape), 0, track)
    steps = dense(shape) if strides is None else strides
    spans = [(size - 1) * step for size, step in zip(shape, steps)]
    start = -sum(min(0, s) for s in spans)
    count = start + sum(max(0, s) for s in spans) + 1
    return Memory([fill] * count, shape, steps, start, track)


@dataclass(frozen=True, slots=True)
class Site:
    """A load, store or atomic in the program: what a finding says about where it is."""

    buffer: Buffer
    action: str
    span: Span | None
    loops: tuple[tuple[str, int], ...]
    snapshot: Callable[[Env], tuple[Any, ...]]

    def iteration(self, env: Env) -> str:
        return iteration_text(self.loops, [env[slot] for _, slot in self.loops])

    def out_of_bounds(self, env: Env, memory: Memory, indices: Sequence[int]) -> NoReturn:
        axis = next(a for a, (i, n) in enumerate(zip(indices, memory.shape)) if not 0 <= i < n)
        size = memory.shape[axis]
        raise OutOfBounds(
            f"{self.action} of `{element(self.buffer, indices)}` is out of bounds",
            span=self.span,
            why=f"dimension {axis} of {self.buffer.name} has {size} element{'s' * (size != 1)}, 0 to {size - 1}"
            if size > 0
            else f"dimension {axis} of {self.buffer.name} is empty",
            notes=[("at", self.iteration(env))],
        )

    def uninitialized(self, env: Env, indices: Sequence[int]) -> NoReturn:
        raise UninitializedRead(
            f"{self.action} of `{element(self.buffer, indices)}`, which nothing has written",
            span=self.span,
            why=f"{self.buffer.name} starts uninitialized",
            notes=[("at", self.iteration(env))],
        )

    def race(self, env: Env, indices: Sequence[int], earlier: tuple[Any, ...]) -> NoReturn:
        """``earlier`` is the snapshot of the other access."""
        other: Site = earlier[1]
        first = iteration_text(other.loops, earlier[2:])
        verbs = {"read": "reads", "write": "writes", "atomic": "updates"}
        raise DataRace(
            f"data race on `{element(self.buffer, indices)}`",
            span=self.span,
            why=f"iteration {first} {verbs[other.action]} it and iteration {self.iteration(env)} "
            f"{verbs[self.action]} it, and nothing orders the two",
            notes=[("other", str(other.span))] if other.span is not None and other.span != self.span else (),
        )


def make_snapshot(site_slot: int, loops: Sequence[tuple[str, int]]) -> Callable[[Env], tuple[Any, ...]]:
    """From a thread's variables to ``(strand, site, loop values...)``."""
    return itemgetter(STRAND, site_slot, *(slot for _, slot in loops))


def iteration_text(loops: Sequence[tuple[str, int]], values: Sequence[Any]) -> str:
    return "(" + ", ".join(f"{name}={value}" for (name, _), value in zip(loops, values)) + ")"


def element(buffer: Buffer, indices: Sequence[int]) -> str:
    return f"{buffer.name}[{', '.join(map(str, indices))}]"


@dataclass(slots=True)
class Layout:
    """The slots of a program's variables, buffers and access sites; ``initial`` is what a run starts from."""

    check: bool
    initial: Env = field(default_factory=lambda: [None])
    groups: int = 0

    def slot(self, value: Any = None) -> int:
        self.initial.append(value)
        return len(self.initial) - 1


@dataclass(frozen=True, slots=True)
class Scope:
    """What names mean at a place in the program, and which loops are around it.

    ``tracked`` are the buffers that more than one strand can reach; ``own`` the variables
    this strand may assign; ``concurrent`` the kinds and numbers of concurrent loops, outermost first.
    """

    layout: Layout
    vars: Mapping[str, int] = field(default_factory=dict)
    buffers: Mapping[str, int] = field(default_factory=dict)
    tracked: frozenset[str] = frozenset()
    read_only: frozenset[str] = frozenset()
    own: frozenset[str] = frozenset()
    loops: tuple[tuple[str, int], ...] = ()
    concurrent: tuple[tuple[str, int], ...] = ()
    in_loop: bool = False
    span: Span | None = None

    def with_var(self, var: Var) -> tuple[Scope, int]:
        slot = self.layout.slot()
        return replace(self, vars={**self.vars, var.name: slot}), slot

    def with_loop(self, var: Var) -> tuple[Scope, int]:
        scope, slot = self.with_var(var)
        return replace(scope, loops=(*self.loops, (var.name, slot))), slot

    def var_slot(self, var: Var) -> int:
        if var.name not in self.vars:
            raise ProgramError(f"unknown variable `{var.name}`", span=var.span or self.span)
        return self.vars[var.name]

    def buffer_slot(self, buffer: Buffer, span: Span | None) -> int:
        if buffer.name not in self.buffers:
            raise ProgramError(f"unknown buffer `{buffer.name}`", span=span or self.span)
        return self.buffers[buffer.name]

    def site(self, buffer: Buffer, action: str, span: Span | None) -> Site:
        slot = self.layout.slot()
        site = Site(buffer, action, span or self.span, self.loops, make_snapshot(slot, self.loops))
        self.layout.initial[slot] = site
        return site
