"""The conductor's side of a worker: starts it, asks it, stops it while others are timed."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.field.clock import VARIABLE
from bench.field.environments import ROOT
from bench.field.peers import Peer

#: Every library's way to be told how many threads it may use.
_THREAD_VARIABLES = (
    "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS", "HL_NUM_THREADS",
    "TVM_NUM_THREADS", "WEFT_NUM_THREADS",
)  # fmt: skip


class Gone(Exception):
    """A worker that crashed, or did not answer in time."""


class WorkerProcess:
    """A peer at work in its own process; started on first use, again after a crash."""

    def __init__(
        self,
        peer: Peer,
        python: Path,
        threads: int,
        cores: list[int],
        clock: str = "wall",
        root: Path = ROOT,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        self.peer, self.python, self.threads, self.cores = peer, python, threads, cores
        self.clock, self.root, self.variables = clock, root, dict(variables or {})
        self._process: subprocess.Popen[bytes] | None = None
        self._commands = self._answers = -1
        self._unread = b""

    def ask(self, timeout_s: float, **command: Any) -> dict[str, Any]:
        """The answer to a command; the worker stands still before and after."""
        self.start()
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)
        try:
            os.write(self._commands, (json.dumps(command) + "\n").encode())
            answer: dict[str, Any] = json.loads(self._read_line(timeout_s))
        except (Gone, OSError) as error:
            reason = self._end()
            raise Gone(str(error) if isinstance(error, Gone) and str(error) else reason) from None
        self._process.send_signal(signal.SIGSTOP)
        return answer

    def close(self) -> None:
        if self._process is not None:
            self._end()

    def start(self) -> None:
        """Starts it where it does not run. It ends with the thread that did: see `worker`."""
        if self._process is not None:
            return
        to_worker, self._commands = os.pipe()
        self._answers, from_worker = os.pipe()
        self._unread = b""
        environment = {**os.environ, **dict.fromkeys(_THREAD_VARIABLES, str(self.threads))}
        environment |= {"PYTHONPATH": str(self.root), "WEFT_CACHE": "off", "KMP_BLOCKTIME": "0", "JAX_PLATFORMS": "cpu"}
        environment |= {VARIABLE: self.clock, **self.variables}
        cores = ",".join(map(str, self.cores))
        self._process = subprocess.Popen(
            [self.python, "-m", "bench.field.worker", self.peer.module, self.peer.registry, str(self.threads), cores,
             str(to_worker), str(from_worker)],
            pass_fds=(to_worker, from_worker), env=environment, cwd=self.root, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        os.close(to_worker)
        os.close(from_worker)

    def _read_line(self, timeout_s: float) -> bytes:
        end = time.monotonic() + timeout_s
        while b"\n" not in self._unread:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self._answers], [], [], left)[0]:
                raise Gone(f"no answer within {timeout_s:.0f} s")
            piece = os.read(self._answers, 1 << 16)
            if not piece:
                raise Gone
            self._unread += piece
        line, self._unread = self._unread.split(b"\n", 1)
        return line

    def _end(self) -> str:
        """Ends the process and those it started; says how it had ended, if it had."""
        assert self._process is not None
        try:
            code: int | None = self._process.wait(0.5)
        except subprocess.TimeoutExpired:
            code = None
        if code is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        for pipe in (self._commands, self._answers):
            os.close(pipe)
        self._process = None
        if code is not None and code < 0:
            return f"crashed ({signal.Signals(-code).name})"
        return f"ended with status {code}"
