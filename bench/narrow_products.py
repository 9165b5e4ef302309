"""Products of bfloat16 and of bytes on the CPU against PyTorch's (oneDNN), in turns: GFLOP/s, medians.

    python -m bench.narrow_products [--threads 1 2] [--turns 15]

``x @ w`` as it comes, and with ``w`` given once (`bind`); PyTorch's weights are as they are. A ratio over 1 says that
Weft is faster than PyTorch with weights given once.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import weft
from bench.field.statistics import geometric_mean, median

SHAPES = ((512, 512, 512), (128, 768, 768), (100, 768, 3072), (64, 4096, 1024), (197, 3072, 768), (333, 520, 208))
TEXTS = {
    "bfloat16": "def f(bfloat16(M,K) A, bfloat16(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }",
    "int8": "def f(int8(M,K) A, int8(K,N) B) -> (int32(M,N) C) { C(m,n) +=! int32(A(m,k)) * int32(B(k,n)) }",
}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.narrow_products", description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--turns", type=int, default=15)
    options = parser.parse_args(arguments)
    import torch

    print("| type | rows x depth x columns | threads | Weft | bound | PyTorch | ratio |\n|---|---|---|---|---|---|---|")
    for threads in options.threads:
        torch.set_num_threads(threads)
        weft.set_num_threads(threads)
        for name in TEXTS:
            ratios = [compare(torch, name, shape, threads, options.turns) for shape in SHAPES]
            print(f"{name}, {threads} threads: geometric mean {geometric_mean(ratios):.2f}, least {min(ratios):.2f}")
    return 0


def compare(torch: Any, name: str, shape: tuple[int, int, int], threads: int, turns: int) -> float:
    m, k, n = shape
    a, b = draw(torch, name, (m, k)), draw(torch, name, (k, n))
    op = weft.define(TEXTS[name])
    bound = op.bind(B=b)
    peer = torch.matmul if name == "bfloat16" else torch._int_mm
    calls = [lambda: op(a, b), lambda: bound(a), lambda: peer(a, b)]
    want = peer(a, b).double()
    for call in calls:
        error = ((call().double() - want).abs().max() / want.abs().max()).item()
        assert error <= (0.01 if name == "bfloat16" else 0), f"{name} {shape}: off by {error}"
    rates = [2e-9 * m * k * n / seconds for seconds in in_turns(calls, turns)]
    ratio = rates[1] / rates[2]
    figures = " | ".join(f"{r:.0f}" for r in rates)
    print(f"| {name} | {m}x{k}x{n} | {threads} | {figures} | {ratio:.2f} |", flush=True)
    return ratio


def draw(torch: Any, name: str, shape: tuple[int, int]) -> Any:
    return torch.randn(shape).bfloat16() if name == "bfloat16" else torch.randint(-128, 128, shape, dtype=torch.int8)


def in_turns(calls: Sequence[Callable[[], Any]], turns: int) -> list[float]:
    """Median seconds of each, a few calls at a time."""
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(turns):
        for call, own in zip(calls, times):
            call()
            start = time.perf_counter()
            for _ in range(5):
                call()
            own.append((time.perf_counter() - start) / 5)
    return [median(own) for own in times]


if __name__ == "__main__":
    sys.exit(main())
