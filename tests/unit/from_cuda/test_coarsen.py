"""Coarser versions of kernels: the same results as the kernel as it is written, or a reason why there is none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from weft.from_cuda.coarsen import Version, check_version, rewrite
from weft.from_cuda.unit import Unit, find_kernel, read_unit
from weft.ir.errors import ArgumentError
from weft.target.cuda.nvrtc import compile_source

SOURCE = """
#define INDEX (blockIdx.x * blockDim.x + threadIdx.x)
__device__ int clamped(int i, int n) { return i < n ? i : n - 1; }
__device__ int row() { return blockIdx.x; }
template <typename T> __global__ void smooth(const T *x, T *y, int n) {
  int i = INDEX;
  if (i >= n) return;
  T sum = 0;
#pragma unroll
  for (int k = 0; k < 3; ++k) sum += x[clamped(i + k, n)];
  y[i] = sum + gridDim.x;
}
__global__ void reverse(const int *x, int *y, int n) {
  __shared__ int s[64];
  int t = threadIdx.x;
  s[t] = INDEX < n ? x[INDEX] : 0;
  __syncthreads();
  if (INDEX < n) y[INDEX] = s[63 - t] + (int)blockDim.x;
}
__global__ void rows(int *y) { y[row()] = 1; }
__global__ void flags(volatile int *y) { __threadfence(); y[blockIdx.x] = 1; }
"""


@pytest.fixture(scope="module")
def unit() -> Unit:
    return read_unit(SOURCE, "source.cu", uses=("smooth<float>",), host_too=False)


def launched(text: str, name: str, blocks: int, threads: int, *args: Any) -> Any:
    out = np.zeros(300, args[0].dtype)
    weft.cuda.kernel(text, name)((blocks,), (threads,), (args[0], out, *args[1:]))
    return out


@pytest.mark.parametrize("version", [Version(4, 2, True), Version(2), Version(threads=4)], ids=str)
def test_a_coarser_kernel_computes_the_same(unit: Unit, version: Version) -> None:
    x = np.arange(300, dtype=np.float32)
    function = find_kernel(unit, "smooth<float>")
    assert check_version(unit, function, version) == []
    text = rewrite(unit, function, version)
    expected = launched(SOURCE, "smooth<float>", 5, 64, x, 300)
    blocks, threads = -(-5 // version.blocks), 64 // version.threads
    np.testing.assert_array_equal(launched(text, "smooth<float>", blocks, threads, x, 300, 5), expected)
    assert compile_source(text, "source.cu", "smooth<float>", "sm_90")[0]


def test_blocks_as_one_have_their_own_shared_memory(unit: Unit) -> None:
    x = np.arange(300, dtype=np.int32)
    text = rewrite(unit, find_kernel(unit, "reverse"), Version(blocks=2))
    assert "__syncthreads();  // the next" in text
    expected = launched(SOURCE, "reverse", 5, 64, x, 300)
    np.testing.assert_array_equal(launched(text, "reverse", 3, 64, x, 300, 5), expected)


@pytest.mark.parametrize(
    ("name", "version", "why"),
    [
        ("reverse", Version(threads=2), "line 14: `s` is shared by threads; line 17: threads meet in `__syncthreads`"),
        ("rows", Version(blocks=2), "`row`, which it calls, reads `blockIdx`"),
        ("flags", Version(blocks=2), "line 21: `volatile int *` may be how"),
        ("flags", Version(blocks=2), "line 21: blocks may wait for each other (`__threadfence`)"),
        ("flags", Version(restrict=True), ""),
    ],
)
def test_versions_that_would_be_another_kernel_are_refused(unit: Unit, name: str, version: Version, why: str) -> None:
    assert why in "; ".join(check_version(unit, find_kernel(unit, name), version))


def test_tuning_is_for_a_gpu() -> None:
    x = np.zeros(4, np.int32)
    with pytest.raises(ArgumentError, match="cannot be tuned on the CPU"):
        weft.cuda.kernel(SOURCE, "rows").tune((1,), (4,), (x,))
