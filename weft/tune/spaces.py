"""Spaces of candidates: what there is, what is near to what, and what comes of two.

Every candidate is legal: its steps are done, and so checked, before it is given out. What was refused is counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Protocol

from weft.ir.errors import Error
from weft.ir.faults import is_fault
from weft.tune.point import Point

#: How often a space tries before it says that it finds nothing.
_TRIES = 30


class Space(Protocol):
    """``draw``, ``near`` and ``cross`` give None where they find nothing legal in a number of tries."""

    name: str
    refused: Counter[str]

    def points(self) -> Iterator[Point]:
        """All, in order, the usual one first; without end where there is no end."""

    def draw(self, rng: Random) -> Point | None:
        """Any."""

    def near(self, point: Point, rng: Random) -> Point | None:
        """One that differs in little."""

    def cross(self, a: Point, b: Point, rng: Random) -> Point | None:
        """One that has something of both."""


def attempt(space: Space, make: Callable[[], Point | None]) -> Point | None:
    """What ``make`` gives in one of some tries; refusals are counted by what they say."""
    for _ in range(_TRIES):
        try:
            made = make()
        except Error as error:
            space.refused[error.what] += 1
            continue
        except Exception as error:  # a fault of ours in a rewrite is told in the report, not to the user's program
            if not is_fault(error):
                raise
            space.refused[f"fault: {type(error).__name__}: {error}"] += 1
            continue
        if made is not None:
            return made
    return None


class Together:
    """Several spaces as one: each is drawn from as often; what is near is looked for in ``changes`` too."""

    name = "together"

    def __init__(self, spaces: Sequence[Space], changes: Space) -> None:
        self._spaces, self._changes = [*spaces, changes], changes
        self.refused: Counter[str] = Counter()
        for space in self._spaces:
            space.refused = self.refused

    def points(self) -> Iterator[Point]:
        for space in self._spaces:
            yield from space.points()

    def draw(self, rng: Random) -> Point | None:
        order = rng.sample(self._spaces, len(self._spaces))
        return next(filter(None, (space.draw(rng) for space in order)), None)

    def near(self, point: Point, rng: Random) -> Point | None:
        own = next((s for s in self._spaces if s.name == point.space), self._changes)
        return (own if rng.random() < 0.5 else self._changes).near(point, rng)

    def cross(self, a: Point, b: Point, rng: Random) -> Point | None:
        own = next((s for s in self._spaces if s.name == a.space == b.space), self._changes)
        return own.cross(a, b, rng)
