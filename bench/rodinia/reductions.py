"""``python -m bench.rodinia.reductions [--threads 1 2] [--only tree scan] [--elements 16777216] [--runs 9]``.

Reductions and scans by blocks of CUDA threads (`reductions.cu`), as whole grids here, against the loops a C programmer
writes for them (`reductions.c`, gcc with ``-O3 -march=native -ffast-math -fopenmp``): medians of runs in turns, in
seconds of the processor for one thread and of the clock for more. Results are compared with numpy's in double.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
BLOCK, COLUMNS = 256, 1024


@dataclass(frozen=True, slots=True)
class Case:
    """A kernel: elements of a block, the loop that stands for it, its result by numpy, and what else it takes."""

    per_block: int
    peer: Callable[[Any, Any, Any, Any, int], None]
    reference: Callable[[Any, int], Any]
    blocks: int | None = None
    shared: int = 0
    columns: int = 0
    two: bool = False
    type: type = np.float32


def _address(a: Any) -> Any:
    return a.ctypes.data_as(ctypes.c_void_p)


def _by_blocks(name: str, *more: int) -> Callable[[Any, Any, Any, Any, int], None]:
    def run(c: Any, x: Any, y: Any, out: Any, size: int) -> None:
        getattr(c, name)(_address(x), _address(out), x.size // size, size, *more)

    return run


def _total(c: Any, x: Any, y: Any, out: Any, size: int) -> None:
    c.total(_address(x), x.size)


def _dot(c: Any, x: Any, y: Any, out: Any, size: int) -> None:
    c.dot(_address(x), _address(y), x.size)


def _softmax(x: Any, size: int) -> Any:
    e = np.exp(x.reshape(-1, size) - x.reshape(-1, size).max(1, keepdims=True))
    return (e / e.sum(1, keepdims=True)).ravel()


def _layernorm(x: Any, size: int) -> Any:
    d = x.reshape(-1, size) - x.reshape(-1, size).mean(1, keepdims=True)
    return (d / np.sqrt((d * d).mean(1, keepdims=True) + 1e-5)).ravel()


def _sums(x: Any, size: int) -> Any:
    return x.reshape(-1, size).sum(1)


def _scan(x: Any, size: int) -> Any:
    return np.cumsum(x.reshape(-1, size), 1).ravel()


def _scan_before(x: Any, size: int) -> Any:
    return (np.cumsum(x.reshape(-1, size), 1) - x.reshape(-1, size)).ravel()


_SUMS = Case(BLOCK, _by_blocks("sums"), _sums)
CASES: dict[str, Case] = {
    "tree": _SUMS,
    "interleaved": _SUMS,
    "strided": Case(BLOCK, _by_blocks("sums"), _sums, shared=4 * BLOCK),
    "written_out": Case(BLOCK, _total, lambda x, size: x.sum(), blocks=64),
    "shuffles": _SUMS,
    "butterfly": Case(32, _by_blocks("sums"), _sums),
    "groups": _SUMS,
    "cub_sum": _SUMS,
    "dot": Case(BLOCK, _dot, lambda x, size: (x * x).sum(), blocks=64, two=True),
    "largest": Case(BLOCK, _by_blocks("largest"), lambda x, size: x.reshape(-1, size).max(1), type=np.int32),
    "softmax": Case(COLUMNS, _by_blocks("softmax"), _softmax, columns=COLUMNS),
    "layernorm": Case(COLUMNS, _by_blocks("layernorm"), _layernorm, columns=COLUMNS),
    "warp_rows": Case(COLUMNS, _by_blocks("sums"), _sums, columns=COLUMNS),
    "scan": Case(BLOCK, _by_blocks("scans", 0), _scan),
    "shuffled_scan": Case(BLOCK, _by_blocks("scans", 0), _scan),
    "work_efficient_scan": Case(2 * BLOCK, _by_blocks("scans", 1), _scan_before),
}


def _peer(folder: Path) -> Any:
    library = folder / "reductions.so"
    flags = ["-O3", "-march=native", "-ffast-math", "-fopenmp", "-shared", "-fPIC"]
    subprocess.run(["gcc", *flags, str(HERE / "reductions.c"), "-o", str(library), "-lm"], check=True)
    loaded = ctypes.CDLL(str(library))
    loaded.total.restype = loaded.dot.restype = ctypes.c_float
    return loaded


def _grid(name: str, case: Case, elements: int) -> int:
    if case.blocks is not None:
        return case.blocks
    if name == "warp_rows":
        return elements // (case.columns * BLOCK // 32)
    return elements // max(case.per_block, BLOCK)


def measure(name: str, case: Case, c: Any, elements: int, runs: int, clock: Callable[[], float]) -> tuple[float, float]:
    """Median seconds of ours and of gcc's."""
    import weft

    x = (np.random.default_rng(0).random(elements) * 100).astype(case.type)
    ours, theirs = np.zeros(elements, case.type), np.zeros(elements, case.type)
    kernel = weft.cuda.kernel(str(HERE / "reductions.cu"), name)
    given = (x, x, ours) if case.two else (x, ours)
    grid = (_grid(name, case, elements),)

    def run_ours() -> None:
        kernel(grid, (BLOCK,), (*given, case.columns or elements), shared_mem=case.shared)

    def run_theirs() -> None:
        case.peer(c, x, x, theirs, case.per_block)

    run_ours()
    right = np.asarray(case.reference(x.astype(np.float64) if case.type is np.float32 else x, case.per_block))
    got = ours[: case.blocks].astype(np.float64).sum() if case.blocks else ours[: right.size]
    np.testing.assert_allclose(got, right, rtol=2e-4, atol=1e-4)
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(runs):
        for took, run in zip(times, (run_ours, run_theirs)):
            start = clock()
            run()
            took.append(clock() - start)
    return statistics.median(times[0]), statistics.median(times[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, nargs="*", default=[1])
    parser.add_argument("--only", nargs="*", default=list(CASES), choices=list(CASES))
    parser.add_argument("--elements", type=int, default=1 << 24)
    parser.add_argument("--runs", type=int, default=9)
    options = parser.parse_args()
    for threads in options.threads:
        if os.environ.get("WEFT_NUM_THREADS") != str(threads):
            flags = ["--threads", str(threads), "--elements", str(options.elements), "--runs", str(options.runs)]
            limits = {"WEFT_NUM_THREADS": str(threads), "OMP_NUM_THREADS": str(threads)}
            command = [sys.executable, "-m", "bench.rodinia.reductions", *flags, "--only", *options.only]
            subprocess.run(command, env={**os.environ, **limits}, check=True)
            continue
        clock = time.process_time if threads == 1 else time.perf_counter
        with tempfile.TemporaryDirectory() as folder:
            c = _peer(Path(folder))
            ratios = []
            for name in options.only:
                ours, gcc = measure(name, CASES[name], c, options.elements, options.runs, clock)
                ratios.append(gcc / ours)
                text = f"{name:20s} {threads} threads: {ours * 1e3:7.2f} ms, gcc {gcc * 1e3:7.2f} ms, {gcc / ours:.2f}"
                print(text, flush=True)
            print(f"geometric mean, {threads} threads: {statistics.geometric_mean(ratios):.2f}", flush=True)


if __name__ == "__main__":
    main()
