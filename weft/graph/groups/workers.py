"""Processes that compile beside this one.

They are started afresh, not forked: this process may have threads, of the framework's too, that hold locks. Each gets
tasks through a pipe and answers through another; it ends when its pipe does, so none outlives this process. A refusal
is an answer. What else a worker fails at, this process tries itself, and so says what is wrong as if there were none.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import struct
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Any, BinaryIO, Generic, TypeVar

from weft.graph.faults import is_fault

T = TypeVar("T")
R = TypeVar("R")

#: Tasks from which on a worker pays, unless said: starting one takes as long as a few tasks.
WORTH_IT = 8
#: Processes beside this one from which on they do all alone where they have done something first, as this one has not.
ENOUGH = 4
#: Seconds after which it is seen that others have ended.
_LOOK = 0.01
#: Processes at most, this one among them: each takes some 150 MB.
MOST = 16


class Workers(Generic[T, R]):
    """As many processes as there are cores for ``count`` tasks, this one among them; from ``worth_it`` tasks on. Each
    does ``first`` before its first task, and forgets what that gives.

    >>> with Workers(len(tasks)) as workers:
    ...     for key, made in workers.run(tasks, compile_task):
    """

    def __init__(self, count: int, worth_it: int = WORTH_IT, first: Callable[[None], object] | None = None) -> None:
        self._processes: list[subprocess.Popen[bytes]] = []
        self._pending: deque[tuple[str, T]] = deque()
        self._done: SimpleQueue[tuple[str, R | Exception]] = SimpleQueue()
        self._again: deque[tuple[str, T]] = deque()
        self._new: set[subprocess.Popen[bytes]] = set()
        self._is_behind = False
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        wanted = min(cores, MOST, count) - 1 if count >= worth_it else 0
        for _ in range(wanted if _can_start() else 0):
            self._processes.append(_start())
        for process in self._processes if first is not None else ():
            with contextlib.suppress(OSError):  # one that is dead fails at its first task
                _send(process.stdin, (first, None))
                self._new.add(process)
        self._is_behind = len(self._new) >= ENOUGH

    def __enter__(self) -> Workers[T, R]:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Ends the processes."""
        self._pending.clear()
        for process in self._processes:
            process.kill()  # an answer that nobody waits for
            process.wait()
            for pipe in (process.stdin, process.stdout):
                with contextlib.suppress(OSError):  # what could not be written to one that is dead
                    if pipe is not None:
                        pipe.close()

    def run(
        self, tasks: Sequence[tuple[str, T]], fn: Callable[[T], R], meanwhile: Sequence[Callable[[], object]] = ()
    ) -> Iterator[tuple[str, R | Exception]]:
        """Each task's key with what ``fn`` gives, or with the error that it raises; they are begun in order. This
        process does ``meanwhile`` before it joins in, where there are others; where many have done something first, it
        does not: its own first task would take longest."""
        self._pending.extend(tasks)
        threads = [threading.Thread(target=self._feed, args=(p, fn), daemon=True) for p in self._processes]
        for thread in threads:
            thread.start()
        for work in meanwhile if threads else ():
            work()
        while self._pending and not self._is_behind:
            yield from self._run_here(self._pending, fn)
            while not self._done.empty():
                yield self._done.get()
        while any(thread.is_alive() for thread in threads):
            with contextlib.suppress(Empty):
                yield self._done.get(timeout=_LOOK)
        while not self._done.empty():
            yield self._done.get()
        while self._again or self._pending:  # where processes failed
            yield from self._run_here(self._again or self._pending, fn)

    def _run_here(self, tasks: deque[tuple[str, T]], fn: Callable[[T], R]) -> Iterator[tuple[str, R | Exception]]:
        try:
            key, task = tasks.popleft()
        except IndexError:
            return
        made: R | Exception
        try:
            made = fn(task)
        except Exception as error:
            made = error
        yield key, made

    def _feed(self, process: subprocess.Popen[bytes], fn: Callable[[T], R]) -> None:
        """Gives one process a task after another; those that it fails are done here in the end."""
        assert process.stdin is not None
        assert process.stdout is not None
        while True:
            try:
                key, task = self._pending.popleft()
            except IndexError:
                return
            try:
                if process in self._new:
                    _receive(process.stdout)
                    self._new.discard(process)
                _send(process.stdin, (fn, task))
                made = _receive(process.stdout)
            except (OSError, EOFError, ValueError, pickle.PicklingError, TypeError, AttributeError):
                self._again.append((key, task))
                return
            if made is None:
                self._again.append((key, task))
            else:
                self._done.put((key, made))


#: Processes that were started before it was known what they are for.
EARLY: ContextVar[Workers[Any, Any] | None] = ContextVar("EARLY", default=None)


@contextlib.contextmanager
def early_workers(count: int, first: Callable[[None], object] | None = None) -> Iterator[None]:
    """What is compiled inside finds processes for ``count`` tasks that are ready and have done ``first``, if there is
    something to do before: to start one takes longer than a task."""
    with Workers[Any, Any](count, 1, first) as workers:
        token = EARLY.set(workers)
        try:
            yield
        finally:
            EARLY.reset(token)


def _can_start() -> bool:
    """Whether another interpreter like this one can be started: not from a program that embeds it."""
    return bool(sys.executable) and not getattr(sys, "frozen", False) and os.name == "posix"


def _start() -> subprocess.Popen[bytes]:
    # The interpreter of a virtual environment finds its packages itself; what was added to the path it must be told.
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    command = [sys.executable, "-c", f"import {__name__}; {__name__}.serve()"]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)


def serve() -> None:
    """What a worker does: answers tasks until there are no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever started it decides when it ends
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what somebody prints is not an answer
    while True:
        try:
            fn, task = _receive(sys.stdin.buffer)
            made = fn(task)
        except EOFError:
            return
        except Exception as error:  # a fault is told by the process that asked, which tries it too
            made = None if is_fault(error) else error
        try:
            _send(answers, made)
        except (pickle.PicklingError, TypeError, AttributeError):  # nothing was written
            _send(answers, None)


def _send(pipe: BinaryIO | Any, value: object) -> None:
    data = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    pipe.write(struct.pack("<Q", len(data)) + data)
    pipe.flush()


def _receive(pipe: BinaryIO | Any) -> Any:
    header = pipe.read(8)
    if len(header) < 8:
        raise EOFError
    (size,) = struct.unpack("<Q", header)
    data = pipe.read(size)
    if len(data) < size:
        raise EOFError
    return pickle.loads(data)
