"""Memory between kernels for all sizes of one model: what rests with one size serves another.

Where in it tensors are follows from the sizes; the memory itself is not kept for each of them. Calls that run at once,
in several threads, have memory of their own.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any, Protocol

from weft.locks import new_lock
from weft.runtime.arrays import aligned_bytes

#: Bytes that may rest beside what the largest size needs.
SPARE = 8 << 20


class User(Protocol):
    """An executable."""

    @property
    def held_bytes(self) -> int:
        """Of the memory that it has, resting or in calls."""

    def release(self) -> Iterable[Any]:
        """The memory that rests, which it no longer has."""


class Arenas:
    """What the executables of one model ask for memory."""

    def __init__(self) -> None:
        self._users: weakref.WeakSet[User] = weakref.WeakSet()
        self._lock = new_lock()
        self._largest = 0

    def take(self, size: int, user: User) -> Any:
        """``size`` bytes at least, those of another executable where enough rests."""
        with self._lock:
            self._users.add(user)
            self._largest = max(self._largest, size)
            others = [u for u in self._users if u is not user]
            if sum(u.held_bytes for u in others) + size <= self._largest + SPARE:
                return aligned_bytes(size)
            found = [memory for u in others for memory in u.release() if memory.nbytes >= size]
            return min(found, key=lambda memory: int(memory.nbytes)) if found else aligned_bytes(size)
