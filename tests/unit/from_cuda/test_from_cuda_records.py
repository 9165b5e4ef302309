"""Records, templates, references, pointers that lie in memory, warps: what needs arrays of its own kind."""

from __future__ import annotations

import numpy as np
import pytest

import weft

RECORDS = """
typedef struct { float x, y; int n; } P;
template <class T> struct Vec {
  T a, b;
  __device__ Vec(T a, T b) : a(a), b(b) {}
  __device__ Vec operator+(const Vec &o) const { return Vec(a + o.a, b + o.b); }
  __device__ T dot(const Vec &o) const { return a * o.a + b * o.b; }
};
template <class T, int N> __device__ T power(T x) { T r = 1; for (int i = 0; i < N; i++) r *= x; return r; }
__device__ void swap(float &a, float &b) { float t = a; a = b; b = t; }
__device__ float greatest(float *place, float v) {
  int *bits = (int *)place, old = *bits, seen;
  do {
    seen = old;
    old = atomicCAS(bits, seen, __float_as_int(fmaxf(v, __int_as_float(seen))));
  } while (seen != old);
  return __int_as_float(old);
}
__global__ void k(const P *p, P *q, float4 *v, float *out, float *m, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  P a = p[i];
  a.x += 1; a.n = i;
  swap(a.x, a.y);
  q[i] = a;
  float4 f = v[i];
  f.w = f.x + f.y;
  v[i] = make_float4(f.w, f.z, f.y, f.x);
  Vec<float> u(a.x, a.y), w = u + Vec<float>(1.f, 2.f);
  out[i] = w.dot(u) + power<float, 3>(a.x);
  greatest(m, a.x);
  float2 *h = reinterpret_cast<float2 *>(out + n);
  h[i].y = i;
}
"""


def test_records_templates_references_and_casts_of_pointers() -> None:
    kind, n = np.dtype([("x", "f4"), ("y", "f4"), ("n", "i4")]), 37
    numbers = np.random.default_rng(3)
    p, q = np.zeros(n, kind), np.zeros(n, kind)
    p["x"], p["y"] = numbers.random(n), numbers.random(n)
    v = numbers.random((n, 4)).astype(np.float32)
    before, out, m = v.copy(), np.zeros(3 * n + 3, np.float32), np.zeros(1, np.float32)
    weft.cuda.kernel(RECORDS, "k")((2,), (32,), (p.view(np.uint8), q.view(np.uint8), v, out, m, n))
    np.testing.assert_array_equal(q["x"], p["y"])
    np.testing.assert_array_equal(q["y"], p["x"] + np.float32(1))
    np.testing.assert_array_equal(q["n"], np.arange(n))
    first = before[:, 0] + before[:, 1]
    np.testing.assert_array_equal(v, np.stack([first, before[:, 2], before[:, 1], before[:, 0]], 1))
    np.testing.assert_allclose(out[:n], (q["x"] + 1) * q["x"] + (q["y"] + 2) * q["y"] + q["x"] ** 3, rtol=1e-5)
    assert m[0] == q["x"].max()
    np.testing.assert_array_equal(out[n + 1 : 3 * n + 1 : 2], np.arange(n))


TABLES = """
struct Node { int value; Node *next; };
__global__ void k(float **rows, const int *lengths, float *sums, Node **lists, int *totals, int n, float *first) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const float *row = rows[i];
  float s = 0;
  for (int j = 0; j < lengths[i]; j++) s += row[j];
  sums[i] = s;
  int t = 0;
  for (Node *p = lists[i]; p != NULL; p = p->next) t += p->value;
  totals[i] = t;
  rows[i] = first + i;
}
"""


def test_pointers_that_lie_in_memory_are_followed() -> None:
    n = 8
    rows = [np.arange(i + 1, dtype=np.float32) for i in range(n)]
    table, lengths = np.array([r.ctypes.data for r in rows]), np.arange(1, n + 1, dtype=np.int32)
    nodes = np.zeros(40, np.dtype([("value", "i4"), ("pad", "i4"), ("next", "i8")]))
    nodes["value"] = np.arange(40)
    heads, expected, used = np.zeros(n, np.int64), [], 0
    for i in range(n):
        expected.append(sum(range(used, used + i)))
        for j in range(i):
            place = nodes.ctypes.data + 16 * used
            heads[i] = heads[i] or place
            nodes["next"][used] = place + 16 if j < i - 1 else 0
            used += 1
    sums, totals, first = np.zeros(n, np.float32), np.zeros(n, np.int32), np.zeros(n, np.float32)
    weft.cuda.kernel(TABLES, "k")((1,), (32,), (table, lengths, sums, heads, totals, n, first))
    np.testing.assert_array_equal(sums, [r.sum() for r in rows])
    np.testing.assert_array_equal(totals, expected)
    np.testing.assert_array_equal(table, first.ctypes.data + 4 * np.arange(n))


WARPS = """
__device__ float warp_sum(float v) {
  for (int o = 16; o > 0; o >>= 1) v += __shfl_down_sync(0xffffffff, v, o);
  return v;
}
__global__ void k(const float *x, float *out, unsigned *votes, int *counts, int *turned) {
  __shared__ float s[8];
  int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  float v = warp_sum(x[i]);
  if (lane == 0) s[warp] = v;
  __syncthreads();
  if (warp == 0) {
    v = warp_sum(lane < blockDim.x / 32 ? s[lane] : 0);
    if (lane == 0) out[blockIdx.x] = v;
  }
  unsigned b = __ballot_sync(0xffffffff, x[i] > 0.5f);
  if (lane == 0) votes[i / 32] = b;
  int c = __syncthreads_count(x[i] > 0.5f);
  if (threadIdx.x == 0) counts[blockIdx.x] = c;
  turned[i] = __shfl_xor_sync(0xffffffff, i, 31) + __shfl_up_sync(0xffffffff, i, 1) + __shfl_sync(0xffffffff, i, 3, 8);
}
"""


def test_shuffles_and_votes() -> None:
    x = np.random.default_rng(5).random(512).astype(np.float32)
    out, votes, counts, turned = np.zeros(2, "f4"), np.zeros(16, "u4"), np.zeros(2, "i4"), np.zeros(512, "i4")
    weft.cuda.kernel(WARPS, "k")((2,), (256,), (x, out, votes, counts, turned))
    np.testing.assert_allclose(out, x.reshape(2, 256).sum(1), rtol=1e-5)
    np.testing.assert_array_equal(np.unpackbits(votes.view(np.uint8), bitorder="little"), x > 0.5)
    np.testing.assert_array_equal(counts, (x > 0.5).reshape(2, 256).sum(1))
    i = np.arange(512)
    up = np.where(i % 32 == 0, i, i - 1)
    np.testing.assert_array_equal(turned, (i ^ 31) + up + (i // 8 * 8 + 3))


def test_unions_are_one_place() -> None:
    source = """union U { float f; unsigned u; };
    struct S { int a = 5; U x; };
    __global__ void k(int *r) {
      U x;
      x.f = threadIdx.x;
      S s;
      s.x = x;
      s.x.u += s.a;
      r[threadIdx.x] = s.x.u;
    }"""
    r = np.zeros(16, np.int32)
    weft.cuda.kernel(source, "k")((1,), (16,), (r,))
    np.testing.assert_array_equal(r, np.arange(16, dtype=np.float32).view(np.int32) + 5)


def test_warps_that_run_in_step_by_volatile_memory() -> None:
    source = """__device__ void last(volatile float *s, int t) {
      s[t] += s[t + 32]; s[t] += s[t + 16]; s[t] += s[t + 8]; s[t] += s[t + 4]; s[t] += s[t + 2]; s[t] += s[t + 1];
    }
    __global__ void k(const float *x, float *out) {
      __shared__ float s[128];
      int t = threadIdx.x;
      s[t] = x[blockIdx.x * 128 + t];
      __syncthreads();
      if (t < 64) s[t] += s[t + 64];
      __syncthreads();
      if (t < 32) last(s, t);
      if (t == 0) out[blockIdx.x] = s[0];
    }"""
    x, out = np.random.default_rng(6).random(256).astype(np.float32), np.zeros(2, np.float32)
    weft.cuda.kernel(source, "k")((2,), (128,), (x, out))
    np.testing.assert_allclose(out, x.reshape(2, 128).sum(1), rtol=1e-5)


def test_arrays_that_overlap_run_as_on_a_gpu() -> None:
    shift = """__global__ void k(const float *x, float *y, int n) {
      int i = threadIdx.x;
      float v = i < n ? x[i] : 0;
      __syncthreads();
      if (i < n) y[i] = v + 1;
    }"""
    x = np.arange(33, dtype=np.float32)
    weft.cuda.kernel(shift, "k")((1,), (32,), (x[:32], x[1:], 32))
    np.testing.assert_array_equal(x, [0, *range(1, 33)])


def test_variables_of_the_device_are_read_and_written() -> None:
    source = """__constant__ float table[4] = {1, 2, 3}; __device__ int calls; __device__ float2 pair = {5, 6};
    __global__ void k(float *y) {
      y[threadIdx.x] = table[threadIdx.x] + pair.y;
      atomicAdd(&calls, 1);
    }"""
    kernel, y = weft.cuda.kernel(source, "k"), np.zeros(4, np.float32)
    kernel.symbol("table").view(np.float32)[3] = 9
    kernel((1,), (4,), (y,))
    np.testing.assert_array_equal(y, [7, 8, 9, 15])
    assert kernel.symbol("calls").view(np.int32)[0] == 4


def test_what_cannot_be_read_is_told_by_clang() -> None:
    with pytest.raises(weft.LanguageError) as told:
        weft.cuda.kernel("__global__ void k(float *x) {\n  x[0] = y;\n}", "k")
    assert str(told.value) == (
        "error: use of undeclared identifier 'y'\n  source.cu:2     x[0] = y;\n                         ^"
    )


def test_atomic_updates_of_memory_that_is_seen_as_smaller_elements_are_refused() -> None:
    source = """__global__ void k(unsigned char *x) {
      __shared__ unsigned s[8];
      atomicAdd(&s[threadIdx.x], 1u);
      __syncthreads();
      x[threadIdx.x] = ((unsigned char *)s)[threadIdx.x];
    }"""
    with pytest.raises(weft.UnsupportedError, match="atomic update of `s`, which is accessed as smaller elements too"):
        weft.cuda.kernel(source, "k").show()


PARTS = """__global__ void k(const float *x, int *bits, float *y, int *z) {
  extern __shared__ char raw[];
  float *f = (float *)raw;
  int *n = (int *)(f + blockDim.x), t = threadIdx.x;
  f[t] = x[t];
  n[t] = 10 * t;
  __syncthreads();
  bits[t] = ((int *)raw)[(t + 1) % 8];
  y[t] = f[7 - t];
  z[t] = n[7 - t];
}"""


def test_bytes_cut_into_parts_are_read_as_what_was_written() -> None:
    x = np.linspace(-1, 1, 8).astype(np.float32)
    bits, y, z = np.zeros(8, np.int32), np.zeros(8, np.float32), np.zeros(8, np.int32)
    weft.cuda.kernel(PARTS, "k")((1,), (8,), (x, bits, y, z), shared_mem=64)
    np.testing.assert_array_equal(bits, np.roll(x, -1).view(np.int32))
    np.testing.assert_array_equal(y, x[::-1])
    np.testing.assert_array_equal(z, 10 * np.arange(7, -1, -1))


def test_numbers_are_added_to_memory_that_holds_others_by_its_bits() -> None:
    source = "__global__ void k(float *x) {\n  atomicAdd((int *)x, 1);\n  atomicAdd(x + 1, 1.0f);\n}"
    x = np.array([1, np.nan, 2], np.float32)
    want = x.copy()
    want.view(np.int32)[0] += 8
    weft.cuda.kernel(source, "k")((2,), (4,), (x,))
    np.testing.assert_array_equal(x, want)


def test_atomic_updates_of_memory_that_is_bytes_too_are_refused() -> None:
    source = "__global__ void k(float *x, char c) {\n  ((char *)x)[5] = c;\n  atomicAdd((int *)x, 1);\n}"
    with pytest.raises(weft.UnsupportedError, match=r"(?s)atomic update of `x`.*smaller elements too.*source.cu:3"):
        weft.cuda.kernel(source, "k").show()


def test_all_that_is_not_supported_is_told_at_once() -> None:
    source = "__device__ int f(int);\n__global__ void k(int *x) {\n  x[0] = f(1);\n  x[1] = f(2);\n}"
    with pytest.raises(weft.UnsupportedError) as told:
        weft.cuda.kernel(source, "k").show()
    assert str(told.value) == (
        "error: kernel `k` cannot be run on a CPU: the function `f` has no body here\n"
        "  source.cu:3     x[0] = f(1);\n                         ^\n"
        "  also:  source.cu:4: the function `f` has no body here"
    )


SPOILED = """
#include <vector>
typedef std::vector<int> Numbers;
struct Bits { unsigned a : 3, b : 5; };
struct __attribute__((packed)) Packed { char a; int b; };
struct Holder { Numbers numbers; float x; };
struct Shape { float x; __device__ virtual float area() { return x; } };
__device__ float wrong(float x) { return no_such_function(x); }
template <class T> __device__ T one() { return 1; }
__global__ void good(float *y) { y[threadIdx.x] = one<float>(); }
__global__ void calls(float *y) { y[threadIdx.x] = wrong(2); }
__global__ void bits(const Bits *p, float *y) { y[threadIdx.x] = p->b; }
__global__ void packed(const Packed *p, float *y) { y[threadIdx.x] = p->b; }
__global__ void holder(const Holder *p, float *y) { y[threadIdx.x] = p->x; }
__global__ void shape(const Shape *p, float *y) { y[threadIdx.x] = p->x; }
"""


@pytest.mark.parametrize(
    ("kernel", "why"),
    [
        ("calls", r"`wrong`, of which clang says: use of undeclared identifier 'no_such_function' \(line 8\)"),
        ("bits", "member `b` of Bits, which has bit-fields"), ("packed", "Packed, which has packed fields"),
        ("holder", "Holder, which has parts that clang could not read"), ("shape", "virtual functions or bases"),
    ],
)  # fmt: skip
def test_what_clang_could_not_read_or_lies_otherwise_is_refused_where_it_is_used(kernel: str, why: str) -> None:
    from weft.from_cuda.launch import Launch
    from weft.from_cuda.translate import translate
    from weft.from_cuda.unit import find_kernel, read_unit

    host = f"void host() {{{'missing();' * 300}}}"  # clang goes on, however many errors there are
    unit = read_unit(SPOILED + host, host_too=False)
    translate(unit, find_kernel(unit, "good"), Launch())
    with pytest.raises(weft.Error, match=why):
        translate(unit, find_kernel(unit, kernel), Launch())
