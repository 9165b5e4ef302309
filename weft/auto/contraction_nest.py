"""The loops of a contraction, by the part they have in its nest: as a plan makes them, drawn or applied."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from weft.auto.contraction_plan import Contraction
from weft.auto.draft import Draft
from weft.auto.sketch import Loop
from weft.auto.stages import StageIter
from weft.ir.stmt import LoopKind

#: ``strips`` go through parts of the rows that all panels are for, ``blocks`` through blocks of tiles along the lanes,
#: ``pieces`` through pieces of a reduction, ``panels`` through tiles along the lanes: outside the rows, or inside them
#: where a block of several is kept in a cache. ``vectors`` and ``group`` are there where one instruction does the lanes
#: of a vector and a group of steps.
Part = Literal[
    "batch", "strips", "blocks", "pieces", "rows", "panels", "reductions", "unrolled", "vectors", "lanes", "group"
]
#: What is inside a tile of sums.
INNER: tuple[Part, ...] = ("reductions", "unrolled", "vectors", "lanes", "group")
_BLOCKED: tuple[Part, ...] = ("batch", "blocks", "pieces", "rows", "panels", *INNER)
_WHOLE: tuple[Part, ...] = ("batch", "strips", "panels", "rows", *INNER)
_APART: tuple[Part, ...] = ("batch", "rows", "panels", *INNER)
_KINDS: dict[Part, LoopKind] = {"unrolled": "unroll", "lanes": "vector"}


@dataclass(frozen=True, slots=True)
class PartLoop:
    """A loop that moves iterator ``of`` on by ``step``; ``trips`` of its iterations are begun, ``full`` their worth."""

    part: Part
    of: str
    step: int
    trips: int
    full: float

    @property
    def loop(self) -> Loop:
        return Loop(self.of, self.step, self.full, _KINDS.get(self.part, "serial"))


def part_loops(c: Contraction) -> list[PartLoop]:
    """The loops of the nest, outermost first."""
    found = [loop for i in c.stage.iters if i.loop is not None for loop in _loops_of(c, i)]
    order = _BLOCKED if c.plan.blocking is not None else _APART if c.is_apart else _WHOLE

    def place(loop: PartLoop) -> tuple[int, int]:
        if loop.part == "reductions" and c.plan.steps:
            return order.index(loop.part), c.plan.steps.index((loop.of, loop.step))
        # Rows that vectors are loaded for are innermost: an element goes to all of them, and then is needed no more.
        is_inside = loop.part == "unrolled" and c.is_batch(loop.of)
        return order.index(loop.part), is_inside or (loop.trips != 1 and loop.part == "batch")

    return sorted(found, key=place)


def _loops_of(c: Contraction, i: StageIter) -> Iterator[PartLoop]:
    blocking, dot = c.plan.blocking, c.plan.dot
    if i.extent == 1:  # out of the way
        yield PartLoop("batch", i.name, 1, 1, 1)
    elif i.is_reduction:
        pieces: list[tuple[Part, int]] = [("pieces", blocking.depth)] if blocking and blocking.along == i.name else []
        if dot is not None and dot.along == i.name:
            yield from _cut(c, i, [*pieces, ("reductions", dot.group), ("group", 1)])
            return
        steps = [by for of, by in c.plan.steps if of == i.name] or [1]
        yield from _cut(c, i, [*pieces, *(("reductions", by) for by in steps)])
    elif i.name == c.plan.lane:
        inside: list[tuple[Part, int]] = [("lanes", 1)] if dot is None else [("vectors", dot.lanes), ("lanes", 1)]
        if blocking is None:
            yield from _cut(c, i, [("panels", c.plan.width), *inside])
        elif blocking.width <= c.plan.width:
            yield from _cut(c, i, [("blocks", c.plan.width), *inside])
        else:
            yield from _cut(c, i, [("blocks", blocking.width), ("panels", c.plan.width), *inside])
    else:
        around: Part = "batch" if c.is_batch(i.name) else "rows"
        strips: list[tuple[Part, int]] = [("strips", by) for of, by in c.plan.strips if of == i.name]
        yield from _cut(c, i, [*strips, (around, c.tile.get(i.name, 1)), ("unrolled", 1)])


def _cut(c: Contraction, i: StageIter, parts: list[tuple[Part, int]]) -> Iterator[PartLoop]:
    """Loops over ``i`` by steps that become smaller; those that would run once are left out, save the last."""
    left = i.count
    for part, step in parts:
        is_last = step == 1
        if step >= left and not is_last and (i.exact or left != i.count):
            continue
        if is_last and left == 1:
            return
        yield PartLoop(part, i.name, step, -(-left // step), _worth(c, part, i.name, left, step))
        left = min(left, step)


def _worth(c: Contraction, part: Part, of: str, count: int, step: int) -> float:
    """Full iterations that all are worth: a last tile is as large as what is left, in whole vectors along the lanes.

    Of operands that were copied there is enough for a whole tile, which then needs no tests. Where few sums are left,
    they take as long as they wait for one another.
    """
    full, rest = divmod(count, step)
    if not rest or part == "pieces" or step > c.tile.get(of, 1):
        return full + rest / step
    left = rest / step
    if of == c.plan.lane:
        is_copied = all(a.buffer.name in c.plan.packed for a in c.vector_operands)
        left = 1.0 if is_copied else -(-rest // c.vector) / c.vectors
    return full + max(left, min(1.0, c.enough / c.sums))


@dataclass
class Nest:
    """The loops of a contraction while it is scheduled; outermost first in each part."""

    parts: dict[Part, list[str]] = field(default_factory=dict)
    order: list[str] = field(default_factory=list)
    #: How often each loop runs, and how many full iterations those are worth, where the last one is less.
    counts: dict[str, int] = field(default_factory=dict)
    full: dict[str, float] = field(default_factory=dict)
    #: Loops that are to become one that runs on threads.
    together: list[str] = field(default_factory=list)

    def of(self, *parts: Part) -> list[str]:
        return [loop for stmt in parts for loop in self.parts.get(stmt, ())]

    def add(self, loop: PartLoop, name: str) -> None:
        """``loop``, by the name that it has in the program, inside those before."""
        self.parts.setdefault(loop.part, []).append(name)
        self.order.append(name)
        self.counts[name], self.full[name] = loop.trips, loop.full

    def takes(self, loop: str) -> bool:
        """Whether statements may be put into the body of ``loop``: not where it is to become one with the next."""
        return loop not in self.together[:-1]

    @property
    def outer(self) -> list[str]:
        """The loops around a tile of sums."""
        inside = self.of(*INNER)
        return [loop for loop in self.order if loop not in inside]


def split_loops(draft: Draft, c: Contraction) -> Nest:
    """Cuts the loops of the stage as the plan says, each in whatever place it is."""
    nest, loops = Nest(), part_loops(c)
    names = {i.name: split_loop(draft, i, [x.step for x in loops if x.of == i.name]) for i in c.stage.iters if i.loop}
    for loop in loops:
        nest.add(loop, names[loop.of].pop(0))
    return nest


def split_loop(draft: Draft, i: StageIter, steps: list[int]) -> list[str]:
    """The loops over ``i`` with these steps, the outermost first: tiles are cut, then blocks of tiles."""
    names: list[str] = []
    loop, within = i.loop or "", 1
    for step in reversed(steps):
        if step > within:
            outer, inner = draft.s.split(loop, step // within)
            names.insert(0, inner.name)
            loop, within = outer.name, step
    return [loop, *names]
