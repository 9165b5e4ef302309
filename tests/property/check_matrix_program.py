"""Random matrix work checked: built by NVRTC as the automatic schedule has it for an H200, or run on a device against
float64."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import numpy as np
from block_programs import draw_blocks
from matrix_programs import MatrixProgram, draw_attention, draw_gradient, draw_layers, draw_product

import weft
from weft.auto.gpu.scheduler import auto_schedule_gpu
from weft.ir.numerics import is_fast
from weft.target.cuda.lower import compile_kernel
from weft.target.cuda.machine import gpu_for_arch

sys.path[:0] = [str(Path(__file__).parents[1] / "gpu"), str(Path(__file__).parents[1] / "unit" / "target")]

H200 = gpu_for_arch("sm_90")


def _draw_convolution(seed: int, *, small: bool = False) -> MatrixProgram:
    from test_gpu_convolution import drawn_convolution

    return drawn_convolution(seed, small=small)


DRAWN: dict[str, Callable[..., MatrixProgram]] = {
    "products": draw_product,
    "blocks": draw_blocks,
    "layers": draw_layers,
    "convolutions": _draw_convolution,
    "attentions": draw_attention,
    "gradients": draw_gradient,
}


def check_matrix_program(program: MatrixProgram, places: Collection[str]) -> str:
    if "nvrtc" in places or "cpu" in places:
        build(program, on_cpu="cpu" in places)
    if "device" in places:
        compare_on_device(program)
    return "checked"


def build(program: MatrixProgram, *, on_cpu: bool = False) -> None:
    """By NVRTC, as scheduled for an H200; the same schedule also run on the CPU."""
    op = weft.define(program.text, numerics=program.numerics)
    s = weft.schedule(op, *program.arguments, numerics=program.numerics)
    start = s.kernel
    auto_schedule_gpu(s, H200)
    compile_kernel(s.kernel, H200, fast=is_fast(program.numerics), aligned={b.name: 16 for b in s.kernel.buffers})
    if on_cpu:
        from run_compiled import Fenced, Runner  # not where there is no LLVM

        outputs = [b for b in start.buffers if b.name in start.outputs]
        sizes = [[int(n.value) for n in b.shape] for b in outputs]  # type: ignore[attr-defined]
        fenced = [Fenced(np.zeros(n, weft.numpy_dtype(b.dtype.name))) for b, n in zip(outputs, sizes)]
        runner = Runner(s.kernel, fast=is_fast(program.numerics))
        assert runner(*map(np.ascontiguousarray, program.arguments), *(f.array for f in fenced)) == 0
        assert all(f.is_whole() for f in fenced)
        compare(tuple(f.array for f in fenced), program)


def compare_on_device(program: MatrixProgram) -> None:
    op = weft.define(program.text, numerics=program.numerics)
    got = op(*map(weft.cuda.DeviceArray.from_numpy, program.arguments))
    weft.cuda.synchronize()
    compare(tuple(x.numpy() for x in (got if isinstance(got, tuple) else (got,))), program)


def compare(got: Any, program: MatrixProgram) -> None:
    for result, wanted in zip(got if isinstance(got, tuple) else (got,), program.wanted, strict=True):
        off = np.linalg.norm(result.astype(np.float64) - wanted)
        most = program.tolerance * np.linalg.norm(wanted) + 1e-6
        assert off <= most, f"off by {off:.3g}, {most:.3g} at most"
