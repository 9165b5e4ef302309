"""Processes that are forked from one that was started afresh and has done something first.

What is imported, read and set up there is done once, not once in each, and is in memory once. That process has no
threads of its own; it ends the others when it is told to, or when whoever started it is gone.
"""

from __future__ import annotations

import contextlib
import gc
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any, BinaryIO

from weft.interpreters import python_command, python_environment


class Forked:
    """One process, as far as others speak to it; it is there when its first answer, its number, is."""

    def __init__(self, stdin: BinaryIO, stdout: BinaryIO) -> None:
        self.stdin, self.stdout = stdin, stdout


class Forks:
    """``count`` processes that serve tasks as `weft.runtime.worker_process.serve` does, after one did ``first``."""

    def __init__(self, count: int, first: Callable[[None], object]) -> None:
        given = [(os.pipe(), os.pipe()) for _ in range(count)]
        theirs = [(tasks[0], answers[1]) for tasks, answers in given]
        self.processes = [Forked(os.fdopen(t[1], "wb"), os.fdopen(a[0], "rb")) for t, a in given]
        command = python_command(f"import {__name__} as here; here.serve_forks({theirs})")
        passed = [end for ends in theirs for end in ends]
        # One thread for numpy, too: what has several must not fork.
        alone = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        self._server = subprocess.Popen(
            command, stdin=subprocess.PIPE, pass_fds=passed, env=python_environment() | alone
        )
        for end in passed:
            os.close(end)
        assert self._server.stdin is not None
        with contextlib.suppress(OSError):  # tasks will fail, and are done elsewhere
            self._server.stdin.write(pickle.dumps(first))
            self._server.stdin.flush()

    @property
    def has_ended(self) -> bool:
        return self._server.poll() is not None

    def close(self) -> None:
        """Ends all of them at once."""
        self._server.terminate()
        self._server.wait()
        for pipe in (self._server.stdin, *(p for one in self.processes for p in (one.stdin, one.stdout))):
            with contextlib.suppress(OSError):  # what could not be written to one that is dead
                if pipe is not None:
                    pipe.close()


def serve_forks(ends: list[tuple[int, int]]) -> None:
    """What the process does that the others are forked from."""
    from weft.runtime.worker_process import serve

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever started it decides when it ends
    os.dup2(2, 1)  # what somebody prints is not what the program says
    first = pickle.load(sys.stdin.buffer)
    with contextlib.suppress(Exception):  # tasks will say what is wrong
        first(None)
    gc.collect()
    gc.freeze()  # so that pages stay shared
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    children = []
    for tasks, answers in ends:
        child = os.fork()
        if child == 0:
            _be_child(serve, tasks, answers, {end for pair in ends for end in pair})
        children.append(child)
    for end in (end for pair in ends for end in pair):
        os.close(end)
    signal.signal(signal.SIGTERM, lambda *_: _end(children))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
    sys.stdin.buffer.read()  # until whoever started it is gone
    _end(children)


def _be_child(serve: Callable[[BinaryIO, BinaryIO], Any], tasks: int, answers: int, ends: set[int]) -> None:
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
        for end in ends - {tasks, answers}:  # a pipe ends when all have closed it
            os.close(end)
        os.close(0)
        pipe = os.fdopen(answers, "wb")
        from weft.runtime.worker_process import send

        send(pipe, os.getpid())
        serve(os.fdopen(tasks, "rb"), pipe)
    finally:
        os._exit(0)


def _end(children: list[int]) -> None:
    for child in children:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
    for child in children:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(child, 0)
    os._exit(0)
