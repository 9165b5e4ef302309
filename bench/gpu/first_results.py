"""What the first result of a new shape takes: choosing a schedule, writing CUDA text, and the rest, most of it NVRTC.

>>> WEFT_CACHE_DIR=$(mktemp -d) python -m bench.gpu.first_results

The operator is called first, in a process that has compiled something before, with nothing kept of this one; then a
schedule is chosen and the text written once more, on one core. (NVRTC is not asked again: it keeps what it compiled.)
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
from weft.runtime.pause_collector import collector_paused
from weft.target.cuda.lower import emit_kernel
from weft.target.cuda.machine import gpu_for_arch

T = TypeVar("T")
#: How many of each kind are measured, spread over the list.
EACH = 4


def parts(workload: Workload, shapes: Sequence[tuple[int, ...]]) -> tuple[float, float]:
    """Milliseconds of choosing and of writing the text."""
    machine = gpu_for_arch("sm_90")
    s = weft.schedule(workload.op(), *shapes, numerics="fast", target="cuda")
    aligned = {b.name: 16 for b in s.kernel.buffers}
    with collector_paused():
        choosing, made = timed(lambda: auto_schedule_gpu(s, machine))
        writing, _ = timed(lambda: emit_kernel(made.schedule.kernel, machine, fast=True, aligned=aligned))
    return choosing, writing


def timed(fn: Callable[[], T]) -> tuple[float, T]:
    start = time.perf_counter()
    result = fn()
    return (time.perf_counter() - start) * 1e3, result


def first_result(torch: Any, workload: Workload, args: Sequence[Any]) -> float:
    def call() -> None:
        workload.op()(*args)
        torch.cuda.synchronize()

    return timed(call)[0]


def main() -> None:
    import torch

    kinds = [products(), convolutions(), attention(), attention_backward()]
    first_result(torch, kinds[0][1], kinds[0][1].make(torch))  # loads what all need
    print(f"{'work':<52}{'choosing':>10}{'text':>8}{'rest':>8}{'first':>8}  (ms)")
    for workload in (w for kind in kinds for w in kind[:: len(kind) // EACH]):
        args = workload.make(torch)
        total = first_result(torch, workload, args)
        choosing, writing = parts(workload, [tuple(a.shape) for a in args])
        rest = total - choosing - writing
        print(f"{workload.name:<52}{choosing:>10.0f}{writing:>8.0f}{rest:>8.0f}{total:>8.0f}", flush=True)


if __name__ == "__main__":
    main()
