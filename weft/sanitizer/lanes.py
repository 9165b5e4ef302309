"""Threads as lanes of arrays: what runs at the same time is computed at the same time.

A `Lanes` is a set of iterations that stand at the same statement. A concurrent loop makes one lane an
iteration; a branch makes a `Lanes` of those that take it. So nothing is masked: work is done for the lanes
that do it. A value that is the same in all lanes is an array of no dimensions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


@dataclass(eq=False)
class Level:
    """One concurrent loop nest at run time: which iterations are unordered among themselves.

    ``forks`` has a number for each lane of ``home``, those outside; iterations with the same one, and only those,
    are unordered. A barrier gives the teams that pass it new numbers.
    """

    kind: str
    home: Lanes
    forks: Array
    names: tuple[str, ...]
    starts: tuple[int, ...] | None  # with ``extents``: the box of the nest, None where it is none
    extents: tuple[int, ...] | None


class Lanes:
    """``count`` lanes; lane i belongs to lane ``origin[i]`` of ``parent``.

    ``level`` is the loop that made them, None for a part of the lanes of ``parent``; ``numbers`` are the iterations.
    """

    def __init__(
        self,
        parent: Lanes | None,
        origin: Array,
        level: Level | None = None,
        numbers: Array | None = None,
    ) -> None:
        self.parent = parent
        self.origin = origin
        self.count = len(origin)
        self.level = level
        self.numbers = numbers
        self._places: dict[int, Array | None] = {}
        self._keys: tuple[int, dict[int, list[Array]]] = (-1, {})
        self.gathered: dict[str, tuple[Array, Array]] = {}
        self.returned: Array | None = None

    @cached_property
    def everyone(self) -> Lanes:
        """All lanes of the loop these are a part of."""
        lanes = self
        while lanes.level is None and lanes.parent is not None:
            lanes = lanes.parent
        return lanes

    def place_in(self, outer: Lanes) -> Array | None:
        """For each lane the one of ``outer`` it is or belongs to; None where they are the same lanes."""
        if outer is self:
            return None
        if id(outer) not in self._places:
            assert self.parent is not None, "not inside"
            up = self.parent.place_in(outer)
            self._places[id(outer)] = self.origin if up is None else up[self.origin]
        return self._places[id(outer)]

    def part(self, chosen: Array) -> Lanes:
        """The lanes at the positions ``chosen``."""
        return self if len(chosen) == self.count else Lanes(self, chosen)

    def bring(self, value: Array, home: Lanes) -> Array:
        """``value`` of the lanes ``home``, for these."""
        place = self.place_in(home)
        return value if place is None or value.ndim == 0 else value[place]

    @cached_property
    def levels(self) -> tuple[Lanes, ...]:
        """The loops around, outermost first, each as all of its lanes."""
        outer = () if self.parent is None else self.parent.levels
        return outer if self.level is None else (*outer, self)

    def keys(self, skipped: int, clock: int) -> list[Array]:
        """Per level, but for the outermost ``skipped``, the fork of each lane (upper half) and its iteration.

        ``clock`` changes whenever a barrier is passed, and with it the forks.
        """
        if self._keys[0] != clock:
            self._keys = (clock, {})
        kept = self._keys[1]
        if skipped not in kept:
            kept[skipped] = [self._key(lanes) for lanes in self.levels[skipped:]]
        return kept[skipped]

    def _key(self, lanes: Lanes) -> Array:
        assert lanes.level is not None
        assert lanes.numbers is not None
        forks = self.bring(lanes.level.forks, lanes.level.home).astype(np.uint64)
        return np.asarray((forks << np.uint64(32)) | self.bring(lanes.numbers, lanes).astype(np.uint64))

    def describe(self, lane: int, values: Mapping[str, tuple[Lanes, Array]], depth: int | None = None) -> str:
        """The iteration of a lane: the variables of the concurrent loops around it, the outermost ``depth`` ones."""
        names = [name for lanes in self.levels[:depth] if lanes.level for name in lanes.level.names]
        return _text([(name, int(one(self.bring(values[name][1], values[name][0]), lane))) for name in names])

    def leave(self) -> None:
        """These lanes have returned: they run nothing more of the loop that made them."""
        every = self.everyone
        if every.returned is None:
            every.returned = np.zeros(every.count, np.bool_)
        place = self.place_in(every)
        every.returned[... if place is None else place] = True

    def staying(self, left: Array | None, loop: Lanes) -> Lanes | None:
        """Those that have neither returned nor ``left`` the loop that the lanes ``loop`` run."""
        keep = np.ones(self.count, np.bool_)
        if left is not None:
            keep &= ~self.bring(left, loop)
        if self.everyone.returned is not None:
            keep &= ~self.bring(self.everyone.returned, self.everyone)
        chosen = np.nonzero(keep)[0]
        return self.part(chosen) if len(chosen) else None


def iteration_of(level: Level, number: int) -> str:
    """The iteration of a loop nest that has this number."""
    if level.starts is None or level.extents is None:
        return f"{' '.join(level.names)} number {number}"
    places = np.unravel_index(number, level.extents)
    return _text([(name, int(at) + lo) for name, at, lo in zip(level.names, places, level.starts)])


def _text(shown: list[tuple[str, int]]) -> str:
    return ", ".join(f"{name}={value}" for name, value in shown)


def one(values: Array, lane: int) -> Any:
    """The value in one lane."""
    return values[lane] if values.ndim else values[()]
