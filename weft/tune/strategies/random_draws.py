"""Candidates at random."""

from __future__ import annotations

from weft.tune.point import Point
from weft.tune.strategies.strategy import Strategy


class RandomDraws(Strategy):
    def _next(self) -> Point | None:
        return self.space.draw(self.rng)
