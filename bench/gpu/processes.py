"""Rows of `bench.gpu.models`, each in a process of its own with nothing cached. Several may compile beside each other;
what measures the GPU meanwhile has it to itself, and calls are timed one row after another when all are compiled."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import importlib
import json
import math
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Protocol

#: The file that whoever measures the GPU has locked; where a process keeps what it compiles.
_LOCK, CACHES = "WEFT_BENCH_LOCK", ("WEFT_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")
#: What stands before what a process of a row says to the one that started it.
_MARK = "bench.gpu.processes "


class Measured(Protocol):
    def measure(self) -> dict[str, Any]: ...

    def print_profiles(self) -> None: ...


def several(
    command: Sequence[str], count: int, at_once: int, limit: float = math.inf
) -> Iterator[tuple[int, dict[str, Any]]]:
    """What ``command --row n`` measures, with n from 0 to ``count``; rows that fail, or are not compiled after
    ``limit`` seconds, are told and left out. Those that compile beside each other have cores of their own."""
    last = time.monotonic() + limit
    shares: SimpleQueue[set[int]] = SimpleQueue()
    for share in _shares(sorted(os.sched_getaffinity(0)), at_once):
        shares.put(share)
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(at_once) as pool:
        made = list(pool.map(functools.partial(_compiled, command, Path(folder), shares, last), range(count)))
        for number, process in enumerate(made):
            found = _say(process, "go") if process is not None else None
            if found is not None:
                yield number, found


def _shares(cores: Sequence[int], count: int) -> list[set[int]]:
    """``cores`` in ``count`` parts; where there are fewer, several have the same."""
    return [set(cores[n::count]) or {cores[n % len(cores)]} for n in range(count)]


def _compiled(
    command: Sequence[str], folder: Path, shares: SimpleQueue[set[int]], last: float, number: int
) -> subprocess.Popen[str] | None:
    """The process of a row, when it is ready to measure."""
    caches = {name: str(folder / f"{name}-{number}") for name in CACHES}
    environment = {**os.environ, **caches, _LOCK: str(folder / "lock")}
    share = shares.get()
    process = subprocess.Popen(
        [*command, "--row", str(number)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
        preexec_fn=lambda: os.sched_setaffinity(0, share),
    )
    ends = threading.Timer(min(max(last - time.monotonic(), 0.0), threading.TIMEOUT_MAX), process.kill)
    ends.start()
    try:
        return process if _heard(process) is not None else None
    finally:
        ends.cancel()
        shares.put(share)


def _say(process: subprocess.Popen[str], word: str) -> dict[str, Any] | None:
    assert process.stdin is not None
    try:
        process.stdin.write(f"{word}\n")
        process.stdin.flush()
    except OSError:
        return None
    found = _heard(process)
    process.stdin.close()
    process.wait()
    return found


def _heard(process: subprocess.Popen[str]) -> dict[str, Any] | None:
    """What the process says next; what else it prints is printed here."""
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith(_MARK):
            found: dict[str, Any] = json.loads(line.removeprefix(_MARK))
            return found
        print(line, end="", flush=True)
    print(f"a row failed or took too long: exit status {process.wait()}", flush=True)
    return None


def answer(row: Measured, profiled_below: float) -> int:
    """In the process of a row: waits until it is told to, measures, and says what it found."""
    print(f"{_MARK}{{}}", flush=True)
    sys.stdin.readline()
    found = row.measure()
    if found["ratio"] < profiled_below:
        row.print_profiles()
    print(_MARK + json.dumps(found), flush=True)
    return 0


_inside = threading.RLock()
_inside_file: list[Any] = []


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """Nobody else measures the GPU inside."""
    path = os.environ.get(_LOCK)
    if path is None:
        yield
        return
    with _inside:
        if _inside_file:  # a measurement inside of another
            yield
            return
        with open(path, "w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            _inside_file.append(file)
            try:
                yield
            finally:
                _inside_file.pop()


def measure_alone() -> None:
    """Makes what Weft and Inductor time while they compile do so `alone`. What both import of torch is imported first,
    or whoever compiles first would be charged for it."""
    for name in ("torch._dynamo", "torch._inductor.compile_fx", "torch.export"):
        importlib.import_module(name)
    from torch._inductor.runtime import benchmarking

    from weft.graph.groups import cuda_measure

    _do_alone(cuda_measure, "_seconds")
    for kind in [k for k in vars(benchmarking).values() if isinstance(k, type) and "benchmark_gpu" in vars(k)]:
        _do_alone(kind, "benchmark_gpu")


def _do_alone(owner: Any, name: str) -> None:
    function: Callable[..., Any] = getattr(owner, name)

    @functools.wraps(function)
    def run(*args: Any, **named: Any) -> Any:
        with alone():
            return function(*args, **named)

    setattr(owner, name, run)
