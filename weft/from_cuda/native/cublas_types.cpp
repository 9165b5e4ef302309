// cuBLAS's functions that are told the types of their elements (...Ex): vectors are computed in double, products of
// matrices in float, of doubles in double, and of 8-bit integers exactly.
#include "cublasLt.h"
#include "cublas_v2.h"
#include "element_types.h"
#include "weft_cuda.h"
#include <math.h>
#include <stdlib.h>

namespace {
struct whole_product {
  const int8_t *a, *b;  // a row of the left matrix, and a column of the right, side by side
  int m, k;
  const void *alpha, *beta;
  int scale, type;
  void *c;
  int64_t ldc;
};

int whole_columns(void *context, int64_t begin, int64_t end) {
  const whole_product &p = *(const whole_product *)context;
  for (int64_t j = begin; j < end; ++j)
    for (int64_t i = 0; i < p.m; ++i) {
      int32_t sum = 0;
      for (int64_t l = 0; l < p.k; ++l) sum += (int32_t)p.a[i * p.k + l] * p.b[j * p.k + l];
      int64_t at = j * p.ldc + i;
      if (p.scale == CUDA_R_32I) {  // wraps, as ints do on GPUs
        int32_t beta = *(const int32_t *)p.beta, *to = (int32_t *)p.c + at;
        *to = (int32_t)((uint32_t)*(const int32_t *)p.alpha * (uint32_t)sum + (beta ? (uint32_t)beta * (uint32_t)*to : 0u));
      } else {
        float beta = *(const float *)p.beta;
        float kept = beta == 0 ? 0 : beta * (float)load_element(p.c, p.type, at);
        store_element(p.c, p.type, at, *(const float *)p.alpha * (float)sum + kept);
      }
    }
  return 0;
}

// Lines of `count` elements side by side, of a matrix whose neighbours lie `step` elements apart; to be freed.
int8_t *side_by_side(const void *from, int64_t lines, int64_t count, int64_t line_step, int64_t step) {
  int8_t *made = (int8_t *)malloc((size_t)(lines * count) + 1);
  for (int64_t i = 0; made && i < lines; ++i)
    for (int64_t l = 0; l < count; ++l) made[i * count + l] = ((const int8_t *)from)[i * line_step + l * step];
  return made;
}

cublasStatus_t whole_gemm(cublasOperation_t ta, cublasOperation_t tb, int n, whole_product p, const void *a, int64_t lda,
                          const void *b, int64_t ldb) {
  int8_t *left = side_by_side(a, p.m, p.k, ta ? lda : 1, ta ? 1 : lda), *right = side_by_side(b, n, p.k, tb ? 1 : ldb, tb ? ldb : 1);
  p.a = left, p.b = right;
  if (left && right) weft_parallel_for(whole_columns, &p, n);
  cublasStatus_t status = left && right ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_ALLOC_FAILED;
  free(left), free(right);
  return status;
}

template <typename... T> bool are_numbers(const char *call, T... all) {
  int types[] = {(int)all...};
  for (int type : types)
    if (!element_bytes(type)) return weft_unsupported(call, "elements of this type", "CUBLAS_STATUS_NOT_SUPPORTED", CUBLAS_STATUS_NOT_SUPPORTED), false;
  return true;
}
}  // namespace

extern "C" {
cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t handle, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k,
                                          const void *alpha, const void *a, cudaDataType a_type, int lda, long long stride_a,
                                          const void *b, cudaDataType b_type, int ldb, long long stride_b, const void *beta,
                                          void *c, cudaDataType c_type, int ldc, long long stride_c, int count,
                                          cublasComputeType_t compute, cublasGemmAlgo_t) {
  bool is_double = compute == CUBLAS_COMPUTE_64F || compute == CUBLAS_COMPUTE_64F_PEDANTIC;
  bool is_whole_sum = compute == CUBLAS_COMPUTE_32I || compute == CUBLAS_COMPUTE_32I_PEDANTIC;
  if (is_double && a_type == CUDA_R_64F && b_type == CUDA_R_64F && c_type == CUDA_R_64F)
    return cublasDgemmStridedBatched(handle, ta, tb, m, n, k, (const double *)alpha, (const double *)a, lda, stride_a,
                                     (const double *)b, ldb, stride_b, (const double *)beta, (double *)c, ldc, stride_c, count);
  if (a_type == CUDA_R_8I && b_type == CUDA_R_8I && (is_whole_sum ? c_type == CUDA_R_32I : c_type == CUDA_R_32F)) {
    if (m < 0 || n < 0 || k < 0 || ldc < m) return CUBLAS_STATUS_INVALID_VALUE;
    cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
    for (int64_t i = 0; i < count && status == CUBLAS_STATUS_SUCCESS; ++i) {
      whole_product p = {nullptr, nullptr, m, k, alpha, beta, is_whole_sum ? CUDA_R_32I : CUDA_R_32F, c_type,
                         (char *)c + i * stride_c * 4, ldc};
      status = whole_gemm(ta, tb, n, p, (const int8_t *)a + i * stride_a, lda, (const int8_t *)b + i * stride_b, ldb);
    }
    return status;
  }
  if (is_double || is_whole_sum)
    return (cublasStatus_t)weft_unsupported("cublasGemmEx", "these types of elements with sums of this type",
                                            "CUBLAS_STATUS_NOT_SUPPORTED", CUBLAS_STATUS_NOT_SUPPORTED);
  cublasLtMatmulDesc_t how;
  cublasLtMatrixLayout_t layouts[3];
  cublasLtMatmulDescCreate(&how, compute, compute == CUBLAS_COMPUTE_16F ? CUDA_R_16F : CUDA_R_32F);
  int32_t turned[2] = {ta, tb};
  cublasLtMatmulDescSetAttribute(how, CUBLASLT_MATMUL_DESC_TRANSA, &turned[0], 4);
  cublasLtMatmulDescSetAttribute(how, CUBLASLT_MATMUL_DESC_TRANSB, &turned[1], 4);
  cublasLtMatrixLayoutCreate(&layouts[0], a_type, ta ? k : m, ta ? m : k, lda);
  cublasLtMatrixLayoutCreate(&layouts[1], b_type, tb ? n : k, tb ? k : n, ldb);
  cublasLtMatrixLayoutCreate(&layouts[2], c_type, m, n, ldc);
  int64_t strides[3] = {stride_a, stride_b, stride_c};
  for (int i = 0; i < 3; ++i) {
    cublasLtMatrixLayoutSetAttribute(layouts[i], CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, 4);
    cublasLtMatrixLayoutSetAttribute(layouts[i], CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &strides[i], 8);
  }
  cublasStatus_t status = cublasLtMatmul(nullptr, how, alpha, a, layouts[0], b, layouts[1], beta, c, layouts[2], c, layouts[2],
                                         nullptr, nullptr, 0, nullptr);
  cublasLtMatmulDescDestroy(how);
  for (cublasLtMatrixLayout_t layout : layouts) cublasLtMatrixLayoutDestroy(layout);
  return status;
}
cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k,
                            const void *alpha, const void *a, cudaDataType a_type, int lda, const void *b,
                            cudaDataType b_type, int ldb, const void *beta, void *c, cudaDataType c_type, int ldc,
                            cublasComputeType_t compute, cublasGemmAlgo_t algorithm) {
  return cublasGemmStridedBatchedEx(handle, ta, tb, m, n, k, alpha, a, a_type, lda, 0, b, b_type, ldb, 0, beta, c, c_type,
                                    ldc, 0, 1, compute, algorithm);
}

cublasStatus_t cublasDotEx(cublasHandle_t, int n, const void *x, cudaDataType x_type, int incx, const void *y,
                           cudaDataType y_type, int incy, void *result, cudaDataType result_type, cudaDataType) {
  if (!are_numbers("cublasDotEx", x_type, y_type, result_type)) return CUBLAS_STATUS_NOT_SUPPORTED;
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += load_element(x, x_type, i * incx) * load_element(y, y_type, i * incy);
  return store_element(result, result_type, 0, sum), CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasDotcEx(cublasHandle_t handle, int n, const void *x, cudaDataType x_type, int incx, const void *y,
                            cudaDataType y_type, int incy, void *result, cudaDataType result_type, cudaDataType compute) {
  return cublasDotEx(handle, n, x, x_type, incx, y, y_type, incy, result, result_type, compute);
}
cublasStatus_t cublasNrm2Ex(cublasHandle_t, int n, const void *x, cudaDataType type, int incx, void *result,
                            cudaDataType result_type, cudaDataType) {
  if (!are_numbers("cublasNrm2Ex", type, result_type)) return CUBLAS_STATUS_NOT_SUPPORTED;
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += load_element(x, type, i * incx) * load_element(x, type, i * incx);
  return store_element(result, result_type, 0, sqrt(sum)), CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasAxpyEx(cublasHandle_t, int n, const void *alpha, cudaDataType alpha_type, const void *x,
                            cudaDataType x_type, int incx, void *y, cudaDataType y_type, int incy, cudaDataType) {
  if (!are_numbers("cublasAxpyEx", alpha_type, x_type, y_type)) return CUBLAS_STATUS_NOT_SUPPORTED;
  double scale = load_element(alpha, alpha_type, 0);
  for (int64_t i = 0; i < n; ++i)
    store_element(y, y_type, i * incy, scale * load_element(x, x_type, i * incx) + load_element(y, y_type, i * incy));
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasScalEx(cublasHandle_t, int n, const void *alpha, cudaDataType alpha_type, void *x, cudaDataType type,
                            int incx, cudaDataType) {
  if (!are_numbers("cublasScalEx", alpha_type, type)) return CUBLAS_STATUS_NOT_SUPPORTED;
  double scale = load_element(alpha, alpha_type, 0);
  for (int64_t i = 0; i < n; ++i) store_element(x, type, i * incx, scale * load_element(x, type, i * incx));
  return CUBLAS_STATUS_SUCCESS;
}
}
