"""Sketches: programs that derivation rules make of the plain loops, outside of every strategy's plans.

Rules go over the blocks from the last to the first and take a few steps by the public primitives, or none; numbers are
drawn at random. A rule of a user's is a function like those of `RULES`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any

from weft.ir.errors import ScheduleError
from weft.ir.visit import free_vars
from weft.schedules.find import find_block
from weft.schedules.schedule import Schedule
from weft.tune.point import Point
from weft.tune.spaces import attempt
from weft.tune.subject import Subject
from weft.tune.trace_space import TraceSpace, vector_of

#: ``rule(s, block, rng)`` changes the nest of ``block``; a refusal of a step takes back all that the rule did.
Rule = Callable[[Schedule, str, Random], Any]
_OUTER, _INNER, _LANES = (4, 8, 16, 32, 64, 128), (1, 2, 3, 4, 6, 8, 12, 16), (8, 16, 32, 48, 64)


def inline(s: Schedule, block: str, rng: Random) -> None:
    """What is computed where it is read."""
    s.compute_inline(block)


def tile(s: Schedule, block: str, rng: Random) -> None:
    """Tiles of two levels, reductions between them, results of a tile in registers, the last loop in vectors."""
    loops = s.loops(block)
    reduced = reductions(s, block)
    spatial = [x for x in loops if x.name not in reduced]
    inside = [x for x in loops if x.name in reduced]
    if not spatial or not inside:
        raise ScheduleError("there is nothing to tile")
    outer, inner = [], []
    for n, loop in enumerate(spatial):
        o, i = s.split(loop, rng.choice(_LANES if n == len(spatial) - 1 else _INNER))
        outer.append(o)
        inner.append(i)
    parts = [s.split(x, rng.choice(_OUTER)) if rng.random() < 0.4 else (None, x) for x in inside]
    around = [o for o, _ in parts if o is not None]
    s.reorder(*outer, *around, *(i for _, i in parts), *inner)
    s.vectorize(inner[-1])
    for loop in inner[:-1]:
        s.unroll(loop)
    s.cache_write(block, at=(around or outer)[-1], scope="register")


def blocked(s: Schedule, block: str, rng: Random) -> None:
    """Blocks of all loops, those of reductions too, the last one in vectors."""
    loops = s.loops(block)
    pairs = [s.split(x, rng.choice(_OUTER)) for x in loops]
    s.reorder(*(o for o, _ in pairs), *(i for _, i in pairs))
    s.vectorize(pairs[-1][1], rng.choice((4, 8, 16)))


def split_reduction(s: Schedule, block: str, rng: Random) -> None:
    """Partial sums side by side."""
    reduced = sorted(reductions(s, block))
    loop = s.loop(rng.choice(reduced))
    _, inner = s.split(loop, rng.choice((8, 16, 32)))
    s.rfactor(inner)


def vectors(s: Schedule, block: str, rng: Random) -> None:
    """The last loop in vectors, perhaps some of them a time."""
    loop = s.loops(block)[-1]
    if rng.random() < 0.5:
        _, loop = s.split(loop, rng.choice(_LANES))
    s.vectorize(loop, rng.choice((4, 8, 16, 32)))


def at_reader(s: Schedule, block: str, rng: Random) -> None:
    """What is computed inside a loop of a later block."""
    names = [b.name for b in s.blocks()]
    later = names[names.index(block) + 1 :]
    loops = [x for name in later for x in s.loops(name)]
    s.compute_at(block, rng.choice(loops))


def packed(s: Schedule, block: str, rng: Random) -> None:
    """An operand copied as it is read."""
    s.cache_read(rng.choice(s.buffers()), at=rng.choice(s.loops(block)))


def on_threads(s: Schedule, block: str, rng: Random) -> None:
    """The outermost loop on the threads."""
    s.parallel(s.loops(block)[0])


def skip(s: Schedule, block: str, rng: Random) -> None:
    """Nothing."""


#: One of each line is taken for a block, in this order.
RULES: Sequence[Sequence[Rule]] = (
    (skip, skip, inline, at_reader),
    (tile, tile, blocked, split_reduction, vectors, skip),
    (skip, skip, packed),
    (on_threads, on_threads, skip),
)


def reductions(s: Schedule, block: str) -> set[str]:
    """Loops around ``block`` that it sums over."""
    found = find_block(s.kernel, block)
    return {name for i in found.iters if i.kind == "reduce" for name in free_vars(i.binding)}


class SketchSpace:
    name = "sketches"

    def __init__(self, subject: Subject, rules: Sequence[Sequence[Rule]] = RULES) -> None:
        self._subject, self._rules = subject, rules
        self.refused: Counter[str] = Counter()
        self._changes = TraceSpace(subject, str(subject.unscheduled().trace))

    def draw(self, rng: Random) -> Point | None:
        return attempt(self, lambda: self._derive(rng))

    def points(self) -> Iterator[Point]:
        rng = Random(0)
        while (made := self.draw(rng)) is not None:
            yield made

    def near(self, point: Point, rng: Random) -> Point | None:
        return self._named(self._changes.near(point, rng))

    def cross(self, a: Point, b: Point, rng: Random) -> Point | None:
        return self._named(self._changes.cross(a, b, rng))

    def _named(self, point: Point | None) -> Point | None:
        return None if point is None else point._replace(space=self.name)

    def _derive(self, rng: Random) -> Point | None:
        s = self._subject.unscheduled()
        for name in reversed([b.name for b in s.blocks()]):
            for line in self._rules:
                self._apply(s, name, rng.choice(line), rng)
        text = self._subject.known(s)
        return Point(self.name, vector_of(text), text) if s.trace.steps else None

    def _apply(self, s: Schedule, block: str, rule: Rule, rng: Random) -> None:
        if block not in {b.name for b in s.blocks()}:
            return
        try:
            with s.attempt():
                rule(s, block, rng)
        except ScheduleError as error:
            self.refused[f"{rule.__name__}: {error.what}"] += 1
        except (IndexError, ValueError):  # there is no loop, buffer or reader to choose
            self.refused[f"{rule.__name__}: nothing to choose"] += 1
