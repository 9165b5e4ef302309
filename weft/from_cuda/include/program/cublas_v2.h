// cuBLAS's basics: matrices are column by column, as there.
#pragma once
#define CUBLAS_V2_H_  // headers of the CUDA samples ask for these
#define CUBLAS_API_H_
#include "cuComplex.h"
#include "cuda_runtime_api.h"
#include "library_types.h"
#ifdef __cplusplus  // programs count on it
#include "cuda_bf16.h"
#include "cuda_fp16.h"
#endif

typedef cudaDataType_t cublasDataType_t;
typedef struct cublasContext *cublasHandle_t;
typedef enum {
  CUBLAS_STATUS_SUCCESS = 0, CUBLAS_STATUS_NOT_INITIALIZED = 1, CUBLAS_STATUS_ALLOC_FAILED = 3,
  CUBLAS_STATUS_INVALID_VALUE = 7, CUBLAS_STATUS_ARCH_MISMATCH = 8, CUBLAS_STATUS_MAPPING_ERROR = 11,
  CUBLAS_STATUS_EXECUTION_FAILED = 13, CUBLAS_STATUS_INTERNAL_ERROR = 14, CUBLAS_STATUS_NOT_SUPPORTED = 15,
  CUBLAS_STATUS_LICENSE_ERROR = 16
} cublasStatus_t;
typedef enum { CUBLAS_OP_N = 0, CUBLAS_OP_T = 1, CUBLAS_OP_C = 2 } cublasOperation_t;
typedef enum { CUBLAS_FILL_MODE_LOWER = 0, CUBLAS_FILL_MODE_UPPER = 1 } cublasFillMode_t;
typedef enum { CUBLAS_POINTER_MODE_HOST = 0, CUBLAS_POINTER_MODE_DEVICE = 1 } cublasPointerMode_t;
typedef enum { CUBLAS_DEFAULT_MATH = 0, CUBLAS_TENSOR_OP_MATH = 1, CUBLAS_PEDANTIC_MATH = 2, CUBLAS_TF32_TENSOR_OP_MATH = 3 } cublasMath_t;
typedef enum {
  CUBLAS_COMPUTE_16F = 64, CUBLAS_COMPUTE_32F = 68, CUBLAS_COMPUTE_32F_PEDANTIC = 69, CUBLAS_COMPUTE_64F = 70,
  CUBLAS_COMPUTE_64F_PEDANTIC = 71, CUBLAS_COMPUTE_32I = 72, CUBLAS_COMPUTE_32I_PEDANTIC = 73, CUBLAS_COMPUTE_32F_FAST_16F = 74, CUBLAS_COMPUTE_32F_FAST_16BF = 75,
  CUBLAS_COMPUTE_32F_FAST_TF32 = 77
} cublasComputeType_t;
typedef enum { CUBLAS_GEMM_DEFAULT = -1, CUBLAS_GEMM_DFALT = -1, CUBLAS_GEMM_DEFAULT_TENSOR_OP = 99 } cublasGemmAlgo_t;

#ifdef __cplusplus
extern "C" {
#endif
cublasStatus_t cublasCreate(cublasHandle_t *handle);
cublasStatus_t cublasDestroy(cublasHandle_t handle);
cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream);
cublasStatus_t cublasGetStream(cublasHandle_t handle, cudaStream_t *stream);
cublasStatus_t cublasSetPointerMode(cublasHandle_t handle, cublasPointerMode_t mode);
cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode);
cublasStatus_t cublasGetVersion(cublasHandle_t handle, int *version);
const char *cublasGetStatusString(cublasStatus_t status);
cublasStatus_t cublasSetVector(int n, int bytes, const void *from, int from_step, void *to, int to_step);
cublasStatus_t cublasGetVector(int n, int bytes, const void *from, int from_step, void *to, int to_step);
cublasStatus_t cublasSetMatrix(int rows, int columns, int bytes, const void *from, int from_rows, void *to, int to_rows);
cublasStatus_t cublasGetMatrix(int rows, int columns, int bytes, const void *from, int from_rows, void *to, int to_rows);

#define WEFT_BLAS(letter, type) \
  cublasStatus_t cublas##letter##axpy(cublasHandle_t, int n, const type *alpha, const type *x, int incx, type *y, int incy); \
  cublasStatus_t cublas##letter##scal(cublasHandle_t, int n, const type *alpha, type *x, int incx); \
  cublasStatus_t cublas##letter##copy(cublasHandle_t, int n, const type *x, int incx, type *y, int incy); \
  cublasStatus_t cublas##letter##swap(cublasHandle_t, int n, type *x, int incx, type *y, int incy); \
  cublasStatus_t cublas##letter##dot(cublasHandle_t, int n, const type *x, int incx, const type *y, int incy, type *result); \
  cublasStatus_t cublas##letter##nrm2(cublasHandle_t, int n, const type *x, int incx, type *result); \
  cublasStatus_t cublas##letter##asum(cublasHandle_t, int n, const type *x, int incx, type *result); \
  cublasStatus_t cublas##letter##ger(cublasHandle_t, int m, int n, const type *alpha, const type *x, int incx, \
                                     const type *y, int incy, type *a, int lda); \
  cublasStatus_t cublas##letter##gemv(cublasHandle_t, cublasOperation_t trans, int m, int n, const type *alpha, \
                                      const type *a, int lda, const type *x, int incx, const type *beta, type *y, int incy); \
  cublasStatus_t cublas##letter##gemm(cublasHandle_t, cublasOperation_t transa, cublasOperation_t transb, int m, int n, \
                                      int k, const type *alpha, const type *a, int lda, const type *b, int ldb, \
                                      const type *beta, type *c, int ldc); \
  cublasStatus_t cublas##letter##gemmStridedBatched(cublasHandle_t, cublasOperation_t transa, cublasOperation_t transb, \
                                                    int m, int n, int k, const type *alpha, const type *a, int lda, \
                                                    long long stride_a, const type *b, int ldb, long long stride_b, \
                                                    const type *beta, type *c, int ldc, long long stride_c, int count); \
  cublasStatus_t cublas##letter##gemmBatched(cublasHandle_t, cublasOperation_t transa, cublasOperation_t transb, int m, \
                                             int n, int k, const type *alpha, const type *const a[], int lda, \
                                             const type *const b[], int ldb, const type *beta, type *const c[], int ldc, \
                                             int count);
WEFT_BLAS(S, float)
WEFT_BLAS(D, double)
#undef WEFT_BLAS
cublasStatus_t cublasSetWorkspace(cublasHandle_t handle, void *workspace, size_t bytes);
cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int m, int n, int k,
                            const void *alpha, const void *a, cudaDataType a_type, int lda, const void *b,
                            cudaDataType b_type, int ldb, const void *beta, void *c, cudaDataType c_type, int ldc,
                            cublasComputeType_t compute, cublasGemmAlgo_t algorithm);
cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int m,
                                          int n, int k, const void *alpha, const void *a, cudaDataType a_type, int lda,
                                          long long stride_a, const void *b, cudaDataType b_type, int ldb,
                                          long long stride_b, const void *beta, void *c, cudaDataType c_type, int ldc,
                                          long long stride_c, int count, cublasComputeType_t compute,
                                          cublasGemmAlgo_t algorithm);
cublasStatus_t cublasDotEx(cublasHandle_t, int n, const void *x, cudaDataType x_type, int incx, const void *y,
                           cudaDataType y_type, int incy, void *result, cudaDataType result_type, cudaDataType compute);
cublasStatus_t cublasDotcEx(cublasHandle_t, int n, const void *x, cudaDataType x_type, int incx, const void *y,
                            cudaDataType y_type, int incy, void *result, cudaDataType result_type, cudaDataType compute);
cublasStatus_t cublasNrm2Ex(cublasHandle_t, int n, const void *x, cudaDataType type, int incx, void *result,
                            cudaDataType result_type, cudaDataType compute);
cublasStatus_t cublasAxpyEx(cublasHandle_t, int n, const void *alpha, cudaDataType alpha_type, const void *x,
                            cudaDataType x_type, int incx, void *y, cudaDataType y_type, int incy, cudaDataType compute);
cublasStatus_t cublasScalEx(cublasHandle_t, int n, const void *alpha, cudaDataType alpha_type, void *x, cudaDataType type,
                            int incx, cudaDataType compute);
cublasStatus_t cublasIsamax(cublasHandle_t, int n, const float *x, int incx, int *result);
cublasStatus_t cublasIdamax(cublasHandle_t, int n, const double *x, int incx, int *result);
#ifdef __cplusplus
}
#include "cuda_fp16.h"
// Of halves: sums are kept in float, as in cublasGemmEx.
static inline cublasStatus_t cublasHgemm(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int m,
                                         int n, int k, const __half *alpha, const __half *a, int lda, const __half *b,
                                         int ldb, const __half *beta, __half *c, int ldc) {
  float scale = (float)*alpha, kept = (float)*beta;
  return cublasGemmEx(handle, transa, transb, m, n, k, &scale, a, CUDA_R_16F, lda, b, CUDA_R_16F, ldb, &kept, c,
                      CUDA_R_16F, ldc, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
}
static inline cublasStatus_t cublasHgemmStridedBatched(cublasHandle_t handle, cublasOperation_t transa,
                                                       cublasOperation_t transb, int m, int n, int k, const __half *alpha,
                                                       const __half *a, int lda, long long stride_a, const __half *b,
                                                       int ldb, long long stride_b, const __half *beta, __half *c, int ldc,
                                                       long long stride_c, int count) {
  float scale = (float)*alpha, kept = (float)*beta;
  return cublasGemmStridedBatchedEx(handle, transa, transb, m, n, k, &scale, a, CUDA_R_16F, lda, stride_a, b, CUDA_R_16F,
                                    ldb, stride_b, &kept, c, CUDA_R_16F, ldc, stride_c, count, CUBLAS_COMPUTE_32F,
                                    CUBLAS_GEMM_DEFAULT);
}
#endif
#define cublasCreate_v2 cublasCreate
#define cublasDestroy_v2 cublasDestroy
#define cublasSgemm_v2 cublasSgemm
#define cublasDgemm_v2 cublasDgemm
