"""All candidates, one after another."""

from __future__ import annotations

from weft.tune.point import Point
from weft.tune.spaces import Space
from weft.tune.strategies.strategy import Price, Strategy


class Grid(Strategy):
    def __init__(self, space: Space, seed: int, price: Price) -> None:
        super().__init__(space, seed, price)
        self._left = space.points()

    def _next(self) -> Point | None:
        return next(self._left, None)
