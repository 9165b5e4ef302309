"""Work that nobody waits for, one piece after another, in a thread that ends with the process."""

from __future__ import annotations

import atexit
import contextlib
import threading
from collections.abc import Callable
from queue import SimpleQueue

from weft.locks import in_child, new_lock

#: Seconds that the end of the process waits for a piece that runs then.
_PATIENCE = 5.0


class Background:
    """Pieces of work in the order in which they are asked for; what one raises is nobody's business."""

    def __init__(self) -> None:
        self._lock = new_lock()
        self.begin()

    def begin(self) -> None:
        """With nothing to do and no thread."""
        self._queue: SimpleQueue[Callable[[], object]] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._is_ending = False

    def submit(self, work: Callable[[], object]) -> None:
        self._queue.put(work)
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="weft background", daemon=True)
                self._thread.start()
                atexit.register(self._end)

    def wait(self) -> None:
        """Until all is done that was asked for."""
        done = threading.Event()
        self.submit(done.set)
        done.wait()

    def _run(self) -> None:
        while not self._is_ending:
            work = self._queue.get()
            with contextlib.suppress(Exception):  # what runs already goes on
                work()

    def _end(self) -> None:
        self._is_ending = True
        self._queue.put(lambda: None)
        if self._thread is not None and self._thread.is_alive():
            self._thread.join(_PATIENCE)


BACKGROUND = Background()
in_child(BACKGROUND.begin)  # what was asked for before the fork is done by the parent
