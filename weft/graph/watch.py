"""Who wants to see the steps of compiling a model: `weft trace`."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any, Protocol


class Watcher(Protocol):
    def rewritten(self, name: str, before: Any, after: Any, seconds: float) -> None:
        """A rewrite was done: its name, the graph before and after it, and how long it took."""

    def loaded(self, kernel: Any, build: Any) -> None:
        """The code of a kernel is in memory; ``build`` has its stages."""


WATCHER: ContextVar[Watcher | None] = ContextVar("WATCHER", default=None)
