"""What a call costs beyond its work: 64 elements, against numpy and torch in the same run.

    python bench/call_overhead.py [--repeat 9] [--max-numpy-us 1.0] [--max-torch-us 1.5] [--max-cuda-us 5]

Each row is the least of several repeats, rows interleaved, so that a busy machine slows all alike.
With a limit given, the exit status says whether it holds.
"""

from __future__ import annotations

import argparse
import timeit
from collections.abc import Callable
from typing import Any

import numpy as np

import weft

SOURCE = """
def add(float(N) A, float(N) B) -> (C) {
    C(n) = A(n) + B(n)
}"""


def numpy_rows(op: Any) -> dict[str, Callable[[], Any]]:
    a, b, c = (np.random.rand(64).astype(np.float32) for _ in range(3))
    return {
        "weft, numpy, out=": lambda: op(a, b, out=c),
        "weft, numpy": lambda: op(a, b),
        "numpy.add, out=": lambda: np.add(a, b, out=c),
        "numpy.add": lambda: np.add(a, b),
    }


def torch_rows(op: Any) -> dict[str, Callable[[], Any]]:
    try:
        import torch
    except ImportError:
        return {}
    a, b, c = (torch.rand(64) for _ in range(3))
    return {
        "weft, torch, out=": lambda: op(a, b, out=c),
        "weft, torch": lambda: op(a, b),
        "torch.add, out=": lambda: torch.add(a, b, out=c),
        "torch.add": lambda: torch.add(a, b),
    }


def cuda_rows(op: Any) -> dict[str, Callable[[], Any]]:
    """What a launch costs the caller; nobody waits for the GPU, which is quicker."""
    if not weft.cuda.is_available():
        return {}
    import torch

    a, b, c = (torch.rand(64, device="cuda") for _ in range(3))
    return {
        "weft, cuda, out=": lambda: op(a, b, out=c),
        "weft, cuda": lambda: op(a, b),
        "torch.add, cuda, out=": lambda: torch.add(a, b, out=c),
        "torch.add, cuda": lambda: torch.add(a, b),
    }


def measure(rows: dict[str, Callable[[], Any]], repeat: int, number: int = 20000) -> dict[str, float]:
    """Microseconds a call, without what calling the lambda costs."""
    empty = min(timeit.repeat(lambda: None, number=number, repeat=repeat)) / number
    for run in rows.values():
        for _ in range(100):
            run()
    best = dict.fromkeys(rows, float("inf"))
    for _ in range(repeat):
        for name, run in rows.items():
            best[name] = min(best[name], timeit.timeit(run, number=number) / number)
    return {name: (seconds - empty) * 1e6 for name, seconds in best.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeat", type=int, default=9)
    parser.add_argument("--max-numpy-us", type=float, default=float("inf"))
    parser.add_argument("--max-torch-us", type=float, default=float("inf"))
    parser.add_argument("--max-cuda-us", type=float, default=float("inf"))
    parser.add_argument("--only", choices=("cpu", "cuda"), help="rows of one target")
    options = parser.parse_args()
    op = weft.define(SOURCE)
    rows = {} if options.only == "cuda" else numpy_rows(op) | torch_rows(op)
    rows |= {} if options.only == "cpu" else cuda_rows(op)
    times = measure(rows, options.repeat)
    for name, micros in times.items():
        print(f"{name:<21} {micros:7.3f} us")
    limits = {
        "weft, numpy, out=": options.max_numpy_us,
        "weft, torch, out=": options.max_torch_us,
        "weft, cuda, out=": options.max_cuda_us,
    }
    return int(any(times.get(name, 0.0) > limit for name, limit in limits.items()))


if __name__ == "__main__":
    raise SystemExit(main())
