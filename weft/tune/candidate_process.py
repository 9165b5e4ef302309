"""A process that candidates are compiled or run in, and that may be lost: to a crash, a hang, the limit on its memory.

It costs this process nothing but the start of another one.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import select
import signal
import struct
import subprocess
import time
from collections.abc import Callable
from typing import Any

from weft.runtime.worker_process import send, start
from weft.tune.job import Job
from weft.tune.run_candidates import begin

_CHUNK = 1 << 20


class LostError(Exception):
    """The process is no more; ``ended`` says how, as a record does."""

    def __init__(self, ended: str, why: str) -> None:
        super().__init__(why)
        self.ended, self.why = ended, why


class CandidateProcess:
    """`ask` begins a task and `answer` waits for it, one at a time. After `LostError` the next task starts another
    process, which first does what each of them begins with; ``lost`` counts them."""

    def __init__(self, job: Job) -> None:
        self._setting_up: list[tuple[Callable[[Any], Any], Any]] = [(begin, job)]
        self._process: subprocess.Popen[bytes] | None = None
        self.lost = 0

    def also(self, fn: Callable[[Any], Any], task: Any, end: float) -> Any:
        """A task that this process does now, and each that takes its place before anything else."""
        self._setting_up.append((fn, task))
        if self._process is None:
            return self._start(end)
        self.ask(fn, task, end)
        return self.answer(end)

    def ask(self, fn: Callable[[Any], Any], task: Any, end: float) -> None:
        if self._process is None:
            self._start(end)
        assert self._process is not None
        try:
            send(self._process.stdin, (fn, task))
        except OSError:
            self._lose("crashed")

    def answer(self, end: float) -> Any:
        """What the task gave; `LostError` where the process ended, or has not answered at ``end``."""
        if self._process is None:
            raise LostError("crashed", "the process ended before it was asked")
        pipe = self._process.stdout
        assert pipe is not None
        (size,) = struct.unpack("<Q", self._read(pipe.fileno(), 8, end))
        return pickle.loads(self._read(pipe.fileno(), size, end))

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            for pipe in (self._process.stdin, self._process.stdout):
                with contextlib.suppress(OSError):
                    if pipe is not None:
                        pipe.close()
        self._process = None

    def _start(self, end: float) -> Any:
        self._process = start()
        answer = None
        for fn, task in self._setting_up:
            self.ask(fn, task, end)
            answer = self.answer(end)
        return answer

    def _read(self, file: int, size: int, end: float) -> bytes:
        data = bytearray()
        while len(data) < size:
            ready, _, _ = select.select([file], [], [], max(0.0, end - time.monotonic()))
            if not ready:
                self._lose("hung")
            got = os.read(file, min(_CHUNK, size - len(data)))
            if not got:
                self._lose("crashed")
            data += got
        return bytes(data)

    def _lose(self, how: str) -> None:
        assert self._process is not None
        process = self._process
        why = "it did not end in the time it was given"
        if how == "crashed":
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(1.0)
            code = process.returncode
            killed = code is not None and code < 0
            why = f"signal {signal.Signals(-code).name}" if killed else f"its process ended with {code}"
        self.close()
        self.lost += 1
        raise LostError(how, why)
