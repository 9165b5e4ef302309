"""Libraries of CUDA that programs use: Thrust, CUB, cuRAND, cuFFT; graphs, the driver, units that are linked."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from weft.from_cuda.context import Launch
from weft.from_cuda.grid_code import compile_grid
from weft.from_cuda.nvcc_options import read_options
from weft.from_cuda.program import build_program
from weft.from_cuda.translate import translate
from weft.from_cuda.unit import read_unit
from weft.ir.errors import UnsupportedError

THRUST_AND_CUB = r"""
#include <algorithm>
#include <cstdio>
#include <iostream>
#include <iterator>
#include <vector>
#include <cub/cub.cuh>
#include <thrust/count.h>
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
  bool is_right = d == expected && expected == thrust::host_vector<int>(d) && h != expected;
  is_right &= std::equal(expected.begin(), expected.end(), thrust::host_vector<int>(d).begin());
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


NUMBERS = r"""
#include <cmath>
#include <complex>
#include <cstdio>
#include <cuda.h>
#include <cufft.h>
#include <curand.h>
#include <curand_kernel.h>
struct Scale { float by; int n; };
__global__ void draw(unsigned *out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  curandState state;
  curand_init(1234, i, 0, &state);
  out[i] = curand(&state), out[i + 4096] = curand(&state);
}
__global__ void add(Scale s, const float *x, float *y, bool is_minus) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < s.n) y[i] += (is_minus ? -1 : 1) * s.by * x[i];
}
void told(void *count) { ++*(int *)count; }
void graphs() {
  int n = 1000, calls = 0;
  float *x, *y, *h;
  cudaMalloc(&x, n * 4), cudaMalloc(&y, n * 4), cudaMallocHost(&h, n * 4), h[10] = 10;
  cudaStream_t s;
  cudaGraph_t graph;
  cudaGraphExec_t made;
  cudaStreamCreate(&s);
  cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal);
  cudaMemcpyAsync(x, h, n * 4, cudaMemcpyHostToDevice, s), cudaMemsetAsync(y, 0, n * 4, s);
  for (int k = 0; k < 3; k++) add<<<4, 256, 0, s>>>(Scale{2.0f + k, n}, x, y, false);
  cudaLaunchHostFunc(s, told, &calls);
  cudaMemcpyAsync(h, y, n * 4, cudaMemcpyDeviceToHost, s);
  cudaStreamEndCapture(s, &graph);
  printf("%d %g ", calls, h[10]);
  cudaGraphInstantiate(&made, graph, 0);
  cudaGraphLaunch(made, s), cudaGraphLaunch(made, s), cudaStreamSynchronize(s);
  printf("%d %g\n", calls, h[10]);
}
void driver() {
  CUfunction function;
  CUdeviceptr x, y;
  float from[4] = {1, 2, 3, 4}, to[4];
  cuInit(0), cuMemAlloc(&x, 16), cuMemAlloc(&y, 16), cuMemcpyHtoD(x, from, 16), cuMemcpyHtoD(y, from, 16);
  Scale s = {2, 4};
  bool is_minus = true;
  void *arguments[] = {&s, &x, &y, &is_minus};
  cudaGetFuncBySymbol(&function, (const void *)add);
  cuLaunchKernel(function, 1, 1, 1, 4, 1, 1, 0, 0, arguments, nullptr);
  cuMemcpyDtoH(to, y, 16);
  printf("%g\n", to[3]);
}
double error_of(int nx, int ny, const cufftComplex *in, const float *real, const cufftComplex *out, int columns) {
  double most = 0;
  for (int a = 0; a < nx; a++)
    for (int b = 0; b < columns; b++) {
      std::complex<double> sum = 0;
      for (int i = 0; i < nx * ny; i++)
        sum += (in ? std::complex<double>(in[i].x, in[i].y) : real[i]) *
               std::polar(1.0, -2 * M_PI * ((double)a * (i / ny) / nx + (double)b * (i % ny) / ny));
      cufftComplex found = out[a * columns + b];
      most = std::max(most, std::abs(sum - std::complex<double>(found.x, found.y)));
    }
  return most;
}
__managed__ unsigned a[8192], b[8192];
__managed__ cufftComplex x[100], y[100], c[36];
__managed__ float r[60], z[60];
int main() {
  curandGenerator_t g, p;
  curandCreateGenerator(&g, CURAND_RNG_PSEUDO_DEFAULT), curandSetPseudoRandomGeneratorSeed(g, 1234);
  curandGenerate(g, a, 5000), curandGenerate(g, a + 5000, 3192);
  draw<<<16, 256>>>(b), cudaDeviceSynchronize();
  int same = 0;
  for (int i = 0; i < 8192; i++) same += a[i] == b[i];
  curandCreateGenerator(&p, CURAND_RNG_PSEUDO_PHILOX4_32_10), curandGenerate(p, a, 4), cudaDeviceSynchronize();
  printf("%d %x %x\n", same, a[0], a[3]);
  for (int n : {64, 100}) {
    for (int i = 0; i < n; i++) x[i] = make_cuComplex(sin(i), cos(3 * i));
    cufftHandle plan;
    cufftPlan1d(&plan, n, CUFFT_C2C, 1), cufftExecC2C(plan, x, y, CUFFT_FORWARD), cudaDeviceSynchronize();
    printf("%d ", error_of(1, n, x, nullptr, y, n) < 1e-4);
    cufftExecC2C(plan, y, y, CUFFT_INVERSE), cudaDeviceSynchronize();
    printf("%d\n", fabs(y[7].x / n - x[7].x) < 1e-5);
  }
  for (int i = 0; i < 60; i++) r[i] = sin(i * i);
  cufftHandle plan, back;
  cufftPlan2d(&plan, 6, 10, CUFFT_R2C), cufftExecR2C(plan, r, c), cudaDeviceSynchronize();
  bool is_right = error_of(6, 10, nullptr, r, c, 6) < 1e-4;  // what is transformed back need not stay
  cufftPlan2d(&back, 6, 10, CUFFT_C2R), cufftExecC2R(back, c, z), cudaDeviceSynchronize();
  printf("%d %d\n", is_right, fabs(z[42] / 60 - r[42]) < 1e-5);
  printf("%g %g\n", rsqrtf(4.0f), sinpi(0.5));
  graphs(), driver();
}
"""


def test_random_numbers_transforms_graphs_and_the_driver(tmp_path: Path) -> None:
    """The host's XORWOW is the device's, 4096 sequences in turn; a graph's work is done when it is launched."""
    assert printed(tmp_path, NUMBERS) == [
        "8192 6627e8d5 9b00dbd8", "1 1", "1 1", "1 1", "0.5 1", "0 10 2 810", "-4",
    ]  # fmt: skip


LIMITS = r"""
#include <cstdio>
#include <cuda.h>
#include <curand.h>
int main() {
  curandGenerator_t made;
  CUmodule module;
  printf("%d ", curandCreateGenerator(&made, CURAND_RNG_PSEUDO_MT19937));
  printf("%d\n", cuModuleLoadData(&module, ".version 8.0") == CUDA_ERROR_INVALID_IMAGE);
}
"""


def test_what_the_libraries_do_not_have_is_an_error_of_theirs(tmp_path: Path) -> None:
    assert printed(tmp_path, LIMITS) == ["103 1"]


def test_units_that_are_linked_share_functions_and_variables(tmp_path: Path) -> None:
    (tmp_path / "other.cu").write_text("""
__device__ int counter = 100;
__constant__ float factor = 3;
__device__ float twice(float x) { __syncthreads(); return 2 * x; }
extern "C" __device__ float half_of(float x) { __syncthreads(); return x / 2; }
extern "C" __host__ __device__ int is_device() {
#ifdef __CUDA_ARCH__
  return 1;
#else
  return 0;
#endif
}
int counted() { int c; cudaMemcpyFromSymbol(&c, counter, 4); return c; }
""")
    text = r"""
#include <cstdio>
extern __device__ int counter;
extern __constant__ float factor;
__device__ float twice(float x);
extern "C" __device__ float half_of(float x);
extern "C" __host__ __device__ int is_device();
int counted();
__global__ void k(float *x) {
  x[threadIdx.x] = twice(half_of(twice(x[threadIdx.x]))) * factor * is_device() + (float)lgamma(1.0);
  atomicAdd(&counter, 1);
}
int main() {
  float *x;
  int c;
  cudaMallocManaged(&x, 128), x[5] = 5;
  k<<<1, 32>>>(x);
  cudaMemcpyFromSymbol(&c, counter, 4);
  printf("%g %d %d %d\n", x[5], c, counted(), is_device());
}
"""
    assert printed(tmp_path, text, "-rdc=true", str(tmp_path / "other.cu")) == ["30 132 132 0"]


PRODUCTS = r"""
#include <cstdio>
#include <cublasLt.h>
#include <cublas_v2.h>
int main() {
  const int m = 5, n = 3, k = 4;
  float *a, *b, *bias, *d, one = 1, zero = 0;
  __nv_bfloat16 *ha, *hb, *hc;
  cudaMalloc(&a, 400), cudaMalloc(&b, 400), cudaMalloc(&bias, 400), cudaMalloc(&d, 400);
  cudaMalloc(&ha, 400), cudaMalloc(&hb, 400), cudaMalloc(&hc, 400);
  for (int i = 0; i < 20; i++) a[i] = i % 7 - 3, b[i] = i % 5 - 2, bias[i] = i, ha[i] = a[i], hb[i] = b[i];
  cublasLtHandle_t handle;
  cublasLtMatmulDesc_t how;
  cublasLtMatrixLayout_t la, lb, ld;
  cublasOperation_t turned = CUBLAS_OP_T;
  cublasLtEpilogue_t behind = CUBLASLT_EPILOGUE_RELU_BIAS;
  cublasLtCreate(&handle), cublasLtMatmulDescCreate(&how, CUBLAS_COMPUTE_32F, CUDA_R_32F);
  cublasLtMatmulDescSetAttribute(how, CUBLASLT_MATMUL_DESC_TRANSA, &turned, sizeof turned);
  cublasLtMatmulDescSetAttribute(how, CUBLASLT_MATMUL_DESC_EPILOGUE, &behind, sizeof behind);
  cublasLtMatmulDescSetAttribute(how, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias);
  cublasLtMatrixLayoutCreate(&la, CUDA_R_32F, k, m, k), cublasLtMatrixLayoutCreate(&lb, CUDA_R_32F, k, n, k);
  cublasLtMatrixLayoutCreate(&ld, CUDA_R_32F, m, n, m);
  int wrong = cublasLtMatmul(handle, how, &one, a, la, b, lb, &zero, d, ld, d, ld, nullptr, nullptr, 0, 0);
  for (int i = 0; i < m * n; i++) {
    float sum = bias[i % m];
    for (int l = 0; l < k; l++) sum += a[i % m * k + l] * b[i / m * k + l];
    wrong += d[i] != (sum > 0 ? sum : 0);
  }
  cublasHandle_t plain;
  cublasCreate(&plain);
  wrong += cublasGemmEx(plain, CUBLAS_OP_N, CUBLAS_OP_N, m, n, k, &one, ha, CUDA_R_16BF, m, hb, CUDA_R_16BF, k, &zero,
                        hc, CUDA_R_16BF, m, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
  for (int i = 0; i < m * n; i++) {
    float sum = 0;
    for (int l = 0; l < k; l++) sum += a[l * m + i % m] * b[i / m * k + l];
    wrong += (float)hc[i] != sum;
  }
  printf("%d wrong\n", wrong);
}
"""


def test_products_by_descriptors_and_of_other_types(tmp_path: Path) -> None:
    assert printed(tmp_path, PRODUCTS) == ["0 wrong"]


def test_graphs_record_every_kind_of_work_of_their_streams_and_only_theirs(tmp_path: Path) -> None:
    text = (Path(__file__).parent / "graphs.cu").read_text()
    assert printed(tmp_path, text) == ["1 1 0  0 0 5 0", "7 1 5 6", "7 11 7", "0 15", "1"]


def test_rounding_in_a_direction_and_groups_of_every_kind(tmp_path: Path) -> None:
    text = (Path(__file__).parent / "rounding_and_groups.cu").read_text()
    # Thread 40: 40 + ... + 47; thread 37 has 111, 37.5 and 37; 34, 37, ..., 61 have its label.
    assert printed(tmp_path, text, "-Xcompiler", "-frounding-math") == ["0 0", "348 223 61 10 2016 13", "1"]


def test_what_is_refused_in_one_kernel_leaves_the_others_as_whole_grids() -> None:
    """Textures and rounding in a direction are declared for the reader: a source with them is read."""
    folder = Path(__file__).parent
    for file, kernel in (("runtime_calls.cu", "_Z5twicePi"), ("rounding_and_groups.cu", "_Z6groupsPi")):
        unit = read_unit((folder / file).read_text(), file, host_too=False)
        assert kernel in list(unit.kernels)  # names alone: trees are long to print
    unit = read_unit((folder / "rounding_and_groups.cu").read_text(), host_too=False)
    with pytest.raises(UnsupportedError, match="`__fadd_rd` has no body here"):
        compile_grid(unit, "_Z7roundedPKfS0_P7RoundedIfEi", "any")


def test_calls_of_the_runtime(tmp_path: Path) -> None:
    text = (Path(__file__).parent / "runtime_calls.cu").read_text()
    invalid = "cudaErrorInvalidValue"
    assert printed(tmp_path, text) == [
        "0 wrong", "30 1 0 1 1", f"{invalid} cudaSuccess {invalid} {invalid} cudaSuccess", "0 1",
    ]  # fmt: skip


def test_threads_wait_by_counts_and_stages(tmp_path: Path) -> None:
    text = (Path(__file__).parent / "waiting.cu").read_text()
    assert printed(tmp_path, text) == ["0 2016 63"]


def test_lambdas_of_the_host_as_arguments(tmp_path: Path) -> None:
    text = (Path(__file__).parent / "closures.cu").read_text()
    x = [2.5 * i + (2.5 * (i - 9) if 10 <= i < 15 else 0) for i in range(20)]
    expected = [f"{23 * v + 30:g} {i + 25:g}" for i, v in enumerate(x)]
    assert printed(tmp_path, text, "--extended-lambda") == expected


def test_lambdas_of_the_host_are_whole_grids() -> None:
    unit = read_unit((Path(__file__).parent / "closures.cu").read_text(), host_too=False)
    assert len(unit.kernels) == 5
    for kernel in unit.kernels.values():
        translate(unit, kernel, Launch())
