"""A mesh of devices: named axes, and which ranks a collective along one of them joins."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from weft.ir.errors import ArgumentError


@dataclass(frozen=True, slots=True)
class Mesh:
    """Ranks counted through ``sizes``, the last axis fastest.

    >>> Mesh((2, 4), ("data", "tensor")).count
    8
    """

    sizes: tuple[int, ...]
    names: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(self.sizes) != len(self.names) or len(set(self.names)) != len(self.names):
            raise ArgumentError(
                f"a mesh of {len(self.sizes)} axes is called {', '.join(self.names) or 'nothing'}",
                why="each axis of a mesh has a name of its own",
            )
        for name, size in zip(self.names, self.sizes):
            if size < 1:
                raise ArgumentError(f"mesh axis {name} has {size} devices", help="give each axis one device or more")

    @property
    def count(self) -> int:
        return prod(self.sizes)

    def coordinates(self, rank: int) -> tuple[int, ...]:
        """Where ``rank`` stands along each axis."""
        found = []
        for size in reversed(self.sizes):
            rank, here = divmod(rank, size)
            found.append(here)
        return tuple(reversed(found))

    def groups(self, axes: tuple[int, ...]) -> Iterator[list[int]]:
        """The ranks that differ along ``axes`` alone, group by group, each in the order of its coordinates."""
        together: dict[tuple[int, ...], list[int]] = {}
        for rank in range(self.count):
            at = self.coordinates(rank)
            together.setdefault(tuple(c for axis, c in enumerate(at) if axis not in axes), []).append(rank)
        yield from together.values()
