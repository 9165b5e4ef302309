"""Kernels that see one place as elements of several sizes, or do more with a variable's address than call by it."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.unit.from_cuda.value_cases import CASES, Case, case, f32, floats, i32

__all__ = ["CASES", "Case"]


def _bytes(p: Any, q: Any) -> dict[int, Any]:
    after = p.copy()
    after[1::4] = 7
    f = (np.arange(32) + 1.5).astype(f32)
    words = p.view(np.uint32) + after.view(np.uint32) + f.view(np.uint8)[3::4]
    return {0: after, 1: words + 2 + np.arange(32)}


case(
    "bytes and words of one place",
    """__global__ void k(unsigned char *p, unsigned *q) {
      int i = threadIdx.x;
      unsigned before = ((unsigned *)p)[i];
      p[4 * i + 1] = 7;
      float f = 1.5f + i;
      const unsigned char *parts = (const unsigned char *)&f;
      q[i] = before + ((unsigned *)p)[i] + parts[3];
      *(int *)&f = 0x40000000;
      q[i] += (unsigned)f;
      short low = 0;
      *((unsigned char *)&low) = i;
      q[i] += low;
    }""",
    (1,), (32,), (np.arange(128, dtype=np.uint8), np.zeros(32, np.uint32)), _bytes,
)  # fmt: skip
case(
    "records that are copied by their bytes",
    """template <class T> struct alignas(16) Packed {
      T payload[16 / sizeof(T)];
      __device__ Packed() {}
      __device__ explicit Packed(int4 bits) { memcpy(payload, &bits, sizeof(bits)); }
      __device__ T &operator[](int i) { return payload[i]; }
      __device__ int4 bits() const { int4 made; memcpy(&made, payload, sizeof(made)); return made; }
    };
    template <class T> __device__ Packed<T> load(const T *at) { return Packed<T>{*reinterpret_cast<const int4 *>(at)}; }
    __global__ void k(const float *x, float *y, const short *a, short *b) {
      int t = threadIdx.x;
      Packed<float> v = load(x + 4 * t), w;
      for (int i = 0; i < 4; i++) w[i] = v[i] * 2 + i;
      *reinterpret_cast<int4 *>(y + 4 * t) = w.bits();
      Packed<short> s = load(a + 8 * t);
      for (int i = 0; i < 8; i++) s[i] = s[i] + 8 * i;
      *reinterpret_cast<int4 *>(b + 8 * t) = s.bits();
    }""",
    (1,), (8,), (floats(32), np.zeros(32, f32), np.arange(64, dtype=np.int16), np.zeros(64, np.int16)),
    lambda x, y, a, b: {1: 2 * x + np.arange(32) % 4, 3: a + 8 * (np.arange(64) % 8)},
)  # fmt: skip
case(
    "unions of numbers that differ in size",
    """union Word { unsigned whole; unsigned char bytes[4]; unsigned short halves[2]; };
    __global__ void k(unsigned *a) {
      Word w;
      w.whole = a[threadIdx.x];
      unsigned char first = w.bytes[0];
      w.bytes[0] = w.bytes[3], w.bytes[3] = first, w.halves[0] ^= 3;
      a[threadIdx.x] = w.whole;
    }""",
    (1,), (16,), (np.arange(16, dtype=np.uint32) * 0x01030507 + 0x99,),
    lambda a: {0: (a & 0x00FFFF00 | a >> 24 | (a & 255) << 24) ^ 3},
)  # fmt: skip
case(
    "addresses of variables that are more than places",
    """struct Range { int low, high; };
    __global__ void k(const float4 *x, float *y, int *z) {
      int t = threadIdx.x, a = t, b = 10 * t, *chosen = &a;
      float4 v = x[t];
      float sum = 0;
      for (int i = 0; i < 4; i++) sum = 2 * sum + (&v.x)[i];
      y[t] = sum;
      if (t % 2) chosen = &b;
      *chosen += 5;
      Range r = {t, 3 * t};
      int *end = &r.high + 1, total = 0;
      for (int *p = &r.low; p != end; ++p) total += *p;
      z[t] = a + 100 * b + 10000 * total;
    }""",
    (1,), (8,), (floats(32), np.zeros(8, f32), np.zeros(8, i32)),
    lambda x, y, z: {
        1: x.reshape(8, 4) @ np.array([8, 4, 2, 1], f32),
        2: [t + (t % 2 == 0) * 5 + 100 * (10 * t + (t % 2) * 5) + 40000 * t for t in range(8)],
    },
)  # fmt: skip
case(
    "shared memory as vectors and as their parts",
    """__global__ void k(const float4 *x, float *y, unsigned short *h) {
      __shared__ float4 s[16];
      __shared__ unsigned words[32];
      int t = threadIdx.x;
      if (t < 8) s[t] = x[t];
      words[t] = 65537 * t + 1;
      __syncthreads();
      float *flat = reinterpret_cast<float *>(s);
      y[t] = flat[31 - t];
      ((unsigned short *)words)[2 * t] += 5;
      h[2 * t] = ((unsigned short *)words)[2 * t], h[2 * t + 1] = words[t] >> 16;
    }""",
    (1,), (32,), (floats(32), np.zeros(32, f32), np.zeros(64, np.uint16)),
    lambda x, y, h: {1: x[::-1], 2: np.stack([np.arange(32) + 6, np.arange(32)], 1).ravel()},
)  # fmt: skip
case(
    "statements that are values, constant references of two places, null pointers that are not used",
    """#define least(a, b) ({ __typeof__(a) x = (a); __typeof__(b) y = (b); x < y ? x : y; })
    __device__ const int &larger(const int &a, const int &b) { if (a < b) return b; return a; }
    __device__ void put(int *to, int i, int v, bool wanted) { if (wanted) to[i] = v; }
    __global__ void k(const int *a, int *b, int n) {
      int sum = 0, t = threadIdx.x;
      for (int i = 0; i <= least(5, n - 1); i++) sum += a[i];
      put(nullptr, 3, 4, n < 0);
      b[t] = sum + larger(a[t], a[t + 1]);
    }""",
    (1,), (16,), (np.arange(17, dtype=i32) * 7 % 11, np.zeros(16, i32), 9),
    lambda a, b, n: {1: a[:6].sum() + np.maximum(a[:-1], a[1:])},
)  # fmt: skip
case(
    "classes within classes, made for truths",
    """template <int W, int H> class Tile {
      template <bool is_checked> struct Column {
        int offset;
        float pixel;
        __device__ void start(int at) { offset = at, pixel = is_checked ? 1.5f : 2.5f; }
      };
      template <bool is_checked> __device__ void run(float *x) {
        Column<is_checked> column;
        column.start(threadIdx.x);
        x[column.offset] = column.pixel * W + H;
      }
    public:
      static __device__ void go(float *x, bool is_checked) {
        Tile<W, H> tile;
        if (is_checked) tile.template run<true>(x);
        else tile.template run<false>(x);
      }
    };
    __global__ void k(float *x, int n) { Tile<64, 8>::go(x, (int)threadIdx.x < n); }""",
    (1,), (8,), (np.zeros(8, f32), 3), lambda x, n: {0: np.where(np.arange(8) < 3, 104, 168)},
)  # fmt: skip


def _flags(x: Any, scratch: Any, total: Any, most: Any, low: Any) -> dict[int, Any]:
    sums = x.reshape(4, 64).sum(axis=0)
    return {1: [*sums, 0, 0], 2: sums, 3: [np.nan, x.max()], 4: [x.astype(i32).view(np.uint32).max().view(i32), 4, 0]}


case(
    "a count of blocks in memory of floats, extremes of floats by their bits",
    """__global__ void k(const float *x, float *scratch, float *total, float *most, int *low) {
      __shared__ unsigned last;
      int i = threadIdx.x;
      atomicAdd(&scratch[i], x[blockIdx.x * 64 + i]);
      if (x[blockIdx.x * 64 + i] > 0) atomicMax((int *)&most[1], __float_as_int(x[blockIdx.x * 64 + i]));
      atomicMin((int *)&most[0], 0x7fffffff);
      atomicMax((unsigned *)low, (unsigned)(int)x[blockIdx.x * 64 + i]);
      __threadfence();
      __syncthreads();
      if (i == 0) {
        atomicAdd((unsigned *)(scratch + 65), 1u);
        last = atomicInc((unsigned *)(scratch + 64), gridDim.x - 1);
      }
      __syncthreads();
      if (last == gridDim.x - 1) {
        total[i] = atomicAdd(&scratch[i], 0.0f);
        if (i < 2) low[1 + i] = atomicAdd((int *)scratch + 65 - i, 0);
      }
    }""",
    (4,), (64,), (np.round(floats(256) * 8), np.zeros(66, f32), np.zeros(64, f32), np.array([np.nan, 0], f32),
                  np.zeros(3, i32)), _flags,
)  # fmt: skip
case(
    "pointers that go back by numbers without a sign",
    """__global__ void k(float *y, int n) {
      extern __shared__ float room[];
      const size_t four = 4;
      size_t rounded = (n + 3) / 4 * 4;
      float *before = room + rounded - 8 * four;
      room[threadIdx.x] = room[threadIdx.x + 32] = threadIdx.x;
      __syncthreads();
      y[threadIdx.x] = before[32 + threadIdx.x - 4u] + *(room + threadIdx.x - 0 * four);
      if (n == 7) __trap();
    }""",
    (1,), (32,), (np.zeros(32, f32), 32), lambda y, n: {0: (28 + np.arange(32)) % 32 + np.arange(32)},
    256,
)  # fmt: skip
