#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda_fp8.h>
#include <cusparse.h>
#include <thrust/device_vector.h>
#include <thrust/extrema.h>
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
// Bytes into ints and doubles by descriptors, with a result of its own.
template <typename T, typename S> int described(cudaDataType type, cudaDataType sums, cublasComputeType_t compute) {
  const int m = 4, n = 3, k = 5;
  T a[m * k], b[k * n];
  S c[m * n], d[m * n], alpha = 2, beta = 3;
  for (int i = 0; i < m * k; i++) a[i] = (T)(i * 7 % 19 - 9);
  for (int i = 0; i < k * n; i++) b[i] = (T)(i * 5 % 13 - 6);
  for (int i = 0; i < m * n; i++) c[i] = i, d[i] = -1;
  cublasLtHandle_t h;
  cublasLtMatmulDesc_t how;
  cublasLtMatrixLayout_t layouts[3];
  cublasLtMatmulPreference_t preference;
  cublasLtMatmulHeuristicResult_t found;
  int wrong = 0, results, turned = CUBLAS_OP_T;
  cublasLtCreate(&h);
  cublasLtMatmulDescCreate(&how, compute, sums);
  cublasLtMatmulDescSetAttribute(how, CUBLASLT_MATMUL_DESC_TRANSA, &turned, 4);
  cublasLtMatrixLayoutCreate(&layouts[0], type, k, m, k);
  cublasLtMatrixLayoutCreate(&layouts[1], type, k, n, k);
  cublasLtMatrixLayoutCreate(&layouts[2], sums, m, n, m);
  cublasLtMatmulPreferenceCreate(&preference);
  wrong += cublasLtMatmulAlgoGetHeuristic(h, how, layouts[0], layouts[1], layouts[2], layouts[2], preference, 1, &found, &results) != 0;
  wrong += cublasLtMatmul(h, how, &alpha, a, layouts[0], b, layouts[1], &beta, c, layouts[2], d, layouts[2], nullptr, nullptr, 0, 0) != 0;
  for (int i = 0; i < m; i++)
    for (int j = 0; j < n; j++) {
      S sum = 0;
      for (int l = 0; l < k; l++) sum += (S)a[i * k + l] * (S)b[j * k + l];
      wrong += d[j * m + i] != 2 * sum + 3 * c[j * m + i];
    }
  return wrong;
}
int sorted(cusparseHandle_t h) {
  int offsets[] = {0, 3, 3, 5}, columns[] = {2, 0, 1, 1, 0}, order[5], rows[] = {1, 0, 1, 0}, across[] = {1, 1, 0, 0}, places[4];
  cusparseMatDescr_t d;
  cusparseCreateMatDescr(&d);
  size_t bytes;
  int wrong = cusparseXcsrsort_bufferSizeExt(h, 3, 3, 5, offsets, columns, &bytes) != 0;
  cusparseCreateIdentityPermutation(h, 5, order);
  wrong += cusparseXcsrsort(h, 3, 3, 5, d, offsets, columns, order, nullptr) != 0;
  int expected[] = {0, 1, 2, 0, 1}, from[] = {1, 2, 0, 4, 3};
  for (int i = 0; i < 5; i++) wrong += columns[i] != expected[i] || order[i] != from[i];
  cusparseCreateIdentityPermutation(h, 4, places);
  wrong += cusparseXcoosortByRow(h, 2, 2, 4, rows, across, places, nullptr) != 0;
  float a[] = {1, 0, 9, 0, 0, 9, 2, 3, 9};  // two rows of three columns, three apart
  int counts[3], total;
  wrong += cusparseSnnz(h, CUSPARSE_DIRECTION_ROW, 2, 3, d, a, 3, counts, &total) != 0 || total != 3 || counts[0] != 2 || counts[1] != 1;
  wrong += cusparseSnnz(h, CUSPARSE_DIRECTION_COLUMN, 2, 3, d, a, 3, counts, &total) != 0 || counts[1] != 0 || counts[2] != 2;
  int by_rows[] = {3, 1, 2, 0};
  for (int i = 0; i < 4; i++) wrong += rows[i] != i / 2 || across[i] != i % 2 || places[i] != by_rows[i];
  return wrong;
}
int main() {
  float *y;
  cudaMallocManaged(&y, 4);
  tied<<<1, 1>>>(y);
  cudaDeviceSynchronize();
  __nv_fp8x4_e4m3 four(make_float4(1, -2, 0.5f, 448));
  float4 found = float4(four);
  float4 halves = float4(__nv_fp8x4_e4m3(__floats2half2_rn(1, 2), __floats2half2_rn(3, 4)));
  float2 brain = float2(__nv_fp8x2_e4m3(__floats2bfloat162_rn(5, 6)));
  if (halves.x != 1 || halves.y != 2 || halves.z != 3 || halves.w != 4 || brain.x != 5 || brain.y != 6) printf("halves\n");
  float2 two = float2(__nv_fp8x2_e5m2(make_float2(-3, 57344)));
  printf("%g %g %g %g %g %g %g\n", *y, found.x, found.y, found.z, found.w, two.x, two.y);
  thrust::device_vector<int> v{3, -7, 5, 2};
  auto ends = thrust::minmax_element(v.begin(), v.end(), [] __device__(int a, int b) { return a * a < b * b; });
  if (ends.first - v.begin() != 3 || ends.second - v.begin() != 1) printf("ends\n");
  cublasHandle_t h;
  cublasCreate(&h);
  cusparseHandle_t s;
  cusparseCreate(&s);
  int described_wrong = described<int8_t, int>(CUDA_R_8I, CUDA_R_32I, CUBLAS_COMPUTE_32I) +
                        described<double, double>(CUDA_R_64F, CUDA_R_64F, CUBLAS_COMPUTE_64F);
  printf("%d %d %d %d\n", whole_products(h), vectors(h), sparse(s) + sorted(s), described_wrong);
  for (int i = 0; i < 2; i++)
    printf("%d\n", cublasGemmEx(h, CUBLAS_OP_N, CUBLAS_OP_N, 1, 1, 1, y, y, CUDA_C_32F, 1, y, CUDA_C_32F, 1, y, y, CUDA_C_32F, 1,
                                CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
}
