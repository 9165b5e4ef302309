"""Fast calls of a model whose sizes come and go.

A `CallTable` keeps whatever it was ever given, since a call may be under way in it. One that was given much is left to
the calls that are, and another takes those to come.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.locks import new_lock
from weft.runtime.fastcall import CallTable, Specialization

#: Specializations that a table may be given, of which most are gone.
MOST_ADDED = 128


class RenewedTable:
    """As `CallTable`; ``call`` may be another one after something was added."""

    def __init__(self, nargs: int, nouts: int) -> None:
        self._shape, self._lock = (nargs, nouts), new_lock()
        self._active: dict[int, Specialization] = {}
        self._table, self._added = CallTable(nargs, nouts), 0

    @property
    def call(self) -> Callable[..., Any]:
        return self._table.call

    def add(self, specialization: Specialization) -> None:
        with self._lock:
            self._added += id(specialization) not in self._active
            self._active[id(specialization)] = specialization
            if self._added <= MOST_ADDED:
                self._table.add(specialization)
                return
            self._table, self._added = CallTable(*self._shape), len(self._active)
            for one in self._active.values():
                self._table.add(one)

    def remove(self, specialization: Specialization) -> None:
        with self._lock:
            self._active.pop(id(specialization), None)
            self._table.remove(specialization)
