"""Kernels whose warps multiply small matrices: by inline PTX and by nvcuda::wmma."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.unit.from_cuda.memory_cases import CASES, Case, case, f32

__all__ = ["CASES", "Case"]


def _small(shape: tuple[int, ...], seed: int, dtype: Any = np.float16) -> Any:
    """Whole numbers, so that every order of a sum gives the same."""
    return np.random.default_rng(seed).integers(-8, 9, shape).astype(dtype)


def _product(a: Any, b: Any) -> Any:
    return (a.astype(np.float64) @ b.astype(np.float64)).astype(f32)


case(
    "mma of what ldmatrix and cp.async brought",
    """#include <cuda_fp16.h>
    __device__ __forceinline__ unsigned within(const void *p) { return (unsigned)__cvta_generic_to_shared(p); }
    __global__ void k(const __half *a, const __half *b, float *c, float *transposed) {
      __shared__ __half left[16 * 16], right[8 * 16];
      int t = threadIdx.x, g = t / 4, q = t % 4;
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;\\n" :: "r"(within(&left[8 * t])), "l"(a + 8 * t));
      if (t < 16)
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;\\n"
                     :: "r"(within(&right[8 * t])), "l"(b + 8 * t), "n"(16), "r"(t < 15 ? 16 : 8));
      asm volatile("cp.async.commit_group;\\n" ::);
      asm volatile("cp.async.wait_group 0;\\n" ::);
      __syncthreads();
      unsigned x[4], y[2], z[1], row = within(&left[t % 16 * 16 + t / 16 * 8]), of = within(right + t % 8 * 16);
      float d[4] = {0, 1, 0, 0};
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\\n"
                   : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3]) : "r"(row));
      asm volatile("ldmatrix.sync.aligned.x2.m8n8.shared.b16 {%0, %1}, [%2];\\n"
                   : "=r"(y[0]), "=r"(y[1]) : "r"(of + t / 8 % 2 * 16));
      asm volatile("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%0}, [%1+16];\\n" : "=r"(z[0]) : "r"(of));
      asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                   "{%0, %1, %2, %3};\\n"
                   : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                   : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]));
      c[8 * g + 2 * q] = d[0], c[8 * g + 2 * q + 1] = d[1] - 1;
      c[8 * (g + 8) + 2 * q] = d[2], c[8 * (g + 8) + 2 * q + 1] = d[3];
      __half2 pair = *reinterpret_cast<__half2 *>(&z[0]);
      transposed[8 * g + 2 * q] = __low2float(pair), transposed[8 * g + 2 * q + 1] = __high2float(pair);
    }""",
    (1,), (32,), (_small((16, 16), 1), _small((8, 16), 2), np.zeros((16, 8), f32), np.zeros((8, 8), f32)),
    lambda a, b, c, d: {
        2: _product(a, np.where(np.arange(128).reshape(8, 16) < 124, b, 0).T),
        3: np.where(np.arange(128).reshape(8, 16) < 124, b, 0)[:, 8:].T,
    },
)  # fmt: skip
case(
    "mma of tf32, bytes and halves that are summed as halves",
    """#include <cuda_fp16.h>
    __global__ void k(const float *a, const float *b, float *c, const char *bytes, int *n, const __half *u, __half *v) {
      int t = threadIdx.x, g = t / 4, q = t % 4;
      const unsigned *x = (const unsigned *)a, *y = (const unsigned *)b, *m = (const unsigned *)bytes;
      const unsigned *h = (const unsigned *)u;
      unsigned *r = (unsigned *)v;
      float d[4] = {0, 0, 0, 0};
      asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                   "{%0, %1, %2, %3};\\n" : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                   : "r"(x[8 * g + q]), "r"(x[8 * (g + 8) + q]), "r"(x[8 * g + q + 4]), "r"(x[8 * (g + 8) + q + 4]),
                     "r"(y[8 * q + g]), "r"(y[8 * (q + 4) + g]));
      c[8 * g + 2 * q] = d[0], c[8 * g + 2 * q + 1] = d[1];
      c[8 * (g + 8) + 2 * q] = d[2], c[8 * (g + 8) + 2 * q + 1] = d[3];
      int e[4];
      asm volatile("mma.sync.aligned.m16n8k16.row.col.s32.s8.u8.s32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%7, %7, %7, %7};"
                   : "=r"(e[0]), "=r"(e[1]), "=r"(e[2]), "=r"(e[3]) : "r"(m[4 * g + q]), "r"(m[4 * (g + 8) + q]),
                     "r"(m[64 + 4 * g + q]), "r"(7));
      n[8 * g + 2 * q] = e[0], n[8 * g + 2 * q + 1] = e[1];
      n[8 * (g + 8) + 2 * q] = e[2], n[8 * (g + 8) + 2 * q + 1] = e[3];
      unsigned s[2];
      asm volatile("mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 {%0, %1}, {%2, %3}, {%4}, {%5, %6};\\n"
                   : "=r"(s[0]), "=r"(s[1]) : "r"(h[4 * g + q]), "r"(h[4 * (g + 8) + q]), "r"(h[64 + 4 * g + q]),
                     "r"(0x3c003c00u), "r"(0u));
      r[4 * g + q] = s[0], r[4 * (g + 8) + q] = s[1];
    }""",
    (1,), (32,),
    (_small((16, 8), 3, f32), _small((8, 8), 4, f32), np.zeros((16, 8), f32), _small((24, 16), 5, np.int8),
     np.zeros((16, 8), np.int32), _small((24, 8), 6), np.zeros((16, 8), np.float16)),
    lambda a, b, c, m, n, h, r: {
        2: _product(a, b),
        4: m[:16].astype(int) @ m[16:].view(np.uint8).astype(int).T + 7,
        6: _product(h[:16], h[16:].T) + (np.arange(16) < 8)[:, None],
    },
)  # fmt: skip
case(
    "wmma",
    """#include <mma.h>
    using namespace nvcuda;
    __global__ void k(const __half *a, const __half *b, float *c, const signed char *m, int *e, int n) {
      int row = blockIdx.y * 16, column = (blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32) * 16;
      wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> x;
      wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::col_major> y;
      wmma::fragment<wmma::accumulator, 16, 16, 16, float> z;
      wmma::fill_fragment(z, 0.0f);
      for (int k = 0; k < n; k += 16) {
        wmma::load_matrix_sync(x, a + row * n + k, n);
        wmma::load_matrix_sync(y, b + column * n + k, n);
        wmma::mma_sync(z, x, y, z);
      }
      for (int i = 0; i < z.num_elements; i++) z.x[i] = 2.0f * z.x[i];
      wmma::store_matrix_sync(c + row * n + column, z, n, wmma::mem_row_major);
      if (row || column) return;
      wmma::fragment<wmma::matrix_a, 16, 16, 16, signed char, wmma::col_major> left;
      wmma::fragment<wmma::matrix_b, 16, 16, 16, signed char, wmma::row_major> right;
      wmma::fragment<wmma::accumulator, 16, 16, 16, int> sum;
      wmma::load_matrix_sync(left, m, 16);
      wmma::load_matrix_sync(right, m + 256, 16);
      wmma::load_matrix_sync(sum, e, 16, wmma::mem_row_major);
      wmma::mma_sync(sum, left, right, sum);
      wmma::store_matrix_sync(e, sum, 16, wmma::mem_col_major);
    }""",
    (1, 2), (64,),
    (_small((32, 32), 7), _small((32, 32), 8), np.zeros((32, 32), f32), _small((2, 16, 16), 9, np.int8),
     np.arange(256, dtype=np.int32).reshape(16, 16), 32),
    lambda a, b, c, m, e, n: {
        2: 2 * _product(a, b.T), 4: (m[0].T.astype(np.int32) @ m[1].astype(np.int32) + e).T,
    },
)  # fmt: skip
