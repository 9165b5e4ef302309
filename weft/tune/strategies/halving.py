"""Successive halving over what a model expects: many are looked at, half of them closer, few are measured first.

Rounds begin with draws; the model keeps half, of which each gets a neighbour that it likes better, and so on until as
many are left as are measured. Measuring itself stops early with what is far behind (`weft.tune.compare`).
"""

from __future__ import annotations

from weft.tune.point import Point
from weft.tune.strategies.strategy import Strategy

_DRAWN, _MEASURED = 32, 4


class Halving(Strategy):
    def __init__(self, *given: object) -> None:
        super().__init__(*given)  # type: ignore[arg-type]
        self._left: list[Point] = []

    def _next(self) -> Point | None:
        if not self._left:
            self._left = self._round()
        return self._left.pop(0) if self._left else None

    def _round(self) -> list[Point]:
        drawn = [p for _ in range(_DRAWN) if (p := self.space.draw(self.rng)) is not None and self.is_new(p)]
        drawn += [p for b in self.best(4) if (p := self.space.near(b, self.rng)) is not None and self.is_new(p)]
        while len(drawn) > _MEASURED:
            drawn = sorted(drawn, key=self.price)[: max(_MEASURED, len(drawn) // 2)]
            near = [self.space.near(p, self.rng) for p in drawn] if len(drawn) > _MEASURED else [None] * len(drawn)
            drawn = [b if b is not None and self.price(b) < self.price(a) else a for a, b in zip(drawn, near)]
        return list({p.trace: p for p in drawn}.values())
