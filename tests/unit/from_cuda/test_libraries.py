"""Libraries of CUDA that programs use: Thrust, CUB."""

from __future__ import annotations

import subprocess
from pathlib import Path

from weft.from_cuda.nvcc_options import read_options
from weft.from_cuda.program import build_program

THRUST_AND_CUB = r"""
#include <algorithm>
#include <cstdio>
#include <iostream>
#include <iterator>
#include <vector>
#include <cub/cub.cuh>
#include <thrust/device_vector.h>
#include <thrust/host_vector.h>
#include <thrust/sort.h>
#include <thrust/transform_reduce.h>
struct saxpy { float a; __device__ float operator()(float x, float y) const { return a * x + y; } };
struct is_even { __host__ __device__ bool operator()(int x) const { return x % 2 == 0; } };
struct add {
  template <typename T> __device__ void operator()(T t) { thrust::get<2>(t) = thrust::get<0>(t) + thrust::get<1>(t); }
};
__global__ void block_sum(const int *x, int *out, int n) {
  typedef cub::BlockReduce<int, 256> Reduce;
  typedef cub::BlockScan<int, 256> Scan;
  __shared__ union { typename Reduce::TempStorage reduce; typename Scan::TempStorage scan; } temp;
  int i = blockIdx.x * 256 + threadIdx.x, value = i < n ? x[i] : 0, before;
  int sum = Reduce(temp.reduce).Sum(value);
  __syncthreads();
  Scan(temp.scan).ExclusiveSum(value, before);
  if (threadIdx.x == 0) atomicAdd(out, sum);
  if (i == 255) out[1] = before + value;
}
template <typename T> void print(const T &all) {
  thrust::copy(all.begin(), all.end(), std::ostream_iterator<int>(std::cout, " "));
  std::cout << std::endl;
}
int main() {
  int n = 20000;
  thrust::host_vector<int> h(n);
  for (int i = 0; i < n; i++) h[i] = i * 7919 % 10007;
  thrust::device_vector<int> d = h, at(n), keys = h;
  thrust::sort(d.begin(), d.end());
  thrust::sequence(at.begin(), at.end());
  thrust::sort_by_key(keys.begin(), keys.end(), at.begin());
  std::vector<int> expected(h.begin(), h.end());
  std::sort(expected.begin(), expected.end());
  bool is_right = std::equal(expected.begin(), expected.end(), thrust::host_vector<int>(d).begin());
  for (int i = 1; i < n; i++) is_right &= h[at[i]] == d[i] && (d[i - 1] < d[i] || at[i - 1] < at[i]);
  thrust::device_vector<float> x(1000, 2.0f), y(1000);
  thrust::fill(y.begin(), y.end(), 1.0f);
  thrust::transform(x.begin(), x.end(), y.begin(), y.begin(), saxpy{3});
  float squares = thrust::transform_reduce(x.begin(), x.end(), thrust::square<float>(), 0.0f, thrust::plus<float>());
  printf("%d %g %g\n", is_right, thrust::reduce(y.begin(), y.end()), squares);
  int given[] = {1, 0, 2, 2, 1, 3};
  thrust::device_vector<int> a(given, given + 6), b(6, 5), c(6);
  thrust::for_each(thrust::make_zip_iterator(thrust::make_tuple(a.begin(), b.begin(), c.begin())),
                   thrust::make_zip_iterator(thrust::make_tuple(a.end(), b.end(), c.end())), add());
  print(c);
  thrust::inclusive_scan(a.begin(), a.end(), a.begin());
  thrust::exclusive_scan(a.begin(), a.end(), b.begin(), 4);
  print(a), print(b);
  printf("%d ", (int)thrust::count_if(a.begin(), a.end(), is_even()));
  printf("%d\n", (int)*thrust::max_element(b.begin(), b.end()));
  void *temporary = nullptr;
  size_t bytes = 0;
  int *sorted, *sum;
  cudaMallocManaged(&sorted, n * 4), cudaMallocManaged(&sum, 8), sum[0] = 0;
  cub::DeviceRadixSort::SortKeysDescending(temporary, bytes, thrust::raw_pointer_cast(keys.data()), sorted, n);
  cudaMalloc(&temporary, bytes);
  cub::DeviceRadixSort::SortKeysDescending(temporary, bytes, thrust::raw_pointer_cast(keys.data()), sorted, n);
  is_right = std::equal(expected.rbegin(), expected.rend(), sorted);
  block_sum<<<(n + 255) / 256, 256>>>(sorted, sum, n);
  cub::DeviceReduce::Sum(temporary, bytes, sorted, sorted + 1, n);
  int first = 0;
  for (int i = 0; i < 256; i++) first += expected[n - 1 - i];
  printf("%d %d %d\n", is_right, sum[0] == sorted[1], sum[1] == first);
}
"""


def printed(folder: Path, text: str, *options: str) -> list[str]:
    (folder / "program.cu").write_text(text)
    (program,) = build_program(read_options([*options, str(folder / "program.cu"), "-o", str(folder / "program")]))
    return subprocess.run([program], capture_output=True, text=True, check=True).stdout.splitlines()


def test_thrust_and_cub(tmp_path: Path) -> None:
    assert printed(tmp_path, THRUST_AND_CUB) == [
        "1 7000 4000", "6 5 7 7 6 8 ", "1 1 3 5 6 9 ", "4 5 6 9 14 20 ", "1 20", "1 1 1",
    ]  # fmt: skip
