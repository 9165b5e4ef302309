"""The plans of the strategies of the automatic scheduler: for every choice it meets, which plan, or the next strategy.

A vector has a number for each choice, in the order they come up: of the plan in the list as it is offered, 0 the one
that the time model takes, -1 none of this strategy's, so that the next strategy has its turn.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from random import Random
from typing import Any

from weft.auto.plan import rank_plans
from weft.tune.point import Point
from weft.tune.spaces import attempt
from weft.tune.subject import Subject

NONE = -1


@dataclass
class _Choices:
    """Plans ordered as a vector says, and what there was to choose from."""

    wanted: dict[str, int]
    offered: dict[str, int] = field(default_factory=dict)

    def rank(self, subject: str, plans: Any, seconds: Any) -> list[Any]:
        ordered = rank_plans(subject, plans, seconds)
        name = subject
        while name in self.offered:
            name += "'"
        self.offered[name] = len(ordered)
        chosen = self.wanted.get(name, 0)
        if chosen == NONE:
            return []
        if 0 < chosen < len(ordered):
            return [ordered[chosen], *ordered[:chosen], *ordered[chosen + 1 :]]
        return ordered


class PlanSpace:
    name = "plans"

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self.refused: Counter[str] = Counter()
        self._choices = _Choices({})
        subject.automatic(self._choices.rank)
        self._counts = {name: count for name, count in self._choices.offered.items() if count}

    def point(self, wanted: dict[str, int]) -> Point:
        choices = _Choices(wanted)
        schedule = self._subject.automatic(choices.rank)
        vector = tuple((name, wanted.get(name, 0)) for name, count in choices.offered.items() if count)
        return Point(self.name, vector, self._subject.known(schedule))

    def points(self) -> Iterator[Point]:
        """The usual one, then others by how many choices differ: one of them here; more are what `cross` gives."""
        first = self.point({})
        yield first
        most = max(self._counts.values(), default=0)
        for value in chain(range(1, most), [NONE]):
            for name, count in self._counts.items():
                if value < count:
                    made = attempt(self, lambda: self.point({name: value}))  # noqa: B023
                    if made is not None:
                        yield made

    def draw(self, rng: Random) -> Point | None:
        counts = self._counts
        return attempt(self, lambda: self.point({n: rng.randrange(NONE, count) for n, count in counts.items()}))

    def near(self, point: Point, rng: Random) -> Point | None:
        def change() -> Point | None:
            wanted = dict(point.vector)
            if not wanted:
                return None
            name = rng.choice(list(wanted))
            count = self._counts.get(name, wanted[name] + 2)
            wanted[name] = min(max(NONE, wanted[name] + rng.choice((-2, -1, 1, 2))), max(count - 1, 0))
            return self.point(wanted)

        return attempt(self, change)

    def cross(self, a: Point, b: Point, rng: Random) -> Point | None:
        other = dict(b.vector)
        return attempt(
            self, lambda: self.point({n: other[n] if n in other and rng.random() < 0.5 else v for n, v in a.vector})
        )
