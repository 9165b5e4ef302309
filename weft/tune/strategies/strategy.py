"""What strategies have in common: a space, random numbers of a seed, and what was asked for so far."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from random import Random

from weft.tune.point import Point
from weft.tune.spaces import Space

#: What a model expects of a candidate, in seconds.
Price = Callable[[Point], float]
#: Draws after which a strategy says that there is nothing new.
_TRIES = 40


class Strategy:
    """``ask`` gives a candidate that was not asked for before, or None where it finds none; ``tell`` says how many
    times as long as the automatic schedule it takes, infinite where it has no time. Derived classes say what is
    `_next`."""

    def __init__(self, space: Space, seed: int, price: Price) -> None:
        self.space, self.price = space, price
        self.rng = Random(seed)
        self.told: dict[str, float] = {}
        self.points: dict[str, Point] = {}
        self._asked: set[str] = set()

    def ask(self) -> Point | None:
        for _ in range(_TRIES):
            point = self._next()
            if point is None:
                return None
            if self.is_new(point):
                self._asked.add(point.trace)
                return point
        return None

    def is_new(self, point: Point) -> bool:
        return point.trace not in self._asked

    def tell(self, point: Point, ratio: float) -> None:
        self._asked.add(point.trace)
        self.told[point.trace], self.points[point.trace] = ratio, point

    def best(self, count: int) -> list[Point]:
        """Those with the least times so far."""
        finite = [trace for trace, ratio in self.told.items() if ratio < inf]
        return [self.points[trace] for trace in sorted(finite, key=self.told.__getitem__)[:count]]

    def _next(self) -> Point | None:
        raise NotImplementedError
