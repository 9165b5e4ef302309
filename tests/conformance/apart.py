"""Runs tests in other processes: one that crashes or hangs does not take the others with it."""

from __future__ import annotations

import multiprocessing
import os
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any


def warm_up(dynamo: bool = False) -> None:
    """Loads and runs here, on one thread, what else every forked process would load again: 3 s each."""
    import torch

    import weft
    from weft.graph.from_torch import backend

    torch.set_num_threads(1)
    weft.set_num_threads(1)
    x = torch.randn(3, 4)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        weft.compile(_warm, (x,))(x)
        if dynamo:
            backend.register()
            torch.compile(_warm, backend="weft")(x)
            torch._dynamo.reset()


def _warm(x: Any) -> Any:
    return (x @ x.mT).softmax(-1) + 1


def run_apart(fn: Callable[..., Any], *args: Any, limit: float) -> tuple[str, Any]:
    """``("done", result)``, or ``hang`` or ``crash`` and why, of a call in a forked process."""
    [found] = run_all_apart(fn, [args], limit=limit)
    return found


def run_all_apart(
    fn: Callable[..., Any], items: Sequence[tuple[Any, ...]], *, limit: float, each: int = 50
) -> Iterator[tuple[str, Any]]:
    """The same for a call with each of ``items``, in order, as they end; up to ``each`` of them share a process.

    What torch and Weft load and learn in their first calls costs more than most calls here. Who crashes or hangs takes
    none of the others with it. ``limit`` is of the process's own time, as on a busy machine it waits, and ten times as
    much by the clock.
    """
    place = 0
    while place < len(items):
        for found in _run_batch(fn, items[place : place + each], limit):
            yield found
            place += 1


def _run_batch(fn: Callable[..., Any], batch: Sequence[tuple[Any, ...]], limit: float) -> Iterator[tuple[str, Any]]:
    """Of one process, until it ends, crashes or hangs."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_child, args=(fn, batch, theirs))
    process.start()
    theirs.close()
    try:
        for _ in batch:
            if not _comes(ours, process.pid, limit):
                yield "hang", f"no end after {limit:.0f} s"
                return
            yield "done", ours.recv()
    except EOFError:
        process.join(5)
        yield "crash", f"exit code {process.exitcode}"
    finally:
        process.kill()
        process.join()


def _comes(pipe: Any, pid: int | None, limit: float) -> bool:
    """Whether something comes before a process has had its time."""
    start, spent = time.monotonic(), _seconds_of(pid)
    while not pipe.poll(1.0):
        if _seconds_of(pid) - spent > limit or time.monotonic() - start > 10 * limit:
            return False
    return True


def _seconds_of(pid: int | None) -> float:
    """Of processor time that a process had so far."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:  # ended; or a system that tells otherwise, where the clock is left
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _child(fn: Callable[..., Any], batch: Sequence[tuple[Any, ...]], pipe: Any) -> None:
    import torch

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    for args in batch:
        pipe.send(fn(*args))
