"""One arena for all tensors between kernels: how long each lives, and offsets so that those alive never overlap."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

#: Tensors begin at cache lines, larger ones apart from each other by more than a page's worth of aliasing.
ALIGNMENT = 64


class Life(NamedTuple):
    """A tensor of ``size`` bytes, used from step ``first`` to step ``last``, both included."""

    name: str
    size: int
    first: int
    last: int


class Arena(NamedTuple):
    size: int
    offsets: dict[str, int]


def pack(lives: Sequence[Life]) -> Arena:
    """Offsets for all tensors: the largest first, each in the smallest gap between those alive with it."""
    placed: list[tuple[int, Life]] = []
    offsets: dict[str, int] = {}
    for life in sorted(lives, key=lambda t: (-t.size, t.first, t.name)):
        size = _rounded(life.size)
        alive = sorted((o, t) for o, t in placed if t.first <= life.last and life.first <= t.last)
        offsets[life.name] = _smallest_gap(alive, size)
        placed.append((offsets[life.name], life))
    return Arena(max((o + _rounded(t.size) for o, t in placed), default=0), offsets)


def _smallest_gap(alive: list[tuple[int, Life]], size: int) -> int:
    best, room, end = None, None, 0
    for offset, life in alive:
        gap = offset - end
        if gap >= size and (room is None or gap < room):
            best, room = end, gap
        end = max(end, offset + _rounded(life.size))
    return end if best is None else best


def _rounded(size: int) -> int:
    return -(-max(size, 1) // ALIGNMENT) * ALIGNMENT
