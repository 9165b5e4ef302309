"""Kernels that use what headers of CUDA's libraries give them: narrow floats, CUB's blocks, libcu++'s atomics."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from tests.unit.from_cuda.matrix_cases import CASES, Case, case, f32
from tests.unit.from_cuda.memory_cases import floats, i32

__all__ = ["CASES", "Case"]

_SPREAD = np.concatenate([floats(24) * 300, np.array([0, -0.0, 447.9, 470, 1e9, 2**-9, 2**-10, 3 * 2.0**-17], f32)])

case(
    "floats of 8 bits",
    """#include <cuda_fp8.h>
    __global__ void k(const float *x, unsigned char *a, unsigned char *b, float *c, float *d) {
      int t = threadIdx.x;
      __nv_fp8_e4m3 narrow(x[t]);
      __nv_fp8_e5m2 wide(x[t]);
      a[t] = narrow.__x, b[t] = wide.__x;
      c[t] = (float)narrow, d[t] = (float)wide;
    }""",
    (1,), (32,), (_SPREAD, np.zeros(32, np.uint8), np.zeros(32, np.uint8), np.zeros(32, f32), np.zeros(32, f32)),
    lambda x, a, b, c, d: {
        1: np.clip(x, -448, 448).astype(ml_dtypes.float8_e4m3fn).view(np.uint8),
        2: np.clip(x, -57344, 57344).astype(ml_dtypes.float8_e5m2).view(np.uint8),
        3: np.clip(x, -448, 448).astype(ml_dtypes.float8_e4m3fn).astype(f32),
        4: np.clip(x, -57344, 57344).astype(ml_dtypes.float8_e5m2).astype(f32),
    },
)  # fmt: skip
case(
    "atomic sums of halves and of pairs",
    """#include <cuda_fp16.h>
    #include <cuda/atomic>
    __global__ void k(__half *sum, __half2 *pair, int *most) {
      int t = threadIdx.x;
      atomicAdd(&sum[t % 2], __float2half(t));
      atomicAdd(pair, -__floats2half2_rn(1.0f, t % 4));
      cuda::atomic_ref<int, cuda::thread_scope_block> largest(*most);
      largest.fetch_max(t * 37 % 64);
    }""",
    (1,), (32,), (np.zeros(2, np.float16), np.zeros(2, np.float16), np.zeros(1, i32)),
    lambda s, p, m: {0: [240, 256], 1: [-32, -48], 2: [max(t * 37 % 64 for t in range(32))]},
)  # fmt: skip
case(
    "CUB's blocks",
    """#include <cub/cub.cuh>
    struct Differ { __device__ bool operator()(int a, int b) const { return a != b; } };
    struct Minus { __device__ int operator()(int a, int b) const { return a - b; } };
    __global__ void k(const int *x, int *blocked, int *less, int *heads, int *sums) {
      typedef cub::BlockExchange<int, 32, 4> Exchange;
      typedef cub::BlockAdjacentDifference<int, 32> Difference;
      typedef cub::BlockDiscontinuity<int, 32> Runs;
      typedef cub::BlockReduce<int, 32> Reduce;
      __shared__ typename Exchange::TempStorage exchange;
      __shared__ typename Difference::TempStorage difference;
      __shared__ typename Runs::TempStorage runs;
      __shared__ typename Reduce::TempStorage reduce;
      int t = threadIdx.x, own[4], made[4], flags[4];
      for (int i = 0; i < 4; i++) own[i] = x[i * 32 + t];
      Exchange(exchange).StripedToBlocked(own);
      Difference(difference).SubtractLeft(own, made, Minus());
      Runs(runs).FlagHeads(flags, own, Differ());
      int sum = Reduce(reduce).Sum(own);
      if (t == 0) sums[0] = sum;
      for (int i = 0; i < 4; i++) blocked[4 * t + i] = own[i], less[4 * t + i] = made[i], heads[4 * t + i] = flags[i];
    }""",
    (1,), (32,), (np.arange(128, dtype=i32) // 3 * 5, *(np.zeros(128, i32) for _ in range(3)), np.zeros(1, i32)),
    lambda x, b, m, h, s: {
        1: x, 2: np.diff(x, prepend=0), 3: np.diff(x, prepend=-1) != 0, 4: [x.sum()],
    },
)  # fmt: skip
