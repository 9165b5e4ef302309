"""GPU kernels on the CPU, against plain OpenMP C: ``python -m bench.gpu_on_cpu [--write] [name ...]``.

The loop programs of examples/kernels, written for a GPU, are compiled for this CPU; the same work is done by
bench/gpu_on_cpu.c, written as one would for a CPU, compiled by ``gcc -O3 -march=native -fopenmp``. The two take turns.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import weft
from bench.schedules import geomean, machine
from weft.ir.buffer import Buffer
from weft.ir.expr import Const, Var, idx
from weft.ir.parser import parse_kernel
from weft.ir.simplify import simplify
from weft.ir.stmt import Kernel
from weft.ir.visit import substitute
from weft.runtime.kernel import load_kernel
from weft.target.cpu.lower import compile_kernel

ROOT = Path(__file__).resolve().parent.parent
FLAGS = ("-O3", "-march=native", "-fopenmp", "-fPIC", "-shared", "-std=c11")
Array = Any


@dataclass(frozen=True)
class Case:
    """A kernel at some sizes; the C function may need arrays of its own after the arguments, by shape."""

    kernel: str
    numbers: dict[str, float]
    scratch: tuple[tuple[str, ...], ...] = ()

    @property
    def name(self) -> str:
        sizes = [str(v) for v in self.numbers.values() if isinstance(v, int)]
        return f"{self.kernel} {'x'.join(sizes)}"


HEAT = {"step": 0.1, "rx": 0.1, "ry": 0.1, "rz": 0.05}
CASES = [
    Case("backprop", {"n": 65536, "eta": 0.3, "momentum": 0.3}),
    Case("backprop", {"n": 50003, "eta": 0.3, "momentum": 0.3}),
    Case("hotspot", {"h": 1024, "w": 1024, **HEAT}, (("h", "w"),)),
    Case("hotspot", {"h": 509, "w": 1283, **HEAT}, (("h", "w"),)),
    Case("lud", {"n": 32}),
    Case("lud", {"n": 45}),
    Case("needle", {"n": 64, "penalty": 10}),
    Case("needle", {"n": 101, "penalty": 10}),
    Case("pathfinder", {"rows": 6, "n": 100000}, (("n",), ("n",))),
    Case("pathfinder", {"rows": 6, "n": 77777}, (("n",), ("n",))),
    Case("srad", {"h": 1024, "w": 1024, "q0": 0.05, "rate": 0.5}),
    Case("srad", {"h": 509, "w": 1283, "q0": 0.05, "rate": 0.5}),
]


@dataclass
class Result:
    name: str
    threads: int
    weft_ms: float
    c_ms: float
    notes: list[str] = field(default_factory=list)

    @property
    def ratio(self) -> float:
        return self.c_ms / self.weft_ms


def arguments(case: Case, rng: np.random.Generator) -> list[Any]:
    """Numbers and arrays in the order of the kernel's parameters."""
    program = _program(case)
    sizes = {Var(name): idx(v) for name, v in case.numbers.items() if isinstance(v, int)}
    made: list[Any] = []
    for p in program.params:
        if not isinstance(p, Buffer):
            made.append(case.numbers[p.name])
            continue
        found = [simplify(substitute(e, sizes)) for e in p.shape]
        shape = [int(e.value) for e in found if isinstance(e, Const)]
        made.append(_random(rng, p, shape, well_conditioned=case.kernel == "lud"))
    return made


def _random(rng: np.random.Generator, p: Buffer, shape: list[int], *, well_conditioned: bool) -> Array:
    if p.dtype.is_integer:
        return rng.integers(-10, 11, shape).astype(np.int32)
    values = rng.random(shape, np.float32) + np.float32(0.5)
    return values + np.float32(shape[0]) * np.eye(shape[0], dtype=np.float32) if well_conditioned else values


def compile_c() -> ctypes.CDLL:
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "gpu_on_cpu.so"
        subprocess.run(["gcc", *FLAGS, str(ROOT / "bench" / "gpu_on_cpu.c"), "-o", str(made)], check=True)
        return ctypes.CDLL(str(made))


def c_call(library: ctypes.CDLL, case: Case, args: list[Any]) -> Callable[[], None]:
    function = getattr(library, case.kernel)
    function.restype = None
    kept = [_aligned(np.zeros([int(case.numbers[n]) for n in shape], _dtype(args))) for shape in case.scratch]
    passed = [_as_c(v, p.name) for v, p in zip(args, _program(case).params)] + [_as_c(a, "") for a in kept]
    return lambda: (function(*passed), kept)[0]


def _dtype(args: list[Any]) -> Any:
    return next(a.dtype for a in reversed(args) if isinstance(a, np.ndarray))


def _as_c(value: Any, name: str) -> Any:
    if isinstance(value, np.ndarray):
        return ctypes.c_void_p(value.ctypes.data)
    if isinstance(value, float):
        return ctypes.c_float(value)
    return ctypes.c_int(value) if name == "penalty" else ctypes.c_long(value)


def weft_call(case: Case, args: list[Any]) -> Callable[[], None]:
    """The machine code itself, called as the C function is; what `weft.kernel` checks at a call is not compared."""
    program = _program(case)
    made = compile_kernel(program, fast=True)
    params = [None if isinstance(p, Buffer) else p.dtype for p in program.params]
    loaded = load_kernel(made.object, made.entry, params, made.messages)
    values = [a.ctypes.data if isinstance(a, np.ndarray) else a for a in args]
    return lambda: loaded.run(values)


def _program(case: Case) -> Kernel:
    return parse_kernel((ROOT / "examples" / "kernels" / f"{case.kernel}.loops").read_text(), case.kernel)


def compare(case: Case, library: ctypes.CDLL, threads: int, budget: float) -> Result:
    """Both on the same data, started anew from copies before each turn where they work in place."""
    start = arguments(case, np.random.default_rng(0))
    ours, theirs = ([_aligned(a) if isinstance(a, np.ndarray) else a for a in start] for _ in range(2))
    calls = {"weft": (weft_call(case, ours), ours), "c": (c_call(library, case, theirs), theirs)}
    for call, _ in calls.values():
        call()
    notes = [] if _agree(ours, theirs) else ["results differ"]
    taken: dict[str, list[float]] = {"weft": [], "c": []}
    end = time.perf_counter() + budget
    while time.perf_counter() < end or len(taken["c"]) < 5:
        for name, (call, args) in calls.items():
            for array, first in zip(args, start):
                if isinstance(array, np.ndarray):
                    array[...] = first
            clock = time.process_time if threads == 1 else time.perf_counter
            before = clock()
            call()
            taken[name].append(clock() - before)
    # With other work on the machine a call of two threads waits for whoever is not running: the best of ten counts.
    middle = (
        statistics.median if threads == 1 else lambda times: statistics.quantiles(times, n=10, method="inclusive")[0]
    )
    weft_s, c_s = (middle(taken[name]) for name in ("weft", "c"))
    return Result(case.name, threads, weft_s * 1e3, c_s * 1e3, notes)


def _aligned(array: Array) -> Array:
    """A copy that starts at a cache line, as what allocators for vectors give."""
    memory = np.empty(array.nbytes + 64, np.uint8)
    start = -memory.ctypes.data % 64
    copy = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def _agree(ours: list[Any], theirs: list[Any]) -> bool:
    arrays = [(a, b) for a, b in zip(ours, theirs) if isinstance(a, np.ndarray)]
    return all(np.allclose(a, b, rtol=2e-3, atol=1e-3) for a, b in arrays)


def table(results: list[Result]) -> str:
    lines = ["| kernel | threads | weft, ms | C, ms | ratio |", "|---|---|---|---|---|"]
    for r in results:
        lines.append(f"| {r.name} | {r.threads} | {r.weft_ms:.3f} | {r.c_ms:.3f} | {r.ratio:.2f} |")
    ratios = [r.ratio for r in results]
    lines.append(f"| geometric mean | | | | {geomean(ratios):.2f} |")
    return "\n".join(lines)


def write(results: list[Result]) -> None:
    text = f"""# GPU kernels on the CPU

The loop programs of `examples/kernels`, written for a GPU with blocks, threads, shared memory and barriers, compiled
for this CPU, against the same work in plain C with OpenMP (`bench/gpu_on_cpu.c`, `gcc {" ".join(FLAGS[:3])}`).
Interleaved runs; a ratio above 1 says that the loop program is faster. With one thread: the median of the processor's
time. With two: the clock's time that one run of ten stays below, since the machine had other work to do.

{machine()}

{table(results)}

`python -m bench.gpu_on_cpu --write`
"""
    (ROOT / "docs" / "bench-gpu-on-cpu.md").write_text(text, encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--seconds", type=float, default=1.5, help="for each row")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    if shutil.which("gcc") is None:
        print("there is no gcc to compare with", file=sys.stderr)
        return 1
    library = compile_c()
    results: list[Result] = []
    for threads in options.threads:
        weft.set_num_threads(threads)
        library.omp_set_num_threads(threads)
        for case in CASES:
            if not options.names or any(name in case.name for name in options.names):
                results.append(compare(case, library, threads, options.seconds))
                r = results[-1]
                print(
                    f"{r.name:<24} {threads} {r.weft_ms:9.3f} {r.c_ms:9.3f} {r.ratio:6.2f} {' '.join(r.notes)}",
                    flush=True,
                )
    print(f"geometric mean {geomean([r.ratio for r in results]):.2f}")
    if options.write:
        write(results)
    return 0


if __name__ == "__main__":
    os.environ.setdefault("OMP_PROC_BIND", "false")
    sys.exit(main())
