"""Random matrix work checked: built by NVRTC as the automatic schedule has it for an H200, or run on a device against
float64."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection
from pathlib import Path

import numpy as np
from matrix_programs import MatrixProgram, draw_attention, draw_layers, draw_product

import weft
from weft.auto.gpu.scheduler import auto_schedule_gpu
from weft.ir.numerics import is_fast
from weft.target.cuda.lower import compile_kernel
from weft.target.cuda.machine import gpu_for_arch

sys.path.insert(0, str(Path(__file__).parents[1] / "gpu"))

H200 = gpu_for_arch("sm_90")


def _draw_convolution(seed: int) -> MatrixProgram:
    from test_gpu_convolution import drawn_convolution

    return drawn_convolution(seed)


DRAWN: dict[str, Callable[[int], MatrixProgram]] = {
    "products": draw_product,
    "layers": draw_layers,
    "convolutions": _draw_convolution,
    "attentions": draw_attention,
}


def check_matrix_program(program: MatrixProgram, places: Collection[str]) -> str:
    if "nvrtc" in places:
        build(program)
    if "device" in places:
        compare_on_device(program)
    return "checked"


def build(program: MatrixProgram) -> None:
    op = weft.define(program.text, numerics=program.numerics)
    s = weft.schedule(op, *program.arguments, numerics=program.numerics, target="cuda")
    auto_schedule_gpu(s, H200)
    compile_kernel(s.kernel, H200, fast=is_fast(program.numerics), aligned={b.name: 16 for b in s.kernel.buffers})


def compare_on_device(program: MatrixProgram) -> None:
    op = weft.define(program.text, numerics=program.numerics)
    got = op(*map(weft.cuda.DeviceArray.from_numpy, program.arguments))
    weft.cuda.synchronize()
    for result, wanted in zip(got if isinstance(got, tuple) else (got,), program.wanted, strict=True):
        off = np.linalg.norm(result.numpy().astype(np.float64) - wanted)
        most = program.tolerance * np.linalg.norm(wanted) + 1e-6
        assert off <= most, f"off by {off:.3g}, {most:.3g} at most"
