"""A line on the terminal about what takes longer than a second."""

from __future__ import annotations

import sys
import time
from types import TracebackType

#: Seconds before anything is said.
SILENT = 1.0
_WIDTH = 24


class Progress:
    """``title`` and how many of ``count`` steps are done, on stderr, where that is a terminal.

    >>> with Progress("compiling", 10) as progress:
    ...     progress.step()
    """

    def __init__(self, title: str, count: int) -> None:
        self.title, self.count, self.done = title, count, 0
        self._start = time.monotonic()
        self._is_shown = False

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        if self._is_shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def step(self) -> None:
        """One more is done."""
        self.done += 1
        if time.monotonic() - self._start > SILENT and sys.stderr is not None and sys.stderr.isatty():
            filled = _WIDTH * self.done // max(self.count, 1)
            bar = "█" * filled + "░" * (_WIDTH - filled)
            sys.stderr.write(f"\r{self.title} {bar} {self.done} of {self.count}\x1b[K")
            sys.stderr.flush()
            self._is_shown = True
