"""What programs of strangers asked for first: patterns that become whole grids, functions of libraries, what is told."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from test_programs import build, run

import weft

PATTERNS = r"""
#include <cstdio>
#include <cstdint>
#include <cub/cub.cuh>
__managed__ int total;
struct Most {
  template <typename T, typename U> __device__ typename std::common_type<T, U>::type operator()(T &&t, U &&u) const {
    return t > u ? t : u;
  }
};
__global__ void add() { atomicAdd(&total, (int)threadIdx.x); }
__global__ void reduce(const float *x, float *y) {
  typedef cub::BlockReduce<float, 256> R;
  __shared__ typename R::TempStorage t;
  float most = R(t).Reduce(x[threadIdx.x], Most());
  if (threadIdx.x == 0) *y = most;
}
__global__ void ticks(clock_t *t) {
  clock_t a = clock();
  t[threadIdx.x] = clock() - a + 3;
}
template <class T> __device__ bool is_aligned(T *p) { return (uint64_t)p % 16 == 0; }
__global__ void align(float *x, float *y) {
  int i = threadIdx.x;
  y[i] = is_aligned(x) ? x[i] + 1 : x[i] + 2;
}
__global__ void table(float *x) {
  const float primes[] = {2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59};
  x[threadIdx.x] = primes[(threadIdx.x * 5) % 17];
}
int main() {
  float *x, *y;
  clock_t *t;
  cudaMallocManaged(&x, 1024);
  cudaMallocManaged(&y, 1024);
  cudaMallocManaged(&t, 64 * sizeof(clock_t));
  for (int i = 0; i < 256; i++) x[i] = i * 37 % 256;
  add<<<1, 32>>>();
  reduce<<<1, 256>>>(x, y);
  ticks<<<1, 64>>>(t);
  cudaDeviceSynchronize();
  printf("%d %g %d\n", total, *y, t[63] >= 3);
  align<<<1, 8>>>(x, y);
  cudaDeviceSynchronize();
  printf("%g %g\n", y[0], y[1]);
  align<<<1, 8>>>(x + 1, y);
  cudaDeviceSynchronize();
  printf("%g\n", y[0]);
  table<<<1, 17>>>(x);
  cudaDeviceSynchronize();
  printf("%g %g %g\n", x[0], x[1], x[16]);
}
"""


def test_patterns_that_were_refused_are_whole_grids(tmp_path: Path) -> None:
    program = build(tmp_path, ("program.cu", PATTERNS))
    found = run(program, WEFT_CUDA_TIMES=str(tmp_path / "times"))
    expected = ["496 255 1", "1 38", "39", "2 13 41"]
    assert found.stdout.splitlines() == expected
    assert run(program, WEFT_CUDA_SERIAL="1").stdout.splitlines() == expected
    times = (line.split() for line in (tmp_path / "times").read_text().splitlines())
    assert {name: threads for name, _, threads, _ in times} == dict.fromkeys(
        ("_Z3addv", "_Z6reducePKfPf", "_Z5ticksPl", "_Z5alignPfS_", "_Z5tablePf"), "0"
    )


def test_a_number_made_from_a_pointer_that_shares_its_memory() -> None:
    source = PATTERNS[PATTERNS.index("template <class T> __device__ bool") : PATTERNS.index("__global__ void table")]
    kernel = weft.cuda.kernel("#include <cstdint>\n" + source, "align")
    memory = np.zeros(16, np.float32)
    start = -memory.ctypes.data // 4 % 4  # where a multiple of 16 bytes begins
    for first, added in ((start, 1), (start + 1, 2)):
        x = memory[first : first + 8]
        x[:] = range(8)
        kernel((1,), (8,), (x, x))
        assert x.tolist() == [i + added for i in range(8)]


LIBRARIES = r"""
#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda_fp8.h>
#include <cusparse.h>
#include <thrust/pair.h>
#include <thrust/tuple.h>
#include <cstdio>
__global__ void tied(float *y) {
  float a, b;
  thrust::tie(a, b) = thrust::make_pair(1.f, 2.f);
  *y = a + 10 * b;
}
// Against loops, for each way to turn the matrices; batches, sizes that are no multiples.
int whole_products(cublasHandle_t h) {
  const int m = 5, n = 3, k = 7, count = 2;
  int8_t *a, *b;
  int *c, *was;
  float *f;
  cudaMallocManaged(&a, m * k * count), cudaMallocManaged(&b, k * n * count);
  cudaMallocManaged(&c, m * n * count * 4), cudaMallocManaged(&was, m * n * count * 4), cudaMallocManaged(&f, m * n * 4);
  for (int i = 0; i < m * k * count; i++) a[i] = i * 29 % 251 - 125;
  for (int i = 0; i < k * n * count; i++) b[i] = i * 53 % 255 - 127;
  int wrong = 0;
  for (int turned = 0; turned < 4; turned++) {
    bool ta = turned & 1, tb = turned & 2;
    for (int i = 0; i < m * n * count; i++) c[i] = was[i] = i - 9;
    int alpha = 3, beta = -2;
    wrong += cublasGemmStridedBatchedEx(h, ta ? CUBLAS_OP_T : CUBLAS_OP_N, tb ? CUBLAS_OP_T : CUBLAS_OP_N, m, n, k, &alpha,
                                        a, CUDA_R_8I, ta ? k : m, m * k, b, CUDA_R_8I, tb ? n : k, k * n, &beta, c, CUDA_R_32I,
                                        m, m * n, count, CUBLAS_COMPUTE_32I, CUBLAS_GEMM_DEFAULT) != 0;
    float one = 0.5f, none = 0;
    wrong += cublasGemmEx(h, ta ? CUBLAS_OP_T : CUBLAS_OP_N, tb ? CUBLAS_OP_T : CUBLAS_OP_N, m, n, k, &one, a, CUDA_R_8I,
                          ta ? k : m, b, CUDA_R_8I, tb ? n : k, &none, f, CUDA_R_32F, m, CUBLAS_COMPUTE_32F,
                          CUBLAS_GEMM_DEFAULT) != 0;
    for (int q = 0; q < count; q++)
      for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
          int sum = 0;
          for (int l = 0; l < k; l++)
            sum += a[q * m * k + (ta ? i * k + l : l * m + i)] * b[q * k * n + (tb ? l * n + j : j * k + l)];
          int at = q * m * n + j * m + i;
          wrong += c[at] != 3 * sum - 2 * was[at];
          if (q == 0) wrong += f[at] != 0.5f * sum;
        }
  }
  return wrong;
}
int vectors(cublasHandle_t h) {
  __half *x, *y;
  cudaMallocManaged(&x, 34), cudaMallocManaged(&y, 34);
  float dot, norm, expected = 0, squares = 0, alpha = 2;
  for (int i = 0; i < 17; i++) x[i] = __float2half(i), y[i] = __float2half(i % 3), expected += i * (i % 3), squares += i * i;
  int wrong = cublasDotEx(h, 17, x, CUDA_R_16F, 1, y, CUDA_R_16F, 1, &dot, CUDA_R_32F, CUDA_R_32F) != 0 || dot != expected;
  wrong += cublasNrm2Ex(h, 17, x, CUDA_R_16F, 1, &norm, CUDA_R_32F, CUDA_R_32F) != 0 || norm * norm - squares > 1e-2;
  wrong += cublasAxpyEx(h, 17, &alpha, CUDA_R_32F, x, CUDA_R_16F, 1, y, CUDA_R_16F, 1, CUDA_R_32F) != 0;
  for (int i = 0; i < 17; i++) wrong += __half2float(y[i]) != 2 * i + i % 3;
  wrong += cublasScalEx(h, 17, &alpha, CUDA_R_32F, x, CUDA_R_16F, 1, CUDA_R_32F) != 0 || __half2float(x[16]) != 32;
  return wrong;
}
// A dense matrix into each format and back.
int sparse(cusparseHandle_t h) {
  const int m = 4, n = 3;
  float dense[m * n] = {1, 0, 0, 2, 0, 0, 0, 3, 4, 0, 0, 0}, back[m * n];
  int wrong = 0;
  for (int kind = 0; kind < 6; kind++) {
    int base = kind / 3, offsets[m + 1], inner[m * n], outer[m * n];
    float values[m * n];
    cusparseDnMatDescr_t from, to;
    cusparseSpMatDescr_t a;
    cusparseCreateDnMat(&from, m, n, m, dense, CUDA_R_32F, CUSPARSE_ORDER_COL);
    cusparseCreateDnMat(&to, m, n, m, back, CUDA_R_32F, CUSPARSE_ORDER_COL);
    cusparseIndexBase_t b = (cusparseIndexBase_t)base;
    if (kind % 3 == 0) cusparseCreateCsr(&a, m, n, 0, offsets, nullptr, nullptr, CUSPARSE_INDEX_32I, CUSPARSE_INDEX_32I, b, CUDA_R_32F);
    if (kind % 3 == 1) cusparseCreateCsc(&a, m, n, 0, offsets, nullptr, nullptr, CUSPARSE_INDEX_32I, CUSPARSE_INDEX_32I, b, CUDA_R_32F);
    if (kind % 3 == 2) cusparseCreateCoo(&a, m, n, 0, nullptr, nullptr, nullptr, CUSPARSE_INDEX_32I, b, CUDA_R_32F);
    size_t bytes;
    wrong += cusparseDenseToSparse_bufferSize(h, from, a, CUSPARSE_DENSETOSPARSE_ALG_DEFAULT, &bytes) != 0;
    wrong += cusparseDenseToSparse_analysis(h, from, a, CUSPARSE_DENSETOSPARSE_ALG_DEFAULT, nullptr) != 0;
    int64_t rows, columns, count;
    cusparseSpMatGetSize(a, &rows, &columns, &count);
    wrong += count != 4;
    if (kind % 3 == 0) cusparseCsrSetPointers(a, offsets, inner, values);
    if (kind % 3 == 1) cusparseCscSetPointers(a, offsets, inner, values);
    if (kind % 3 == 2) cusparseCooSetPointers(a, outer, inner, values);
    wrong += cusparseDenseToSparse_convert(h, from, a, CUSPARSE_DENSETOSPARSE_ALG_DEFAULT, nullptr) != 0;
    cusparseSparseToDense(h, a, to, CUSPARSE_SPARSETODENSE_ALG_DEFAULT, nullptr);
    for (int i = 0; i < m * n; i++) wrong += back[i] != dense[i];
  }
  return wrong;
}
int main() {
  float *y;
  cudaMallocManaged(&y, 4);
  tied<<<1, 1>>>(y);
  cudaDeviceSynchronize();
  __nv_fp8x4_e4m3 four(make_float4(1, -2, 0.5f, 448));
  float4 found = float4(four);
  float2 two = float2(__nv_fp8x2_e5m2(make_float2(-3, 57344)));
  printf("%g %g %g %g %g %g %g\n", *y, found.x, found.y, found.z, found.w, two.x, two.y);
  cublasHandle_t h;
  cublasCreate(&h);
  cusparseHandle_t s;
  cusparseCreate(&s);
  printf("%d %d %d\n", whole_products(h), vectors(h), sparse(s));
  for (int i = 0; i < 2; i++)
    printf("%d\n", cublasGemmEx(h, CUBLAS_OP_N, CUBLAS_OP_N, 1, 1, 1, y, y, CUDA_C_32F, 1, y, CUDA_C_32F, 1, y, y, CUDA_C_32F, 1,
                                CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
}
"""


def test_functions_of_libraries_that_were_not_there(tmp_path: Path) -> None:
    program = build(tmp_path, ("program.cu", LIBRARIES))
    found = run(program)
    assert found.stdout.splitlines() == ["21 1 -2 0.5 448 -3 57344", "0 0 0", "15", "15"]
    # What a library does not do is told, once.
    assert found.stderr.splitlines() == [
        "weft: cublasLtMatmul does not support these types, orders or epilogues here: it does nothing and gives "
        "CUBLAS_STATUS_NOT_SUPPORTED (15)"
    ]
