"""Random CUDA kernels: what a C++ compiler makes of them, our machine code and the interpreter say the same."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft
from tests.unit.from_cuda.random_kernels import Writer
from tests.unit.from_cuda.threads_on_host import build
from weft.from_cuda.launch import slot_values
from weft.ir.interpret import interpret
from weft.operators.cuda_kernel import CudaKernel, _extents, host_arrays

SEEDS = range(12)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder: Path = tmp_path_factory.mktemp("kernels")
    return build([Writer(seed).kernel() for seed in SEEDS], folder)


def interpreted(kernel: CudaKernel, args: tuple[Any, ...]) -> None:
    raw, arrays = kernel._arguments(args)
    program = kernel.program((2,), (64,))
    values = slot_values(program, raw, _extents(arrays), (2, 1, 1), (64, 1, 1))
    interpret(program.kernel, host_arrays(program, values))


@pytest.mark.parametrize("seed", SEEDS)
def test_random_kernels_mean_what_c_says(seed: int, library: Any) -> None:
    source, numbers = Writer(seed).kernel(), np.random.default_rng(seed)
    a = numbers.integers(-1000, 1000, 128).astype(np.int32)
    b = numbers.standard_normal(128).astype(np.float32)
    kernel = weft.cuda.kernel(source, "k")
    outputs = {how: (np.zeros(120, np.int32), np.zeros(120, np.float32)) for how in ("ours", "interpreter", "c++")}
    kernel((2,), (64,), (a, b, *outputs["ours"], 120))
    if seed % 3 == 0:  # it takes its time
        interpreted(kernel, (a, b, *outputs["interpreter"], 120))
    if library is not None:
        getattr(library, f"run{seed}")(*(ctypes.c_void_p(x.ctypes.data) for x in (a, b, *outputs["c++"])), 120)
    for how, (c, d) in outputs.items():
        if (how == "c++" and library is not None) or (how == "interpreter" and seed % 3 == 0):
            np.testing.assert_array_equal(outputs["ours"][0], c, err_msg=f"{how}\n{source}")
            np.testing.assert_allclose(outputs["ours"][1], d, rtol=1e-4, atol=1e-5, err_msg=f"{how}\n{source}")
