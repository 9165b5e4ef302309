"""What the first result of a new shape takes: choosing a schedule, writing CUDA text, NVRTC; and all of it together.

>>> WEFT_CACHE_DIR=$(mktemp -d) python -m bench.gpu.first_results

The operator is called first, in a process that has compiled something before, with nothing kept of this one; then each
part is done once more by itself, on one core.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import weft
from bench.gpu.attention import attention
from bench.gpu.attention_backward import attention_backward
from bench.gpu.convolutions import convolutions
from bench.gpu.products import products
from bench.gpu.workloads import Workload
from weft.auto.gpu.scheduler import auto_schedule_gpu
from weft.operators.pause_collector import collector_paused
from weft.target.cuda.lower import emit_kernel
from weft.target.cuda.machine import gpu_for_arch
from weft.target.cuda.nvrtc import compile_cubin

T = TypeVar("T")
#: How many of each kind are measured, spread over the list.
EACH = 4


def parts(workload: Workload, shapes: Sequence[tuple[int, ...]]) -> list[float]:
    """Milliseconds of choosing, of writing the text and of NVRTC."""
    machine = gpu_for_arch("sm_90")
    s = weft.schedule(workload.op(), *shapes, numerics="fast", target="cuda")
    with collector_paused():
        choosing, made = timed(lambda: auto_schedule_gpu(s, machine))
        writing, text = timed(lambda: emit_kernel(made.schedule.kernel, machine, fast=True, aligned=_aligned(s)))
        compiling, _ = timed(lambda: compile_cubin(text, machine.code_arch, fast=True))
    return [choosing, writing, compiling]


def timed(fn: Callable[[], T]) -> tuple[float, T]:
    start = time.perf_counter()
    result = fn()
    return (time.perf_counter() - start) * 1e3, result


def _aligned(s: Any) -> dict[str, int]:
    return {b.name: 16 for b in s.kernel.buffers}


def first_result(torch: Any, workload: Workload, args: Sequence[Any]) -> float:
    def call() -> None:
        workload.op()(*args)
        torch.cuda.synchronize()

    return timed(call)[0]


def main() -> None:
    import torch

    kinds = [products(), convolutions(), attention(), attention_backward()]
    chosen = [w for kind in kinds for w in kind[:: max(1, len(kind) // EACH)]]
    print(f"{'work':<48}{'choosing':>10}{'text':>8}{'NVRTC':>8}{'first':>8}  (ms)")
    for number, workload in enumerate([chosen[0], *chosen]):  # the first is there twice: it loads what all need
        args = workload.make(torch)
        total = first_result(torch, workload, args)
        found = parts(workload, [tuple(a.shape) for a in args])
        if number:
            cells = "".join(f"{n:>{width}.0f}" for n, width in zip((*found, total), (10, 8, 8, 8)))
            print(f"{workload.name:<48}{cells}", flush=True)


if __name__ == "__main__":
    main()
