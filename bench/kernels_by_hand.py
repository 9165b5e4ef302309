"""What the CPU code generator makes of loop programs scheduled by hand, against torch in the same run.

    python bench/kernels_by_hand.py [matmul softmax ...] [--threads 1] [--rounds 15] [--min-ratio 1.0]

Times are medians of interleaved rounds: of the thread's own time on one thread, of the clock on several. `ratio` is
torch's time over ours (above 1: we are faster); `compile` is the time from the loop program to machine code.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import hand_texts
import numpy as np
import torch
from torch.nn import functional

from weft.ir.parser import parse_kernel
from weft.ir.verify import verify
from weft.runtime.kernel import load_kernel
from weft.runtime.threads import set_num_threads
from weft.target.cpu.lower import compile_kernel

ROWS, COLUMNS, SIDE, HEIGHT, WIDTH = 4096, 1024, 4096, 2048, 3072
THIRD = float(np.float32(1 / 3))

#: The kernel's text, shapes of the inputs, shape of the result, torch's way.
Work = tuple[str, list[tuple[int, ...]], tuple[int, ...], Callable[..., Any]]


def matmul(m: int, n: int, k: int) -> Work:
    return hand_texts.matmul(m, n, k), [(m, k), (k, n)], (m, n), torch.mm


def rows(text: Callable[[int, int], str], reference: Callable[..., Any], vectors: int = 0) -> Work:
    return text(ROWS, COLUMNS), [(ROWS, COLUMNS), *[(COLUMNS,)] * vectors], (ROWS, COLUMNS), reference


def convolution(channels: int, size: int) -> Work:
    """Ours in blocks of channels, torch's as it comes; both pad outside of the timing where they need to."""
    blocks, outs = channels // 16, channels // 32

    def reference(image: Any, weights: Any) -> Any:
        plain = image.permute(0, 3, 1, 2).reshape(1, channels, size + 2, size + 2)
        filters = weights.permute(0, 5, 1, 4, 2, 3).reshape(channels, channels, 3, 3)
        return lambda: functional.conv2d(plain, filters)[0].reshape(outs, 32, size, size).permute(0, 2, 3, 1)

    shapes = [(blocks, size + 2, size + 2, 16), (outs, blocks, 3, 3, 16, 32)]
    return hand_texts.convolution(channels, size), shapes, (outs, size, size, 32), reference


def blur_in_two_stages(a: Any) -> Any:
    x = (a[:, :-2] + a[:, 1:-1] + a[:, 2:]) * THIRD
    return (x[:-2] + x[1:-1] + x[2:]) * THIRD


WORKS: dict[str, Callable[[], Work]] = {
    **{f"matmul-{n}": partial(matmul, n, n, n) for n in (512, 1024, 2048)},
    **{f"conv-{c}@{s}": partial(convolution, c, s) for c, s in ((64, 56), (128, 28), (256, 14))},
    "softmax": lambda: rows(hand_texts.softmax, lambda a: torch.softmax(a, 1)),
    "layer_norm": lambda: rows(
        hand_texts.layer_norm, lambda a, g, h: functional.layer_norm(a, (COLUMNS,), g, h), vectors=2
    ),
    "bias_gelu": lambda: rows(hand_texts.bias_gelu, lambda a, b: functional.gelu(a + b), vectors=1),
    "row_sums": lambda: (*rows(hand_texts.row_sums, lambda a: a.sum(1))[:2], (ROWS,), lambda a: a.sum(1)),
    "column_sums": lambda: (*rows(hand_texts.column_sums, lambda a: a.sum(0))[:2], (COLUMNS,), lambda a: a.sum(0)),
    "transpose": lambda: (hand_texts.transpose(SIDE), [(SIDE, SIDE)], (SIDE, SIDE), lambda a: a.t().contiguous()),
    "blur": lambda: (
        hand_texts.blur(HEIGHT, WIDTH),
        [(HEIGHT + 2, WIDTH + 2)],
        (HEIGHT, WIDTH),
        blur_in_two_stages,
    ),
}


def build(text: str) -> tuple[Any, float]:
    """The kernel in memory, and the seconds from loop program to machine code."""
    kernel = parse_kernel(text)
    verify(kernel)
    start = time.thread_time()
    compiled = compile_kernel(kernel, fast=True)
    seconds = time.thread_time() - start
    return load_kernel(compiled.object, compiled.entry, [None] * len(kernel.params), compiled.messages), seconds


def runners(name: str) -> tuple[Callable[[], Any], Callable[[], Any], float]:
    """Ours and torch's, checked against each other, and our compile time."""
    text, shapes, result, reference = WORKS[name]()
    rng = np.random.default_rng(1)
    arrays = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    out = torch.zeros(result).numpy()  # aligned to cache lines
    kernel, seconds = build(text)
    addresses = [a.ctypes.data for a in (*arrays, out)]
    tensors = [torch.from_numpy(a) for a in arrays]
    theirs = reference(*tensors) if name.startswith("conv") else lambda: reference(*tensors)
    kernel.run(addresses)
    np.testing.assert_allclose(out, theirs().numpy(), rtol=1e-3, atol=2e-3)
    return lambda: (kernel.run(addresses), arrays, out), theirs, seconds


def medians(functions: tuple[Callable[[], Any], ...], rounds: int, clock: Callable[[], float]) -> list[float]:
    """Seconds per call of each, the rounds interleaved."""
    times: list[list[float]] = [[] for _ in functions]
    for run in functions:
        run()
    for _ in range(rounds):
        for run, seen in zip(functions, times):
            start = clock()
            run()
            seen.append(clock() - start)
    return [statistics.median(t) for t in times]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("works", nargs="*", metavar="work", help=f"of {' '.join(WORKS)}, or how they begin")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--min-ratio", type=float, default=0.0)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    set_num_threads(options.threads)
    clock = time.thread_time if options.threads == 1 else time.perf_counter
    worst = float("inf")
    print(f"{'work':<12}{'compile ms':>11}{'weft ms':>10}{'torch ms':>10}{'ratio':>8}   ({options.threads} threads)")
    for name in (n for n in WORKS if not options.works or n.startswith(tuple(options.works))):
        ours, theirs, seconds = runners(name)
        mine, other = medians((ours, theirs), options.rounds, clock)
        worst = min(worst, other / mine)
        print(
            f"{name:<12}{seconds * 1e3:>11.0f}{mine * 1e3:>10.2f}{other * 1e3:>10.2f}{other / mine:>8.2f}", flush=True
        )
    raise SystemExit(worst < options.min_ratio)


if __name__ == "__main__":
    main()
