"""Simulated annealing: a walk that takes what is slower, too, ever less often."""

from __future__ import annotations

from math import exp, inf, log

from weft.tune.point import Point
from weft.tune.strategies.strategy import Strategy

#: By how much a step may be slower at first, as a logarithm, and how the heat goes down.
_HEAT, _COOLING = log(1.3), 0.97


class Annealing(Strategy):
    _at: tuple[Point, float] | None = None
    _heat = _HEAT

    def _next(self) -> Point | None:
        start = None if self._at is None else self.space.near(self._at[0], self.rng)
        return start or self.space.draw(self.rng)

    def tell(self, point: Point, ratio: float) -> None:
        super().tell(point, ratio)
        self._heat *= _COOLING
        if ratio == inf:
            return
        worse = 0.0 if self._at is None else log(ratio / self._at[1])
        if worse <= 0 or self.rng.random() < exp(-worse / self._heat):
            self._at = (point, ratio)
