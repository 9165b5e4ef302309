"""Which earlier accesses of an element nothing orders against a new one.

Two accesses are unordered where, at some level of concurrent loops, they are different iterations of one fork
(see `lanes.Level`). A key holds both, the fork in its upper half: keys that differ in the lower half alone
are a data race. Per level and element the last write is kept, and of reads and atomic updates the last and one before
it by another iteration: of two in a fork one is not the iteration that writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from weft.sanitizer.lanes import Array

_NEVER = np.uint64(2**64 - 1)
_ITERATIONS = np.uint64(2**32 - 1)
_ONE = np.uint64(1)


def are_unordered(earlier: Array, keys: Array) -> Array:
    """Whether two keys are of one fork and different iterations of it."""
    return np.asarray(((earlier ^ keys) - _ONE) < _ITERATIONS)


class Accesses:
    """For every element and level the key of an access, and where in the program it was made."""

    def __init__(self, size: int, levels: int) -> None:
        self.keys = [np.full(size, _NEVER) for _ in range(levels)]
        self.sites = np.zeros(size, np.int32)

    def put(self, elements: Array, keys: Sequence[Array], site: int) -> None:
        for level, kept in enumerate(self.keys):
            kept[elements] = keys[level] if level < len(keys) else _NEVER
        self.sites[elements] = site


class Several:
    """The last accesses, and others by another iteration of the same fork."""

    def __init__(self, size: int, levels: int) -> None:
        self.last = Accesses(size, levels)
        self.other = Accesses(size, levels)

    def put(self, elements: Array, keys: Sequence[Array], site: int) -> None:
        for level, mine in enumerate(keys):
            before, beside = self.last.keys[level], self.other.keys[level]
            earlier = before[elements]
            self._keep(level, elements, earlier, np.nonzero(are_unordered(earlier, mine))[0])
            before[elements] = mine
            # Of several lanes that touch one element now, only the last is kept: another is put beside it.
            lost = np.nonzero(are_unordered(before[elements], mine))[0]
            beside[elements[lost]] = mine[lost]
            self.other.sites[elements[lost]] = site
        self.last.sites[elements] = site

    def _keep(self, level: int, elements: Array, earlier: Array, apart: Array) -> None:
        if len(apart):
            at = elements[apart]
            self.other.keys[level][at] = earlier[apart]
            self.other.sites[at] = self.last.sites[at]


@dataclass(frozen=True, slots=True)
class Meeting:
    """Accesses that are unordered: positions of the new ones, and key and site of what the first of them met."""

    lanes: Array
    level: int
    key: int
    site: int


class Shadow:
    """Who touched each element of a buffer; ``levels`` are those of the loops inside the place it is made."""

    def __init__(self, size: int, levels: int) -> None:
        self.writes = Accesses(size, levels)
        self.reads = Several(size, levels)
        self.atomics = Several(size, levels)
        self._has_atomics = False
        self._scratch = np.zeros(size, np.int32)

    def meetings(self, action: str, elements: Array, keys: Sequence[Array]) -> list[Meeting]:
        """Earlier accesses that nothing orders against new ones."""
        met = []
        for earlier in self._against(action):
            for level, mine in enumerate(keys):
                kept = earlier.keys[level][elements]
                apart = np.nonzero(are_unordered(kept, mine))[0]
                if len(apart):
                    first = int(apart[0])
                    site = int(earlier.sites[elements[first]])
                    met.append(Meeting(apart, level, int(kept[first]), site))
        return met

    def doubles(self, elements: Array) -> tuple[Array, Array]:
        """Lanes that touch the element of another lane, and those others."""
        places = np.arange(len(elements), dtype=np.int32)
        self._scratch[elements] = places
        last = self._scratch[elements]
        apart = np.nonzero(last != places)[0]
        return apart, last[apart]

    def record(self, action: str, elements: Array, keys: Sequence[Array], site: int) -> None:
        if action == "write":
            self.writes.put(elements, keys, site)
        elif action == "read":
            self.reads.put(elements, keys, site)
        else:
            self._has_atomics = True
            self.atomics.put(elements, keys, site)

    def _against(self, action: str) -> tuple[Accesses, ...]:
        reads = (self.reads.last, self.reads.other) if action != "read" else ()
        atomics = (self.atomics.last, self.atomics.other) if action != "atomic" and self._has_atomics else ()
        return (self.writes, *reads, *atomics)
