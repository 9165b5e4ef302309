// cuBLAS's basics. A product runs over columns of the result on the pool, and along columns in vectors; a left matrix
// that is to be transposed is copied first.
#include "cublas_v2.h"
#include "weft_cuda.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

namespace {
template <typename T> struct product {
  int m, k;
  T alpha, beta;
  const T *a;  // m rows, lda apart, k columns
  int64_t lda;
  const T *b;
  int64_t b_row, b_column;
  T *c;
  int64_t ldc;
};

template <typename T> void scale_column(T *column, int m, T beta) {
  if (beta == T(0)) memset(column, 0, (size_t)m * sizeof(T));
  else if (beta != T(1))
    for (int i = 0; i < m; ++i) column[i] *= beta;
}

// Four columns of the left matrix at a time: a column of the result is read and written a quarter as often.
template <typename T> int columns(void *context, int64_t begin, int64_t end) {
  const product<T> &p = *(const product<T> *)context;
  for (int64_t j = begin; j < end; ++j) {
    T *__restrict c = p.c + j * p.ldc;
    scale_column(c, p.m, p.beta);
    const T *b = p.b + j * p.b_column;
    int l = 0;
    for (; l + 4 <= p.k; l += 4) {
      const T *a = p.a + l * p.lda;
      T b0 = p.alpha * b[l * p.b_row], b1 = p.alpha * b[(l + 1) * p.b_row], b2 = p.alpha * b[(l + 2) * p.b_row],
        b3 = p.alpha * b[(l + 3) * p.b_row];
      for (int i = 0; i < p.m; ++i)
        c[i] += a[i] * b0 + a[i + p.lda] * b1 + a[i + 2 * p.lda] * b2 + a[i + 3 * p.lda] * b3;
    }
    for (; l < p.k; ++l) {
      T b0 = p.alpha * b[l * p.b_row];
      for (int i = 0; i < p.m; ++i) c[i] += p.a[l * p.lda + i] * b0;
    }
  }
  return 0;
}

template <typename T>
cublasStatus_t gemm(cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k, T alpha, const T *a, int lda,
                    const T *b, int ldb, T beta, T *c, int ldc) {
  if (m < 0 || n < 0 || k < 0 || ldc < m) return CUBLAS_STATUS_INVALID_VALUE;
  T *turned = nullptr;
  if (ta != CUBLAS_OP_N && k > 0 && m > 0) {
    turned = (T *)malloc((size_t)m * k * sizeof(T));
    if (!turned) return CUBLAS_STATUS_ALLOC_FAILED;
    for (int i = 0; i < m; ++i)
      for (int l = 0; l < k; ++l) turned[(size_t)l * m + i] = a[(size_t)i * lda + l];
  }
  product<T> p = {m, k, alpha, beta, turned ? turned : a, turned ? m : lda, b, tb == CUBLAS_OP_N ? 1 : ldb,
                  tb == CUBLAS_OP_N ? ldb : 1, c, ldc};
  weft_parallel_for(columns<T>, &p, n);
  free(turned);
  return CUBLAS_STATUS_SUCCESS;
}

template <typename T>
cublasStatus_t gemv(cublasOperation_t t, int m, int n, T alpha, const T *a, int lda, const T *x, int incx, T beta, T *y,
                    int incy) {
  int rows = t == CUBLAS_OP_N ? m : n, others = t == CUBLAS_OP_N ? n : m;
  int64_t down = t == CUBLAS_OP_N ? 1 : lda, across = t == CUBLAS_OP_N ? lda : 1;
  for (int i = 0; i < rows; ++i) {
    T sum = 0;
    for (int j = 0; j < others; ++j) sum += a[i * down + j * across] * x[(int64_t)j * incx];
    T &to = y[(int64_t)i * incy];
    to = alpha * sum + (beta == T(0) ? T(0) : beta * to);
  }
  return CUBLAS_STATUS_SUCCESS;
}

template <typename T> int largest(int n, const T *x, int incx) {
  int best = 0;
  for (int i = 1; i < n; ++i)
    if (fabs(x[(int64_t)i * incx]) > fabs(x[(int64_t)best * incx])) best = i;
  return n > 0 ? best + 1 : 0;
}

cublasStatus_t copy_rows(size_t rows, size_t bytes, const void *from, size_t from_step, void *to, size_t to_step) {
  for (size_t i = 0; i < rows; ++i) memcpy((char *)to + i * to_step, (const char *)from + i * from_step, bytes);
  return CUBLAS_STATUS_SUCCESS;
}
}  // namespace

struct cublasContext { cudaStream_t stream; };

extern "C" {
cublasStatus_t cublasCreate(cublasHandle_t *handle) {
  *handle = (cublasHandle_t)calloc(1, sizeof(cublasContext));
  return *handle ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_ALLOC_FAILED;
}
cublasStatus_t cublasDestroy(cublasHandle_t handle) {
  free(handle);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasGetStream(cublasHandle_t handle, cudaStream_t *stream) {
  *stream = handle->stream;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetPointerMode(cublasHandle_t, cublasPointerMode_t) { return CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasSetMathMode(cublasHandle_t, cublasMath_t) { return CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasGetVersion(cublasHandle_t, int *version) {
  *version = 120300;
  return CUBLAS_STATUS_SUCCESS;
}
const char *cublasGetStatusString(cublasStatus_t status) {
  return status == CUBLAS_STATUS_SUCCESS ? "success" : status == CUBLAS_STATUS_INVALID_VALUE ? "invalid value" : "failed";
}
cublasStatus_t cublasSetVector(int n, int bytes, const void *from, int from_step, void *to, int to_step) {
  return copy_rows(n, bytes, from, (size_t)from_step * bytes, to, (size_t)to_step * bytes);
}
cublasStatus_t cublasGetVector(int n, int bytes, const void *from, int from_step, void *to, int to_step) {
  return cublasSetVector(n, bytes, from, from_step, to, to_step);
}
cublasStatus_t cublasSetMatrix(int rows, int columns, int bytes, const void *from, int from_rows, void *to, int to_rows) {
  return copy_rows(columns, (size_t)rows * bytes, from, (size_t)from_rows * bytes, to, (size_t)to_rows * bytes);
}
cublasStatus_t cublasGetMatrix(int rows, int columns, int bytes, const void *from, int from_rows, void *to, int to_rows) {
  return cublasSetMatrix(rows, columns, bytes, from, from_rows, to, to_rows);
}

#define WEFT_BLAS(letter, type) \
  cublasStatus_t cublas##letter##axpy(cublasHandle_t, int n, const type *alpha, const type *x, int incx, type *y, int incy) { \
    for (int64_t i = 0; i < n; ++i) y[i * incy] += *alpha * x[i * incx]; \
    return CUBLAS_STATUS_SUCCESS; \
  } \
  cublasStatus_t cublas##letter##scal(cublasHandle_t, int n, const type *alpha, type *x, int incx) { \
    for (int64_t i = 0; i < n; ++i) x[i * incx] *= *alpha; \
    return CUBLAS_STATUS_SUCCESS; \
  } \
  cublasStatus_t cublas##letter##copy(cublasHandle_t, int n, const type *x, int incx, type *y, int incy) { \
    for (int64_t i = 0; i < n; ++i) y[i * incy] = x[i * incx]; \
    return CUBLAS_STATUS_SUCCESS; \
  } \
  cublasStatus_t cublas##letter##swap(cublasHandle_t, int n, type *x, int incx, type *y, int incy) { \
    for (int64_t i = 0; i < n; ++i) { \
      type kept = x[i * incx]; \
      x[i * incx] = y[i * incy]; \
      y[i * incy] = kept; \
    } \
    return CUBLAS_STATUS_SUCCESS; \
  } \
  cublasStatus_t cublas##letter##dot(cublasHandle_t, int n, const type *x, int incx, const type *y, int incy, type *result) { \
    double sum = 0; \
    for (int64_t i = 0; i < n; ++i) sum += (double)x[i * incx] * y[i * incy]; \
    *result = (type)sum; \
    return CUBLAS_STATUS_SUCCESS; \
  } \
  cublasStatus_t cublas##letter##nrm2(cublasHandle_t, int n, const type *x, int incx, type *result) { \
    double sum = 0; \
    for (int64_t i = 0; i < n; ++i) sum += (double)x[i * incx] * x[i * incx]; \
    *result = (type)sqrt(sum); \
    return CUBLAS_STATUS_SUCCESS; \
  } \
  cublasStatus_t cublas##letter##asum(cublasHandle_t, int n, const type *x, int incx, type *result) { \
    double sum = 0; \
    for (int64_t i = 0; i < n; ++i) sum += fabs((double)x[i * incx]); \
    *result = (type)sum; \
    return CUBLAS_STATUS_SUCCESS; \
  } \
  cublasStatus_t cublas##letter##ger(cublasHandle_t, int m, int n, const type *alpha, const type *x, int incx, \
                                     const type *y, int incy, type *a, int lda) { \
    for (int64_t j = 0; j < n; ++j) \
      for (int64_t i = 0; i < m; ++i) a[j * lda + i] += *alpha * x[i * incx] * y[j * incy]; \
    return CUBLAS_STATUS_SUCCESS; \
  } \
  cublasStatus_t cublas##letter##gemv(cublasHandle_t, cublasOperation_t t, int m, int n, const type *alpha, const type *a, \
                                      int lda, const type *x, int incx, const type *beta, type *y, int incy) { \
    return gemv<type>(t, m, n, *alpha, a, lda, x, incx, *beta, y, incy); \
  } \
  cublasStatus_t cublas##letter##gemm(cublasHandle_t, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k, \
                                      const type *alpha, const type *a, int lda, const type *b, int ldb, \
                                      const type *beta, type *c, int ldc) { \
    return gemm<type>(ta, tb, m, n, k, *alpha, a, lda, b, ldb, *beta, c, ldc); \
  } \
  cublasStatus_t cublas##letter##gemmStridedBatched( \
      cublasHandle_t, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k, const type *alpha, const type *a, \
      int lda, long long stride_a, const type *b, int ldb, long long stride_b, const type *beta, type *c, int ldc, \
      long long stride_c, int count) { \
    cublasStatus_t status = CUBLAS_STATUS_SUCCESS; \
    for (int i = 0; i < count && status == CUBLAS_STATUS_SUCCESS; ++i) \
      status = gemm<type>(ta, tb, m, n, k, *alpha, a + i * stride_a, lda, b + i * stride_b, ldb, *beta, c + i * stride_c, ldc); \
    return status; \
  } \
  cublasStatus_t cublas##letter##gemmBatched(cublasHandle_t, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k, \
                                             const type *alpha, const type *const a[], int lda, const type *const b[], \
                                             int ldb, const type *beta, type *const c[], int ldc, int count) { \
    cublasStatus_t status = CUBLAS_STATUS_SUCCESS; \
    for (int i = 0; i < count && status == CUBLAS_STATUS_SUCCESS; ++i) \
      status = gemm<type>(ta, tb, m, n, k, *alpha, a[i], lda, b[i], ldb, *beta, c[i], ldc); \
    return status; \
  }
WEFT_BLAS(S, float)
WEFT_BLAS(D, double)
cublasStatus_t cublasIsamax(cublasHandle_t, int n, const float *x, int incx, int *result) {
  *result = largest(n, x, incx);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasIdamax(cublasHandle_t, int n, const double *x, int incx, int *result) {
  *result = largest(n, x, incx);
  return CUBLAS_STATUS_SUCCESS;
}
}
