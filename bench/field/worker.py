"""One peer in a process of its own: prepares workloads and times calls when told to.

Commands and answers are lines of JSON on two pipes given by number; what libraries print goes to standard error.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import json
import os
import signal
import sys
import time
from typing import Any, TextIO

import numpy as np

from bench.field.clock import now
from bench.field.peers import Array, Call, Cannot, PeerModule, Prepared
from bench.field.statistics import relative_error
from bench.field.workloads import Workload

#: Errors above this are wrong answers; float32 sums of thousands of terms stay well below.
TOLERANCE = 2e-4
#: A sample takes at least this long, so that reading the clock does not show.
_SAMPLE_S = 20e-6
_PR_SET_PDEATHSIG = 1


class Worker:
    def __init__(self, module: str, registry: str, threads: int, cores: list[int]) -> None:
        self.threads, self.cores = threads, cores
        self.all_cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, cores)  # before the import: libraries count the cores they may use
        peer: Any = importlib.import_module(module)
        self.peer: PeerModule = peer
        self.registry = importlib.import_module(registry)
        self.prepared: Prepared | None = None
        self.inputs: dict[str, Array] = {}

    def answer(self, command: dict[str, Any]) -> dict[str, Any]:
        if command["do"] == "prepare":
            return self.prepare(command)
        if command["do"] == "time":
            return self.time(command["way"], command["seconds"])
        return {"version": self.peer.version()}

    def prepare(self, command: dict[str, Any]) -> dict[str, Any]:
        """Compiles, computes once, and says how far that is from what is right."""
        workload: Workload = self.registry.find_workload(command["family"], command["sizes"])
        self.prepared = None
        if not command["alone"]:
            pin_threads(self.all_cores)  # compilers of others may use all cores
        try:
            self.inputs = workload.inputs(command["seed"])  # kept: some peers only remember where they are
            prepared = self.peer.prepare(workload, self.inputs, self.threads)
            start = now()
            results = prepared.results()
            took = now() - start
            error = _error(results, command["reference"])
        except Cannot as why:
            return {"reason": str(why)}
        except Exception as fault:
            first = "".join(str(fault).strip().splitlines()[:1])
            return {"reason": f"{type(fault).__name__}: {first}"[:300]}
        finally:
            pin_threads(self.cores)
        if error > TOLERANCE:
            return {"reason": f"wrong result: relative error {error:.1e}", "wrong": True}
        self.prepared = prepared
        once = {way: _once(call) if took < 0.5 else took for way, call in prepared.calls.items()}
        forget_peak()
        return {"ways": once, "seconds": prepared.seconds, "facts": prepared.facts, "error": error}

    def time(self, way: str, seconds: float) -> dict[str, Any]:
        assert self.prepared is not None
        return {"times": take_turn(self.prepared.calls[way], seconds), "peak": peak_bytes()}


def _error(results: tuple[Array, ...], reference: str) -> float:
    with np.load(reference) as right:
        wanted = [right[name] for name in right.files]
    return max(relative_error(got, want) for got, want in zip(results, wanted, strict=False))


def _once(call: Call) -> float:
    start = now()
    call()
    return now() - start


def take_turn(call: Call, seconds: float) -> list[float]:
    """Seconds a call, sampled for about ``seconds`` after some calls that warm caches and threads up."""
    once = _once(call)
    warm_until = time.perf_counter() + 0.2 * seconds
    while time.perf_counter() < warm_until:
        once = min(once, _once(call))
    count = max(1, int(_SAMPLE_S / max(once, 1e-8)))
    samples: list[float] = []
    end = time.perf_counter() + seconds
    while not samples or time.perf_counter() < end:
        start = now()
        for _ in range(count):
            call()
        samples.append((now() - start) / count)
    return samples


def forget_peak() -> None:
    """From here on, the most memory is counted anew."""
    with contextlib.suppress(OSError), open("/proc/self/clear_refs", "w") as refs:
        refs.write("5")


def peak_bytes() -> int:
    """The most memory this process had at once."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) << 10 for line in status if line.startswith("VmHWM:"))


def pin_threads(cores: list[int]) -> None:
    """Every thread of this process on ``cores``."""
    for thread in os.listdir("/proc/self/task"):
        try:
            os.sched_setaffinity(int(thread), cores)
        except OSError:  # it ended in the meantime
            continue


def end_with_parent() -> None:
    """Asks the system to end this process with its parent: one that stands still would never notice."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def main(module: str, registry: str, threads: str, cores: str, commands: str, answers: str) -> None:
    end_with_parent()
    reading: TextIO = os.fdopen(int(commands))
    writing: TextIO = os.fdopen(int(answers), "w")
    worker = Worker(module, registry, int(threads), [int(c) for c in cores.split(",")])
    for line in reading:
        print(json.dumps(worker.answer(json.loads(line))), file=writing, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
