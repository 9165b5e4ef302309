"""A genetic search whose children a model looks at before one of them is measured.

The model is the analytical one, put right by what was measured: where near programs took longer than it said, it is
expected to be off by as much again.
"""

from __future__ import annotations

from math import exp, inf, log

from weft.tune.point import Point, distance
from weft.tune.strategies.genetic import Genetic

#: Children that the model chooses one of, how often one is taken at random all the same, and how far "near" reaches.
_BROOD, _AT_RANDOM, _REACH = 6, 0.1, 4.0
_FIRST = 4


class Evolution(Genetic):
    def _next(self) -> Point | None:
        population = self.best(16)
        brood = [made for _ in range(_BROOD) if (made := self._one(population)) is not None and self.is_new(made)]
        if not brood:
            return self.space.draw(self.rng)
        if self.rng.random() < _AT_RANDOM:
            return self.rng.choice(brood)
        return min(brood, key=self.expected)

    def _one(self, population: list[Point]) -> Point | None:
        if len(self.told) < _FIRST or not population or self.rng.random() < 0.25:
            return self.space.draw(self.rng)
        return self.child(population)

    def expected(self, point: Point) -> float:
        """Seconds: what the model says, times by how much it was wrong about what is near."""
        weights = total = 0.0
        for trace, ratio in self.told.items():
            other = self.points[trace]
            if ratio < inf and (far := distance(point, other)) < inf:
                weight = exp(-far / _REACH)
                weights += weight
                total += weight * log(ratio / self.price(other)) if 0 < self.price(other) < inf else 0.0
        return self.price(point) * (exp(total / weights) if weights > 1e-3 else 1.0)
