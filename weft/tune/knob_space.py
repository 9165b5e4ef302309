"""The knobs of a user's schedule: a function of a schedule that asks it `s.knob("tile_m", [4, 8, 16])`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import product
from random import Random
from typing import Any

from weft.ir.errors import ArgumentError
from weft.operators.schedule import OperatorSchedule
from weft.tune.point import Point
from weft.tune.spaces import attempt
from weft.tune.subject import Subject


class KnobSpace:
    name = "knobs"

    def __init__(self, subject: Subject, write: Callable[[Any], object]) -> None:
        self._subject, self._write = subject, write
        self.refused: Counter[str] = Counter()
        self._counts = {name: len(values) for name, values in self._run({}).offered.items()}
        if not self._counts:
            raise ArgumentError(
                "the schedule has no knobs to tune",
                why="the function given as schedule= does not ask for one",
                help='call s.knob("tile_m", [4, 8, 16]) in it, which gives one of the values',
            )

    def _run(self, chosen: dict[str, int]) -> OperatorSchedule:
        how = self._subject.op._definition.how
        schedule = OperatorSchedule(self._subject.op, numerics=how.numerics, made=self._subject.build(how))
        schedule.chosen.update(chosen)
        self._write(schedule)
        return schedule

    def point(self, chosen: dict[str, int]) -> Point:
        schedule = self._run(chosen)
        vector = tuple((name, chosen.get(name, 0)) for name in schedule.offered)
        return Point(self.name, vector, self._subject.known(schedule))

    def points(self) -> Iterator[Point]:
        for values in product(*(range(count) for count in self._counts.values())):
            made = attempt(self, lambda: self.point(dict(zip(self._counts, values))))  # noqa: B023
            if made is not None:
                yield made

    def draw(self, rng: Random) -> Point | None:
        return attempt(self, lambda: self.point({n: rng.randrange(count) for n, count in self._counts.items()}))

    def near(self, point: Point, rng: Random) -> Point | None:
        def change() -> Point:
            chosen = dict(point.vector)
            name = rng.choice(list(chosen))
            chosen[name] = min(max(0, chosen[name] + rng.choice((-1, 1))), self._counts.get(name, 1) - 1)
            return self.point(chosen)

        return attempt(self, change)

    def cross(self, a: Point, b: Point, rng: Random) -> Point | None:
        other = dict(b.vector)
        return attempt(self, lambda: self.point({n: other.get(n, v) if rng.random() < 0.5 else v for n, v in a.vector}))
