"""Math functions on arrays, against torch in the same run on one thread.

    python bench/vector_math.py [exp log ...] [--size 1048576] [--rounds 31] [--dtype float32] [--min-ratio 1.0]

Times are medians of interleaved rounds; `ratio` is torch's time over ours (above 1: we are faster). With
--min-ratio the exit status says whether every function of the list reaches it.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import weft

#: name: our right-hand side, torch's function of the same name unless given, and the arguments' range.
POSITIVE, ANY, UNIT = (1e-3, 20.0), (-10.0, 10.0), (-0.99, 0.99)
FUNCTIONS: dict[str, tuple[str, Callable[..., Any] | None, tuple[float, float]]] = {
    **{name: (f"{name}(A(n))", None, ANY) for name in ("exp", "tanh", "erf", "sin", "cos", "sigmoid")},
    **{name: (f"{name}(A(n))", None, POSITIVE) for name in ("log", "rsqrt", "sqrt", "log2", "log10", "log1p")},
    **{name: (f"{name}(A(n))", None, ANY) for name in ("exp2", "expm1", "tan", "atan", "sinh", "cosh", "asinh")},
    **{name: (f"{name}(A(n))", None, UNIT) for name in ("asin", "acos", "atanh")},
    **{name: (f"{name}(A(n))", None, ANY) for name in ("erfc", "lgamma", "floor", "abs")},
    "acosh": ("acosh(A(n))", None, (1.0, 20.0)),
    "pow": ("pow(A(n), B(n))", None, POSITIVE),
    "atan2": ("atan2(A(n), B(n))", None, ANY),
    "hypot": ("hypot(A(n), B(n))", None, ANY),
    "fmod": ("fmod(A(n), B(n))", None, ANY),
    "gelu": ("0.5 * A(n) * (1 + erf(A(n) * 0.70710678))", torch._C._nn.gelu, ANY),
    "silu": ("A(n) * sigmoid(A(n))", torch._C._nn.silu, ANY),
}


def compile_ours(name: str, dtype: str) -> Any:
    formula = FUNCTIONS[name][0]
    element = {"float32": "float", "float64": "double"}[dtype]
    second = f", {element}(N) B" if "B(n)" in formula else ""
    return weft.define(f"def {name}_bench({element}(N) A{second}) -> (C) {{ C(n) = {formula} }}")


def runners(name: str, size: int, dtype: str) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """Ours and torch's, each writing into an array of its own."""
    ours, reference = compile_ours(name, dtype), FUNCTIONS[name][1]
    low, high = FUNCTIONS[name][2]
    rng = np.random.default_rng(1)
    count = 2 if "B(n)" in FUNCTIONS[name][0] else 1
    arrays = [rng.uniform(low, high, size).astype(dtype) for _ in range(count)]
    tensors, result, out = [torch.from_numpy(a) for a in arrays], np.empty_like(arrays[0]), torch.empty(size)
    out = out.to(getattr(torch, dtype))
    theirs = reference or getattr(torch, name)
    return lambda: ours(*arrays, out=result), lambda: theirs(*tensors, out=out)


def medians(functions: tuple[Callable[[], Any], ...], rounds: int) -> list[float]:
    """Seconds per call of each, the rounds interleaved."""
    times: list[list[float]] = [[] for _ in functions]
    for run in functions:
        run()
    for _ in range(rounds):
        for run, seen in zip(functions, times):
            start = time.perf_counter()
            run()
            seen.append(time.perf_counter() - start)
    return [statistics.median(t) for t in times]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("functions", nargs="*", metavar="function", help=f"of {' '.join(FUNCTIONS)}")
    parser.add_argument("--size", type=int, default=1 << 20)
    parser.add_argument("--rounds", type=int, default=31)
    parser.add_argument("--dtype", choices=["float32", "float64"], default="float32")
    parser.add_argument("--min-ratio", type=float, default=0.0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    weft.set_num_threads(1)
    worst = float("inf")
    print(f"{'function':<10}{'weft us':>10}{'torch us':>10}{'ratio':>8}   ({options.size} {options.dtype}, 1 thread)")
    for name in options.functions or FUNCTIONS:
        ours, theirs = medians(runners(name, options.size, options.dtype), options.rounds)
        worst = min(worst, theirs / ours)
        print(f"{name:<10}{ours * 1e6:>10.0f}{theirs * 1e6:>10.0f}{theirs / ours:>8.2f}", flush=True)
    raise SystemExit(worst < options.min_ratio)


if __name__ == "__main__":
    main()
