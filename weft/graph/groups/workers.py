"""Processes that compile beside this one.

They are started afresh, not forked from this one, which may have threads, of the framework's too, that hold locks;
where there is something to do first, they are forked from one that has done it (`forked.py`). Each gets tasks through a
pipe and answers through another; it ends when its pipe does, so none outlives this process. A refusal is an answer.
What else a worker fails at, this process tries itself, and so says what is wrong as if there were none.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Any, Generic, TypeAlias, TypeVar

from weft.graph.groups.forked import Forked, Forks
from weft.locks import new_condition
from weft.runtime.worker_process import can_start, receive, send, start

T = TypeVar("T")
R = TypeVar("R")
#: A key, what is to be done, and with what.
_Task: TypeAlias = "tuple[str, Callable[[T], R], T]"

_Process: TypeAlias = "subprocess.Popen[bytes] | Forked"

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
        self._processes: list[_Process] = []
        #: tasks that wait, those before all others, and those that a process failed
        self._pending: deque[_Task[T, R]] = deque()
        self._ahead: deque[_Task[T, R]] = deque()
        self._again: deque[_Task[T, R]] = deque()
        self._done: SimpleQueue[tuple[str, R | Exception]] = SimpleQueue()
        #: keys of tasks that were begun before anybody waits for them, and answers that nobody has waited for
        self._begun: set[str] = set()
        self._kept: dict[str, R | Exception] = {}
        self._threads: list[threading.Thread] = []
        self._wake, self._is_closed = new_condition(), False
        self._forks: Forks | None = None
        self._new: set[_Process] = set()
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        wanted = min(cores, MOST, count) - 1 if count >= worth_it and can_start() else 0
        if wanted and first is not None:
            self._forks = Forks(wanted, first)
            self._processes += self._forks.processes
            self._new |= {*self._processes}
        else:
            self._processes += [start() for _ in range(wanted)]
        self._is_behind = len(self._new) >= ENOUGH

    def __enter__(self) -> Workers[T, R]:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Ends the processes."""
        with self._wake:
            self._is_closed = True
            self._wake.notify_all()
        if self._forks is not None:
            self._forks.close()
        alone = [process for process in self._processes if isinstance(process, subprocess.Popen)]
        for process in alone:
            process.kill()  # an answer that nobody waits for
        for process in alone:
            process.wait()
            for pipe in (process.stdin, process.stdout):
                with contextlib.suppress(OSError):  # what could not be written to one that is dead
                    if pipe is not None:
                        pipe.close()

    @property
    def is_busy(self) -> bool:
        """Whether tasks wait for a process."""
        return bool(self._pending)

    def begin(self, tasks: Sequence[tuple[str, T]], fn: Callable[[T], R]) -> None:
        """Has other processes do tasks before all that wait, if there are others: `run` may be asked for some."""
        given = [(key, fn, task) for key, task in tasks if key not in self._begun] if self._processes else []
        self._begun |= {key for key, *_ in given}
        self._put(self._ahead, given)

    def run(
        self, tasks: Sequence[tuple[str, T]], fn: Callable[[T], R], meanwhile: Sequence[Callable[[], object]] = ()
    ) -> Iterator[tuple[str, R | Exception]]:
        """Each task's key with what ``fn`` gives, or with the error that it raises; they are begun in order. This
        process does ``meanwhile`` before it joins in, where there are others; where many have done something first, it
        does not: its own first task would take longest."""
        waited = dict(tasks).keys()
        self._put(self._pending, [(key, fn, task) for key, task in tasks if key not in self._begun])
        for work in meanwhile if self._processes else ():
            work()
        left = set(waited)
        while left:
            for key in [key for key in waited if key in left and key in self._kept]:
                left.discard(key)
                self._begun.discard(key)
                yield key, self._kept.pop(key)
            if left:
                self._go_on(left)

    def _put(self, where: deque[_Task[T, R]], tasks: Sequence[_Task[T, R]]) -> None:
        with self._wake:
            where.extend(tasks)
            self._wake.notify_all()
        if not self._threads:
            self._threads = [threading.Thread(target=self._feed, args=(p,), daemon=True) for p in self._processes]
            for thread in self._threads:
                thread.start()

    def _go_on(self, waited: set[str]) -> None:
        """Until one more task is done, or for a moment; those that processes failed at are done here in the end."""
        others = any(thread.is_alive() for thread in self._threads)
        is_left = waited <= {key for key, *_ in self._again}
        mine = self._again if is_left else self._pending if not (others and self._is_behind) else deque()
        if mine or not others:
            self._run_here(mine or self._again or self._ahead)
        else:
            with contextlib.suppress(Empty):
                self._keep(*self._done.get(timeout=_LOOK))
        while not self._done.empty():
            self._keep(*self._done.get())

    def _keep(self, key: str, made: R | Exception) -> None:
        self._kept[key] = made

    def _run_here(self, tasks: deque[_Task[T, R]]) -> None:
        try:
            key, fn, task = tasks.popleft()
        except IndexError:
            return
        try:
            self._kept[key] = fn(task)
        except Exception as error:
            self._kept[key] = error

    def _next(self) -> _Task[T, R] | None:
        """What a process does next, as soon as there is something; None once there is nothing any more."""
        with self._wake:
            while not self._is_closed:
                with contextlib.suppress(IndexError):  # this process may have taken it
                    return (self._ahead or self._pending).popleft()
                self._wake.wait()
        return None

    def _feed(self, process: _Process) -> None:
        """Gives one process a task after another; those that it fails are done here in the end."""
        assert process.stdin is not None
        assert process.stdout is not None
        while (given := self._next()) is not None:
            key, fn, task = given
            try:
                if process in self._new:
                    receive(process.stdout)
                    self._new.discard(process)
                send(process.stdin, (fn, task))
                made = receive(process.stdout)
            except (OSError, EOFError, ValueError, pickle.PicklingError, TypeError, AttributeError):
                self._again.append(given)
                return
            if made is None:
                self._again.append(given)
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
