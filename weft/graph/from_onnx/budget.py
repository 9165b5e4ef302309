"""How much memory and work a model may ask for while its graph is made: a small file can name large sizes.

Each tensor of the graph is checked against what is free. Tables that are computed while loading (where each element of
a resized image looks, which update each element takes) have one account for the whole model, and ask before they are
made. So have the points that formulas run over: what would take a machine days is refused before anything is compiled.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from math import prod
from pathlib import Path

from weft.graph.graph import Shape
from weft.ir.dtype import DType
from weft.ir.errors import UnsupportedError

#: Which share of the memory that is free tables may have.
_SHARE = 4
#: Points of all formulas of a model: ten thousand million weights and four thousand rows are less.
MOST_POINTS = 1 << 46


def free_memory() -> int:
    """Bytes that this process may ask for and get."""
    return min(_limits(), default=1 << 40)


def _limits() -> Iterator[int]:
    yield os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for line in _lines("/proc/meminfo"):
        if line.startswith("MemAvailable:"):
            yield int(line.split()[1]) * 1024
    for most, used in (
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    ):
        limit, now = (next(iter(_lines(f"/sys/fs/cgroup/{name}")), "") for name in (most, used))
        if limit.isdigit() and now.isdigit():
            yield max(0, int(limit) - int(now))


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []


class Budget:
    """Of one model."""

    def __init__(self, free: int | None = None) -> None:
        self.free = free_memory() if free is None else free
        self._tables, self._points = self.free // _SHARE, MOST_POINTS

    def check(self, shape: Shape, dtype: DType) -> None:
        """Refuses a tensor that cannot be."""
        size = prod(shape) * dtype.itemsize
        if min(shape, default=0) < 0:
            raise UnsupportedError(f"a shape of {shape}")
        if size > self.free:
            raise UnsupportedError(f"a tensor of shape {shape} has {size} bytes", why="this machine has less memory")

    def take(self, size: int) -> None:
        """``size`` bytes for tables; refuses what is more than there is for all tables of the model."""
        if size > self._tables:
            raise UnsupportedError(f"tables of {size} bytes", why="this machine has less memory for them")
        self._tables -= size

    def work(self, points: int) -> None:
        """``points`` that a formula runs over; refuses what is more than all of the model may."""
        if points > self._points:
            raise UnsupportedError(
                f"work of {points} points", why=f"a model may have {MOST_POINTS}: it would run for days"
            )
        self._points -= points
