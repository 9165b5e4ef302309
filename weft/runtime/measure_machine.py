"""What this machine does in a second, measured with small loop programs of our own.

Each program is compiled by the CPU target like any other; the best of a few runs counts, since other work on the
machine only ever makes a run slower, and what runs on one thread is timed by that thread's own clock. All of it takes
about a second: `measure_machine` is called by ``weft machine --measure`` and never on its own.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from weft.ir.dtype import DType
from weft.ir.expr import Var
from weft.ir.parser import parse_kernel
from weft.runtime.kernel import LoadedKernel, load_kernel
from weft.runtime.threads import get_num_threads
from weft.target.cpu.host import Machine, host_machine
from weft.target.cpu.lower import compile_kernel
from weft.target.cpu.machine_model import Level, MachineModel, assume_model

#: Seconds that one run should take at least, and that all runs of one program, of which the best counts, may take.
LONG_ENOUGH, PATIENCE = 3e-4, 15e-3
#: Fewest runs, however long each takes.
FEWEST_RUNS = 4
#: Parallel loops that are started one after another, and seconds to do so again and again; part of the time of all
#: threads that must be theirs.
STARTS, START_PATIENCE, ALL_PRESENT = 1000, 0.1, 0.9
#: Cycles of a 64-bit multiplication on every processor of the last ten years: what cycles are counted with.
MULTIPLY_CYCLES = 3
#: Bytes that surely are in memory, and no cache.
MOST_MEMORY = 256 << 20

_CHAIN = """kernel chain(times: int64, x: int64, out y: int64[1]) {
  let c: int64 = x { for i in 0:times { c = c * x } y[0] = c } }"""
_SUMS = """kernel sums(times: int64, a: float32[$lanes], out y: float32[$sums, $lanes]) {
  alloc s: float32[$sums, $lanes] in register {
    unroll c in 0:$sums { vector l in 0:$lanes { s[c, l] = 0.0 } }
    for i in 0:times { unroll c in 0:$sums { vector l in 0:$lanes { s[c, l] = $step } } }
    unroll c in 0:$sums { vector l in 0:$lanes { y[c, l] = s[c, l] } } } }"""
_READ = """kernel read(times: int64, n: int64, x: float32[$parts, n, 8, $lanes], out y: float32[$parts, 8, $lanes]) {
  parallel p in 0:$parts {
    alloc s: float32[8, $lanes] in register {
      unroll c in 0:8 { vector l in 0:$lanes { s[c, l] = 0.0 } }
      for t in 0:times { for i in 0:n { unroll c in 0:8 { vector l in 0:$lanes {
        s[c, l] = s[c, l] + x[p, i, c, l] } } } }
      unroll c in 0:8 { vector l in 0:$lanes { y[p, c, l] = s[c, l] } } } } }"""
_WRITE = """kernel write(times: int64, n: int64, out x: float32[$parts, n, 8, $lanes]) {
  parallel p in 0:$parts { for t in 0:times { $hint for i in 0:n { unroll c in 0:8 { vector l in 0:$lanes {
    x[p, i, c, l] = 0.0 } } } } } }"""
_HINT = "call stream(&x[p, 0, 0, 0])"
_START = """kernel start(times: int64, out y: float32[$parts, 16]) {
  for t in 0:times { parallel p in 0:$parts { y[p, 0] = 1.0 } } }"""


@dataclass
class Bench:
    """Compiles and times the programs for one machine."""

    machine: Machine
    clock: Callable[[], float] = time.thread_time

    def load(self, text: str, **sizes: object) -> LoadedKernel:
        for name, value in {"lanes": self.machine.lanes(32), **sizes}.items():
            text = text.replace(f"${name}", str(value))
        kernel = parse_kernel(text)
        made = compile_kernel(kernel, self.machine)
        params: list[DType | None] = [p.type if isinstance(p, Var) else None for p in kernel.params]
        return load_kernel(made.object, made.entry, params, made.messages)

    def seconds(self, kernel: LoadedKernel, *args: int) -> float:
        """The time of one of the ``times`` a kernel does its work, by the best of some runs."""
        times = 1
        took = self._timed(kernel, times, args)
        while took < LONG_ENOUGH and times < 1 << 40:
            times = max(2 * times, int(1.5 * times * LONG_ENOUGH / max(took, 1e-7)))
            took = self._timed(kernel, times, args)
        runs = max(FEWEST_RUNS, int(PATIENCE / took))
        return min(self._timed(kernel, times, args) for _ in range(runs)) / times

    def _timed(self, kernel: LoadedKernel, times: int, args: tuple[int, ...]) -> float:
        start = self.clock()
        kernel.run((times, *args))
        return self.clock() - start


def measure_machine(machine: Machine | None = None) -> MachineModel:
    """The model of this host with everything measured that can be."""
    machine = machine or host_machine()
    bench = Bench(machine)
    figures = _core_figures(bench)
    model = assume_model(machine).with_measured(figures)
    memory = _touched(_working_set(model, model.memory, model.threads))
    figures |= _rates(bench, model, memory, 1)
    figures |= _usable(bench, model, memory, figures)
    figures |= {
        f"{level.name}.{rate}_all": model.cores * figures[f"{level.name}.{rate}"]
        for level in model.levels
        for rate in ("read", "write")
        if level.shared_by == 1
    }
    if model.threads > 1:
        bench = Bench(machine, time.perf_counter)
        together = _rates(bench, model, memory, model.threads)
        figures |= {name: max(rate, figures[name.removesuffix("_all")]) for name, rate in together.items()}
        started = _start_seconds(bench, model.threads)
        figures |= {} if started is None else {"parallel_start": started}
    return model.with_measured(figures)


def _core_figures(bench: Bench) -> dict[str, float]:
    """Frequency, and multiply-adds a cycle: one chain of them shows how long each takes, many how many overlap."""
    result = np.zeros(1, np.int64)
    hertz = MULTIPLY_CYCLES / bench.seconds(bench.load(_CHAIN), 3, result.ctypes.data)
    lanes = bench.machine.lanes(32)
    step = "fma(s[c, l], a[l], a[l])" if bench.machine.has_fma else "s[c, l] * a[l] + a[l]"
    few, many = np.zeros(lanes, np.float32), np.zeros((12, lanes), np.float32)

    def cycles(sums: int) -> float:
        kernel = bench.load(_SUMS, sums=sums, step=step)
        return bench.seconds(kernel, few.ctypes.data, many.ctypes.data) * hertz

    return {"frequency": hertz, "fma_latency": round(cycles(1), 1), "fma_units": round(12 / cycles(12), 2)}


def _rates(bench: Bench, model: MachineModel, memory: np.ndarray, threads: int) -> dict[str, float]:
    """Bytes a second from and to each level, or, with several threads, each level that they share."""
    used = min(threads, get_num_threads())
    step = 32 * model.lanes(32)
    read, write = (bench.load(text, parts=used, hint="") for text in (_READ, _WRITE))
    sums = np.zeros((used, 8, model.lanes(32)), np.float32)
    figures = {}
    suffix = "" if threads == 1 else "_all"
    for level in model.levels:
        steps = _working_set(model, level, used) // used // step
        if threads == 1 or level.shared_by > 1:
            took = bench.seconds(read, steps, memory.ctypes.data, sums.ctypes.data)
            figures[f"{level.name}.read{suffix}"] = used * steps * step / took
            figures[f"{level.name}.write{suffix}"] = (
                used * steps * step / bench.seconds(write, steps, memory.ctypes.data)
            )
    if threads == 1:
        past = bench.load(_WRITE, parts=1, hint=_HINT)
        figures["stream"] = steps * step / bench.seconds(past, steps, memory.ctypes.data)
    return figures


def _usable(bench: Bench, model: MachineModel, memory: np.ndarray, rates: Mapping[str, float]) -> dict[str, float]:
    """Of each shared cache, the largest part that is read as fast from it as less is."""
    step = 32 * model.lanes(32)
    read = bench.load(_READ, parts=1)
    sums = np.zeros((1, 8, model.lanes(32)), np.float32)
    figures: dict[str, float] = {}
    for level in (v for v in model.levels[:-1] if v.shared_by > 1):
        best = 0.0
        for eighths in range(1, 9):
            size = level.size * eighths // 8
            rate = size / bench.seconds(read, size // step, memory.ctypes.data, sums.ctypes.data)
            best = max(best, rate)
            if eighths > 1 and rate < math.sqrt(best * rates["memory.read"]):
                break
            figures[f"{level.name}.usable"] = size
    return figures


def _working_set(model: MachineModel, level: Level, threads: int) -> int:
    """Bytes that ``threads`` together work on so that they come from ``level`` and from nowhere nearer."""
    nearer = [v.size for v in model.levels[: model.levels.index(level)]]
    most = level.size * max(1, threads // level.shared_by) // 2 if level.size else MOST_MEMORY
    if level is model.memory:
        return min(most, 4 * max(nearer))
    return max(most, 2 * max(nearer, default=0) * threads)


def _touched(size: int) -> np.ndarray:
    """Memory that is really there, on a page boundary."""
    room = np.ones(size // 4 + 1024, np.float32)
    start = -room.ctypes.data % 4096 // 4
    return room[start : start + size // 4]


def _start_seconds(bench: Bench, threads: int) -> float | None:
    """From one parallel loop that does next to nothing to the next; None where other work left no core for it.

    A thread that comes late finds its part done, and the loop is over sooner than it should: runs count in which all
    threads ran all the time.
    """
    out = np.zeros((threads, 16), np.float32)
    kernel = bench.load(_START, parts=threads)
    times: list[float] = []
    end = time.perf_counter() + START_PATIENCE
    while time.perf_counter() < end:
        worked, start = time.process_time(), time.perf_counter()
        kernel.run((STARTS, out.ctypes.data))
        took = time.perf_counter() - start
        if time.process_time() - worked > ALL_PRESENT * threads * took:
            times.append(took / STARTS)
    return statistics.median(times) if times else None
