"""A genetic search: parents by tournament, what has something of both, changed here and there."""

from __future__ import annotations

from weft.tune.point import Point
from weft.tune.strategies.strategy import Strategy

_POPULATION, _TOURNAMENT, _CHANGED = 16, 3, 0.6


class Genetic(Strategy):
    def _next(self) -> Point | None:
        population = self.best(_POPULATION)
        if len(population) < 4:
            return self.space.draw(self.rng)
        return self.child(population) or self.space.draw(self.rng)

    def child(self, population: list[Point]) -> Point | None:
        """What comes of two of ``population``, the best first."""
        one, two = (population[self._selected(len(population))] for _ in range(2))
        made = one if one.trace == two.trace else self.space.cross(one, two, self.rng)
        if made is None or self.rng.random() < _CHANGED or not self.is_new(made):
            made = self.space.near(made or one, self.rng)
        return made

    def _selected(self, count: int) -> int:
        return min(self.rng.randrange(count) for _ in range(_TOURNAMENT))
