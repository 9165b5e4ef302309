"""A line on the terminal about what takes longer than a second."""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType

from weft.locks import new_lock

#: Seconds before anything is said.
SILENT = 1.0
_WIDTH = 24
#: Those that are at work, inner ones last, of which the innermost is shown; and who may write.
_working: list[Progress] = []
_writing = new_lock()


class Progress:
    """``title`` and how many of ``count`` steps are done, on stderr, where that is a terminal; the title alone where
    there are no steps.

    >>> with Progress("compiling", 10) as progress:
    ...     progress.step()
    """

    def __init__(self, title: str, count: int = 0) -> None:
        self.title, self.count, self.done = title, count, 0
        self._start = time.monotonic()
        self._is_shown = False
        self._later: threading.Timer | None = None

    def __enter__(self) -> Progress:
        _working.append(self)
        if _is_terminal():
            self._later = threading.Timer(SILENT, self._show)
            self._later.daemon = True
            self._later.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        if self._later is not None:
            self._later.cancel()
        with _writing:
            _working.remove(self)
            if self._is_shown:
                _write("\r\x1b[K")

    def step(self) -> None:
        """One more is done."""
        self.done += 1
        if time.monotonic() - self._start > SILENT and _is_terminal():
            self._show()

    def _show(self) -> None:
        filled = _WIDTH * self.done // max(self.count, 1)
        bar = f" {'█' * filled}{'░' * (_WIDTH - filled)} {self.done} of {self.count}" if self.count else " …"
        with _writing:
            if _working[-1:] == [self]:
                _write(f"\r{self.title}{bar}\x1b[K")
                self._is_shown = True


def _is_terminal() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()


def _write(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()
