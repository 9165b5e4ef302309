"""Changes to a trace: factors, orders, what is vectorized, unrolled, parallel, packed, and where things are computed.

The steps themselves say what is legal: a trace that one of them refuses is none of the space.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any

from weft.ir.quick_init import replace
from weft.schedules.trace import Step, Trace, parse_trace
from weft.tune.point import Point
from weft.tune.spaces import attempt
from weft.tune.subject import Subject

FACTORS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 64, 80, 96, 128, 192, 256, 384, 512, 1024)
#: Steps without which a program is another one that is legal too, perhaps.
_OPTIONAL = frozenset(
    [
        "pack", "prefetch", "unroll", "parallel", "stream", "compute_at", "reverse_compute_at", "cache_read",
        "cache_write", "vectorize", "store_at", "fuse_loops", "compute_inline", "rfactor",
    ]
)  # fmt: skip
_PLACED = frozenset(["compute_at", "reverse_compute_at"])
Change = Callable[[list[Step], Random], "list[Step] | None"]


def _numbers(step: Step) -> list[int]:
    """The places of whole numbers among the arguments of a step."""
    return [n for n, value in enumerate(step.args) if type(value) is int]


def change_factor(steps: list[Step], rng: Random) -> list[Step] | None:
    places = [(n, place) for n, step in enumerate(steps) for place in _numbers(step)]
    if not places:
        return None
    n, place = rng.choice(places)
    args = list(steps[n].args)
    near = sorted(FACTORS, key=lambda factor: abs(factor - args[place]) / max(factor, args[place], 1))[1:7]
    args[place] = rng.choice(near)
    return [*steps[:n], replace(steps[n], args=tuple(args)), *steps[n + 1 :]]


def change_order(steps: list[Step], rng: Random) -> list[Step] | None:
    orders = [n for n, step in enumerate(steps) if step.name == "reorder" and len(step.args) > 1]
    if not orders:
        return None
    n = rng.choice(orders)
    args = list(steps[n].args)
    i, j = rng.sample(range(len(args)), 2)
    args[i], args[j] = args[j], args[i]
    return [*steps[:n], replace(steps[n], args=tuple(args)), *steps[n + 1 :]]


def drop_step(steps: list[Step], rng: Random) -> list[Step] | None:
    optional = [n for n, step in enumerate(steps) if step.name in _OPTIONAL]
    if not optional:
        return None
    n = rng.choice(optional)
    return [*steps[:n], *steps[n + 1 :]]


def change_place(steps: list[Step], rng: Random) -> list[Step] | None:
    """Something computed at another loop that a step names."""
    places = [n for n, step in enumerate(steps) if step.name in _PLACED]
    loops = sorted({a for step in steps for a in (*step.args, *step.made) if isinstance(a, str)})
    if not places:
        return None
    n = rng.choice(places)
    moved = replace(steps[n], args=(steps[n].args[0], rng.choice(loops)))
    return [*steps[:n], moved, *steps[n + 1 :]]


def move_parallel(steps: list[Step], rng: Random) -> list[Step] | None:
    """Other loops on the threads: those of a step that made some."""
    made = sorted({name for step in steps for name in step.made})
    if not made:
        return None
    kept = [step for step in steps if step.name != "parallel"]
    return [*kept, Step("parallel", (rng.choice(made),))]


def add_unroll(steps: list[Step], rng: Random) -> list[Step] | None:
    made = sorted({name for step in steps for name in step.made})
    if not made:
        return None
    n = rng.choice((2, 4, 8))
    return [*steps, Step("unroll", (rng.choice(made), n))]


CHANGES: Sequence[Change] = (
    change_factor, change_factor, change_factor, change_order, change_order, drop_step, change_place, move_parallel,
    add_unroll,
)  # fmt: skip


class TraceSpace:
    name = "traces"

    def __init__(self, subject: Subject, start: str) -> None:
        self._subject, self._start = subject, start
        self.refused: Counter[str] = Counter()

    def point(self, trace: Trace) -> Point:
        """The point of a trace, done again and written as its steps name things now."""
        text = self._subject.known(self._subject.scheduled(str(trace)))
        return Point(self.name, vector_of(text), text)

    def points(self) -> Iterator[Point]:
        """The start, then ever other ones near to it, drawn with a seed of their own."""
        rng = Random(0)
        yield self.point(parse_trace(self._start))
        seen = {self._start}
        while True:
            made = self.near(Point(self.name, (), self._start), rng)
            if made is None:
                return
            if made.trace not in seen:
                seen.add(made.trace)
                yield made

    def draw(self, rng: Random) -> Point | None:
        return self._changed(self._start, rng, rng.randint(1, 4))

    def near(self, point: Point, rng: Random) -> Point | None:
        return self._changed(point.trace, rng, rng.choice((1, 1, 1, 2)))

    def cross(self, a: Point, b: Point, rng: Random) -> Point | None:
        """Numbers of both where their steps are alike, else the first steps of one and the last of the other."""

        def mix() -> Point | None:
            one, two = parse_trace(a.trace), parse_trace(b.trace)
            if one.numerics != two.numerics or one.form != two.form:
                return None
            alike = [s.name for s in one] == [s.name for s in two]
            steps = _mixed(one.steps, two.steps, rng) if alike else _joined(one.steps, two.steps, rng)
            return self.point(replace(one, steps=steps))

        return attempt(self, mix)

    def _changed(self, text: str, rng: Random, times: int) -> Point | None:
        trace = parse_trace(text)

        def change() -> Point | None:
            steps: list[Step] = list(trace.steps)
            for _ in range(times):
                steps = rng.choice(CHANGES)(steps, rng) or steps
            if tuple(steps) == trace.steps:
                return None
            return self.point(replace(trace, steps=tuple(steps)))

        return attempt(self, change)


def _mixed(one: Sequence[Step], two: Sequence[Step], rng: Random) -> tuple[Step, ...]:
    return tuple(a if rng.random() < 0.5 else b for a, b in zip(one, two))


def _joined(one: Sequence[Step], two: Sequence[Step], rng: Random) -> tuple[Step, ...]:
    return (*one[: rng.randint(0, len(one))], *two[rng.randint(0, len(two)) :])


def vector_of(trace: str) -> tuple[tuple[str, int], ...]:
    """The whole numbers of a trace, by their steps."""
    found: list[tuple[str, Any]] = []
    for n, step in enumerate(parse_trace(trace)):
        found += [(f"{step.name}.{n}.{place}", step.args[place]) for place in _numbers(step)]
    return tuple(found)
