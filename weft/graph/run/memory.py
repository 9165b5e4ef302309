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
    for life in sorted(lives, key=lambda t: (-t.size, t.first, t.name)):
        placed.append((_place(placed, life), life))
    return Arena(max((o + _rounded(t.size) for o, t in placed), default=0), {t.name: o for o, t in placed})


def host(lives: Sequence[Life], results: Sequence[Life]) -> dict[str, tuple[str, int]]:
    """Which tensors can be in the memory of a result until that is written, and where in it.

    Later ones are asked first: what the last step reads cannot be there, so what stands before it should.
    """
    hosted: dict[str, tuple[str, int]] = {}
    for result in results:
        placed: list[tuple[int, Life]] = []
        for life in sorted(lives, key=lambda t: (-t.size, -t.last, t.name)):
            if life.name in hosted or life.last >= result.first:
                continue
            offset = _place(placed, life)
            if offset + life.size <= result.size:
                placed.append((offset, life))
                hosted[life.name] = result.name, offset
    return hosted


def _place(placed: list[tuple[int, Life]], life: Life) -> int:
    alive = sorted((o, t) for o, t in placed if t.first <= life.last and life.first <= t.last)
    return _smallest_gap(alive, _rounded(life.size))


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
