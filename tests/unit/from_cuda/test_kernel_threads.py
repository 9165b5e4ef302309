"""Kernels that cannot be read as whole grids run thread by thread, from Python too, and are checked so."""

from __future__ import annotations

import numpy as np
import pytest

import weft

SOURCE = """
#include <cstdio>
__device__ int scale = 3;
struct Shape { __device__ virtual int area() const { return 0; } };
struct Square : Shape {
  int side;
  __device__ Square(int s) : side(s) {}
  __device__ int area() const override { return side * side; }
};
__device__ int depth(int n) { return n <= 1 ? 1 : depth(n / 2) + depth(n / 3); }
__device__ int twice(int x) { return 2 * x; }
__device__ int negated(int x) { return -x; }
__global__ void k(int *x, int n) {
  int i = threadIdx.x;
  int (*way)(int) = i % 2 ? twice : negated;
  Square square(i);
  const Shape *shape = &square;
  if (i < n) x[i] = scale * way(depth(i)) + shape->area();
  if (i == 1) printf("thread %d of %d\\n", i, (int)blockDim.x);
  if (i == 2) scale = 4;
}
"""


ASSERTS = """
#include <cassert>
__global__ void k(const int *x, int *y, int n) {
  __shared__ int s[64];
  int t = threadIdx.x;
  s[t] = x[t];
  __syncthreads();
  assert(s[63 - t] < n && "small {numbers}");
  y[t] = s[63 - t];
}
__device__ int deep(int n) { assert(n < 5); return n <= 0 ? 0 : deep(n - 1) + 1; }
__global__ void by_threads(int *y, int n) { y[threadIdx.x] = deep(n + threadIdx.x); }
"""


def test_assertions_end_a_launch(capfd: pytest.CaptureFixture[str]) -> None:
    x, y = np.arange(64, dtype=np.int32), np.zeros(64, np.int32)
    k = weft.cuda.kernel(ASSERTS, "k")
    k((1,), (64,), (x, y, 64))
    assert y.tolist() == x[::-1].tolist()
    with pytest.raises(weft.Error, match=r'(?s)assertion `s\[63 - t\] < n && "small \(numbers\)"` failed.*source.cu:8'):
        k((1,), (64,), (x, y, 60))
    threads = weft.cuda.kernel(ASSERTS, "by_threads")
    threads((1,), (4,), (y, 1))
    assert y[:4].tolist() == [1, 2, 3, 4]
    with pytest.raises(weft.TargetError, match="device-side assert triggered"):
        threads((1,), (4,), (y, 2))
    assert "block: [0,0,0], thread: [3,0,0] Assertion `n < 5` failed." in capfd.readouterr().err


AGGREGATED = """
#include <cooperative_groups.h>
__device__ int next(int *count) {
  auto together = cooperative_groups::coalesced_threads();
  int first;  // set by one lane only: the others' goes into the shuffle all the same
  if (together.thread_rank() == 0) first = atomicAdd(count, together.size());
  return together.shfl(first, 0) + together.thread_rank();
}
__device__ int ends(int n) { return n < 3 ? n : ends(n - 3); }
__global__ void k(int *to, int *count, const int *from) {
  if (ends(from[threadIdx.x]) == 0) to[next(count)] = from[threadIdx.x];
}
"""


def test_a_value_that_one_lane_sets_goes_into_a_shuffle() -> None:
    """Clang took the test which lane sets it for one that always holds."""
    given = np.arange(64, dtype=np.int32) * 5 % 64
    to, count = np.full(64, -1, np.int32), np.zeros(1, np.int32)
    weft.cuda.kernel(AGGREGATED, "k")((1,), (64,), (to, count, given))
    assert count[0] == 22
    assert sorted(to[:22].tolist()) == list(range(0, 64, 3))


def _depth(n: int) -> int:
    return 1 if n <= 1 else _depth(n // 2) + _depth(n // 3)


def test_recursion_virtual_functions_pointers_and_printf_run(capfd: pytest.CaptureFixture[str]) -> None:
    k = weft.cuda.kernel(SOURCE, "k")
    x = np.zeros(20, np.int32)
    k.symbol("scale").view(np.int32)[:] = 5
    k((1,), (32,), (x, 20))
    expected = [(5 if i <= 2 else 4) * (2 if i % 2 else -1) * _depth(i) + i * i for i in range(20)]
    assert x.tolist() == expected
    assert k.symbol("scale").view(np.int32)[0] == 4
    assert capfd.readouterr().out == "thread 1 of 32\n"
    with pytest.raises(weft.UnsupportedError, match=r"source.cu:"):
        k.show()
    report = k.check((1,), (32,), (x, 33))
    assert x.tolist() == expected
    found = {f.kind: str(f) for f in report.findings}
    assert "source.cu:18" in found["out of bounds"]
    assert "byte 80 of `registered memory of the host`, which has 80" in found["out of bounds"]


SEEN = """
#include <cstdio>
template <class T> __global__ void k(T *y, int n) {
  __shared__ bool found;
  __shared__ T where[4];
  int t = threadIdx.x, step;
  if (n < 0) printf("thread by thread: %p\\n", y);
  found = false;
  for (step = 0; step < 4 && !found; ++step) {
    __syncthreads();
    if (t == 5 && step == n) found = true, where[1] = t;
    __syncthreads();
  }
  y[t] = 10 * step + where[1];
}
"""


def test_threads_see_what_others_put_into_shared_variables() -> None:
    """Variables that one function uses became that function's own."""
    y = np.zeros(32, np.int32)
    k = weft.cuda.kernel(SEEN, "k<int>")
    k((1,), (32,), (y, 2))
    assert y.tolist() == [35] * 32
    assert "nothing" in str(k.check((1,), (32,), (y, 2)))


MET_BY_SOME = """
__device__ int fall(int n) { return n < 3 ? n : fall(n - 3); }
__global__ void k(const float *x, float *y) {
  int l = threadIdx.x;
  float v = x[l];
  if (fall(l) > 0) {
    unsigned here = __activemask();
    y[l] = __popc(here) + __shfl_sync(here, v, __ffs(here) - 1);
  }
}
"""
WARP_DECIDES = MET_BY_SOME.replace("fall(l) > 0", "l == 0 || x[l] > 5")


@pytest.mark.parametrize("source", [MET_BY_SOME, WARP_DECIDES])
def test_what_only_the_passes_refuse_runs_thread_by_thread_too(source: str) -> None:
    """Reading was one refusal, making code another, after which nothing else was tried."""
    x, y = np.arange(32, dtype=np.float32), np.zeros(32, np.float32)
    weft.cuda.kernel(source, "k")((1,), (32,), (x, y))
    here = [i for i in range(32) if (i % 3 if source is MET_BY_SOME else i == 0 or i > 5)]
    assert y.tolist() == [len(here) + here[0] if i in here else 0 for i in range(32)]


RECORD = """
struct Pair { int a[2]; char c; };
struct Given { float scale; Pair p; };
__global__ void k(Given g, float *y) { y[threadIdx.x] = g.scale * (g.p.a[0] - g.p.a[1]) + g.p.c; }
"""


def test_a_record_is_given_as_a_tuple_of_its_fields() -> None:
    y = np.zeros(2, np.float32)
    k = weft.cuda.kernel(RECORD, "k")
    k((1,), (2,), ((2.5, [(7, 3), 4]), y))
    assert y.tolist() == [14, 14]
    for wrong in (2.5, (2.5,), (2.5, ((7, 3, 1), 4)), (2.5, ((7, 3), "c")), b"123"):
        with pytest.raises(weft.ArgumentError, match=r"`g[.\w]*`"):
            k((1,), (2,), (wrong, y))
