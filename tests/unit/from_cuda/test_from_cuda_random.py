"""Random CUDA kernels: threads one by one (clang's code), our code for whole grids and the interpreter say the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.unit.from_cuda.compare_random import (
    BLOCKS,
    COUNT,
    OUTPUT,
    by_grids,
    differ,
    differences,
    inputs,
    source,
    split,
)
from tests.unit.from_cuda.random_kernels import Writer
from weft.from_cuda.launch import slot_values
from weft.from_cuda.unit import read_unit
from weft.ir.interpret import interpret
from weft.operators.cuda_kernel import CudaKernel, _extents, host_arrays


@pytest.mark.parametrize("first", range(0, 200, 50))
def test_random_kernels_are_the_same_as_grids_and_thread_by_thread(
    first: int, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Some of the threads one by one are watched: nothing may be found in kernels that are right. The same are
    optimized by LLVM."""
    if first:
        request.getfixturevalue("quick_code")
    assert differences(range(first, first + 50), tmp_path, watched=first == 0) == {}


@pytest.mark.parametrize("seed", [1, 3, 5])
def test_the_interpreter_agrees(seed: int) -> None:
    (ours,) = by_grids([seed])
    kernel = CudaKernel(read_unit(source([seed]), "random.cu", host_too=False), f"k{seed}", "strict")
    out, block = np.zeros(OUTPUT, np.uint8), Writer(seed).shape
    raw, arrays = kernel._arguments((*inputs(seed), *split(out), COUNT))
    program = kernel.program((BLOCKS,), block)
    values = slot_values(program, raw, _extents(arrays), (BLOCKS, 1, 1), (*block, 1))
    interpret(program.kernel, host_arrays(program, values))
    assert differ(ours, out) == ""
