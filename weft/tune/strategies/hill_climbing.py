"""What is near to the best so far; from somewhere else where that leads no further."""

from __future__ import annotations

from weft.tune.point import Point
from weft.tune.strategies.strategy import Strategy

#: Candidates near to the best that may fail before it starts anew.
_PATIENCE = 24


class HillClimbing(Strategy):
    _top: tuple[Point, float] | None = None
    _failed = 0

    def _next(self) -> Point | None:
        if self._top is None or self._failed >= _PATIENCE:
            self._top, self._failed = None, 0
            return self.space.draw(self.rng)
        return self.space.near(self._top[0], self.rng) or self.space.draw(self.rng)

    def tell(self, point: Point, ratio: float) -> None:
        super().tell(point, ratio)
        if self._top is None or ratio < self._top[1]:
            self._top, self._failed = (point, ratio), 0
        else:
            self._failed += 1
