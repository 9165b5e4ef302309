"""CUDA kernels as machine code of the CPU and in the interpreter, against numpy."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import weft
from tests.unit.from_cuda.header_cases import CASES, Case
from weft.from_cuda.launch import slot_values
from weft.ir.interpret import interpret
from weft.ir.printer import print_kernel
from weft.ir.verify import verify
from weft.operators.cuda_kernel import CudaKernel, _extents, host_arrays


def copies(case: Case) -> list[Any]:
    return [a.copy() if isinstance(a, np.ndarray) else a for a in case.args]


def check(case: Case, args: list[Any]) -> None:
    for place, expected in case.expected.items():
        np.testing.assert_allclose(args[place], np.asarray(expected), rtol=2e-5, atol=2e-6, err_msg=f"argument {place}")


def interpreted(kernel: CudaKernel, case: Case) -> list[Any]:
    """The launch by the interpreter of loop programs, which also looks for races and reads of nothing."""
    args = copies(case)
    raw, arrays = kernel._arguments(args)
    program = kernel.program(case.grid, case.block, case.shared)
    grid, block = (*case.grid, 1, 1)[:3], (*case.block, 1, 1)[:3]
    verify(program.kernel)
    variables = kernel._addresses(program)
    values = slot_values(program, raw, _extents(arrays), grid, block, case.shared, variables)
    interpret(program.kernel, host_arrays(program, values))
    return args


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_kernels_do_what_cuda_says(case: Case) -> None:
    kernel = weft.cuda.kernel(case.source, "k")
    args = copies(case)
    kernel(case.grid, case.block, args, shared_mem=case.shared)
    check(case, args)
    check(case, interpreted(kernel, case))


def test_the_program_reads_back() -> None:
    from weft.ir.parser import parse_kernel

    program = weft.cuda.kernel(CASES[0].source, "k").program((4,), (32,)).kernel
    assert parse_kernel(print_kernel(program)) == program


def test_choices_by_order_are_the_least_or_the_greatest() -> None:
    """As programs cut positions off at borders; choices that only look like it stay choices."""
    tests = (
        "x < a ? x : a", "x <= a ? a : x", "x > a - 1 ? a : x", "x + 1 >= a ? x : a - 1", "a > x ? 5 - (a - x) : 5",
        "x < a + 2 ? x : a",
    )  # fmt: skip
    lines = "".join(f"y[{n} * 16 + x] = {text};\n" for n, text in enumerate(tests))
    kernel = weft.cuda.kernel(f"__global__ void k(int *y, int a) {{ int x = threadIdx.x; {lines} }}", "k")
    y = np.zeros((len(tests), 16), np.int32)
    kernel((1,), (16,), (y, 7))
    for row, text in zip(y, tests):
        python = re.sub(r"(.*) \? (.*) : (.*)", r"(\2) if (\1) else (\3)", text)
        assert row.tolist() == [eval(python, {"x": x, "a": 7}) for x in range(16)], text
    assert print_kernel(kernel.program((1,), (16,)).kernel).count("?") == 1


def test_active_lanes_where_threads_have_parted() -> None:
    """They were said to be all of the warp's."""
    source = "__global__ void k(unsigned *m) { if (m[threadIdx.x] == 0) m[threadIdx.x] = __activemask(); }"
    m = np.arange(32, dtype=np.uint32) % 3
    weft.cuda.kernel(source, "k")((1,), (32,), (m,))
    here = sum(1 << i for i in range(0, 32, 3))
    assert m.tolist() == [i % 3 or here for i in range(32)]


def test_one_thread_of_each_block_takes_a_lock() -> None:
    """The atomic's result, known before it, was written as that number."""
    source = """__global__ void k(const int *x, double *total, int *lock) {
      __shared__ double s;
      if (threadIdx.x == 0) s = 0;
      __syncthreads();
      atomicAdd(&s, (double)x[blockIdx.x * blockDim.x + threadIdx.x]);
      __syncthreads();
      if (threadIdx.x == 0) {
        while (atomicCAS(lock, 0, 1) != 0);
        *total += s;
        __threadfence();
        atomicExch(lock, 0);
      }
    }"""
    total, lock = np.zeros(1), np.zeros(1, np.int32)
    weft.cuda.kernel(source, "k")((4,), (32,), (np.arange(128, dtype=np.int32), total, lock))
    assert (total[0], lock[0]) == (8128, 0)


def test_a_condition_that_chooses_a_reference_is_evaluated_once() -> None:
    """It was twice where what is chosen is no variable: ``i`` went up by two."""
    source = """__global__ void k(int *y) {
      int i = threadIdx.x;
      const unsigned &v = (i++ < 2 ? blockDim.x : threadIdx.x);
      y[threadIdx.x] = v * 100 + i;
    }"""
    y = np.zeros(4, np.int32)
    weft.cuda.kernel(source, "k")((1,), (4,), (y,))
    assert y.tolist() == [401, 402, 203, 304]
