// cuSPARSE's basics. Products with rows of a matrix run on the pool; other formats and transposed ones add entry by
// entry. Numbers are float, double and complex ones of both.
#include "sparse.h"
#include <string.h>

namespace {
typedef _Complex float complex_float;
typedef _Complex double complex_double;
float conjugate(float x) { return x; }
double conjugate(double x) { return x; }
complex_float conjugate(complex_float x) { return __builtin_conjf(x); }
complex_double conjugate(complex_double x) { return __builtin_conj(x); }

cusparseStatus_t refuse(const char *call, const char *why) {
  return (cusparseStatus_t)weft_unsupported(call, why, "CUSPARSE_STATUS_NOT_SUPPORTED", CUSPARSE_STATUS_NOT_SUPPORTED);
}

// Calls `f(row, column, value)` for every entry.
template <typename T, typename F> void each_entry(const cusparseSpMatDescr &m, F f) {
  const T *values = (const T *)m.values;
  if (m.format == CUSPARSE_FORMAT_COO) {
    for (int64_t i = 0; i < m.count; ++i) f(m.outer[i] - m.base, m.inner[i] - m.base, values[i]);
    return;
  }
  bool by_rows = m.format == CUSPARSE_FORMAT_CSR;
  for (int64_t o = 0; o < (by_rows ? m.rows : m.columns); ++o)
    for (int64_t i = m.outer[o] - m.base; i < m.outer[o + 1] - m.base; ++i) {
      int64_t inner = m.inner[i] - m.base;
      f(by_rows ? o : inner, by_rows ? inner : o, values[i]);
    }
}

// A dense matrix as seen through an operation: where element (row, column) is.
template <typename T> struct dense {
  T *at;
  int64_t rows, columns, down, across;
  bool is_conjugate;
  T get(int64_t row, int64_t column) const {
    T value = at[row * down + column * across];
    return is_conjugate ? conjugate(value) : value;
  }
};
template <typename T> dense<T> seen(const cusparseDnMatDescr &m, cusparseOperation_t operation) {
  bool by_columns = m.order == CUSPARSE_ORDER_COL;
  dense<T> as_is = {(T *)m.values, m.rows, m.columns, by_columns ? 1 : m.ld, by_columns ? m.ld : 1,
                    operation == CUSPARSE_OPERATION_CONJUGATE_TRANSPOSE};
  if (operation == CUSPARSE_OPERATION_NON_TRANSPOSE) return as_is;
  return {as_is.at, as_is.columns, as_is.rows, as_is.across, as_is.down, as_is.is_conjugate};
}

// The entries of a dense matrix that are not zero: how many there are and where rows (columns) begin, and, where
// ``whole``, what they are.
template <typename T> void put_entries(const cusparseDnMatDescr &b, cusparseSpMatDescr &a, bool whole) {
  dense<T> from = seen<T>(b, CUSPARSE_OPERATION_NON_TRANSPOSE);
  bool by_columns = a.format == CUSPARSE_FORMAT_CSC;
  int64_t lines = by_columns ? a.columns : a.rows, across = by_columns ? a.rows : a.columns, count = 0;
  for (int64_t o = 0; o < lines; ++o) {
    if (a.format != CUSPARSE_FORMAT_COO && a.outer.at) a.outer.set(o, count + a.base);
    for (int64_t i = 0; i < across; ++i) {
      T value = by_columns ? from.get(i, o) : from.get(o, i);
      if (value == T(0)) continue;
      if (whole) {
        if (a.format == CUSPARSE_FORMAT_COO) a.outer.set(count, o + a.base);
        a.inner.set(count, i + a.base);
        ((T *)a.values)[count] = value;
      }
      ++count;
    }
  }
  if (a.format != CUSPARSE_FORMAT_COO && a.outer.at) a.outer.set(lines, count + a.base);
  a.count = count;
}

template <typename T> struct product {
  const cusparseSpMatDescr *a;
  T alpha, beta;
  dense<T> b, c;
};

template <typename T> void scale_rows(const product<T> &p, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i)
    for (int64_t j = 0; j < p.c.columns; ++j) {
      T &to = p.c.at[i * p.c.down + j * p.c.across];
      to = p.beta == T(0) ? T(0) : p.beta * to;
    }
}

// Rows of the result from rows of the matrix, whose indices are of type I.
template <typename T, typename I> int rows_of_product(void *context, int64_t begin, int64_t end) {
  const product<T> &p = *(const product<T> *)context;
  const I *columns = (const I *)p.a->inner.at;
  const T *values = (const T *)p.a->values;
  int base = p.a->base;
  for (int64_t i = begin; i < end; ++i) {
    int64_t first = p.a->outer[i] - base, last = p.a->outer[i + 1] - base;
    for (int64_t j = 0; j < p.c.columns; ++j) {
      T sum = 0;
      for (int64_t at = first; at < last; ++at) sum += values[at] * p.b.get((int64_t)columns[at] - base, j);
      T &to = p.c.at[i * p.c.down + j * p.c.across];
      to = p.alpha * sum + (p.beta == T(0) ? T(0) : p.beta * to);
    }
  }
  return 0;
}

template <typename T> void multiply(product<T> &p, cusparseOperation_t operation) {
  int index = p.a->inner.type;
  if (p.a->format == CUSPARSE_FORMAT_CSR && operation == CUSPARSE_OPERATION_NON_TRANSPOSE && index != CUSPARSE_INDEX_16U) {
    bool is_long = index == CUSPARSE_INDEX_64I;
    weft_parallel_for(is_long ? rows_of_product<T, int64_t> : rows_of_product<T, int32_t>, &p, p.c.rows);
    return;
  }
  scale_rows(p, 0, p.c.rows);
  bool is_turned = operation != CUSPARSE_OPERATION_NON_TRANSPOSE;
  each_entry<T>(*p.a, [&](int64_t row, int64_t column, T value) {
    if (operation == CUSPARSE_OPERATION_CONJUGATE_TRANSPOSE) value = conjugate(value);
    int64_t to = is_turned ? column : row, from = is_turned ? row : column;
    for (int64_t j = 0; j < p.c.columns; ++j)
      p.c.at[to * p.c.down + j * p.c.across] += p.alpha * value * p.b.get(from, j);
  });
}

template <typename T>
cusparseStatus_t multiply(cusparseOperation_t operation, const void *alpha, const cusparseSpMatDescr &a, dense<T> b,
                          const void *beta, dense<T> c) {
  bool is_turned = operation != CUSPARSE_OPERATION_NON_TRANSPOSE;
  int64_t rows = is_turned ? a.columns : a.rows, inner = is_turned ? a.rows : a.columns;
  if (b.rows != inner || c.rows != rows || b.columns != c.columns) return CUSPARSE_STATUS_INVALID_VALUE;
  product<T> p = {&a, *(const T *)alpha, *(const T *)beta, b, c};
  multiply(p, operation);
  return CUSPARSE_STATUS_SUCCESS;
}

// op(A) y = alpha x of a triangle of A by rows: a row's unknown from those before it, or, transposed, each unknown
// taken off the others once it is known.
template <typename T>
cusparseStatus_t solve(cusparseOperation_t operation, T alpha, const cusparseSpMatDescr &a, const T *x, T *y) {
  bool is_turned = operation != CUSPARSE_OPERATION_NON_TRANSPOSE, is_lower = a.fill == CUSPARSE_FILL_MODE_LOWER;
  const T *values = (const T *)a.values;
  for (int64_t i = 0; i < a.rows; ++i) y[i] = alpha * x[i];
  for (int64_t n = 0; n < a.rows; ++n) {
    int64_t row = is_lower != is_turned ? n : a.rows - 1 - n;
    T diagonal = 1, sum = y[row];
    int64_t first = a.outer[row] - a.base, last = a.outer[row + 1] - a.base;
    for (int64_t at = first; at < last; ++at) {
      int64_t column = a.inner[at] - a.base;
      T value = operation == CUSPARSE_OPERATION_CONJUGATE_TRANSPOSE ? conjugate(values[at]) : values[at];
      if (column == row && a.diagonal == CUSPARSE_DIAG_TYPE_NON_UNIT) diagonal = value;
      if (!is_turned && (is_lower ? column < row : column > row)) sum -= value * y[column];
    }
    y[row] = sum / diagonal;
    for (int64_t at = first; is_turned && at < last; ++at) {
      int64_t column = a.inner[at] - a.base;
      T value = operation == CUSPARSE_OPERATION_CONJUGATE_TRANSPOSE ? conjugate(values[at]) : values[at];
      if (is_lower ? column < row : column > row) y[column] -= value * y[row];
    }
  }
  return CUSPARSE_STATUS_SUCCESS;
}

// Factors without new entries, in place; columns of a row are in order.
template <typename T>
cusparseStatus_t factors(int m, const cusparseMatDescr &d, T *values, const int *offsets, const int *columns, csrilu02Info *info) {
  int64_t *places = (int64_t *)malloc((size_t)m * 8 + 8), *diagonals = (int64_t *)malloc((size_t)m * 8 + 8);
  if (!places || !diagonals) return CUSPARSE_STATUS_ALLOC_FAILED;
  for (int i = 0; i < m; ++i) places[i] = diagonals[i] = -1;
  info->zero_pivot = -1;
  for (int row = 0; row < m; ++row) {
    int first = offsets[row] - d.base, last = offsets[row + 1] - d.base;
    for (int at = first; at < last; ++at) places[columns[at] - d.base] = at;
    for (int at = first; at < last && columns[at] - d.base < row; ++at) {
      int earlier = columns[at] - d.base;
      if (diagonals[earlier] < 0) continue;
      values[at] /= values[diagonals[earlier]];
      for (int64_t k = diagonals[earlier] + 1; k < offsets[earlier + 1] - d.base; ++k)
        if (places[columns[k] - d.base] >= 0) values[places[columns[k] - d.base]] -= values[at] * values[k];
    }
    diagonals[row] = places[row];
    if ((diagonals[row] < 0 || values[diagonals[row]] == T(0)) && info->zero_pivot < 0) info->zero_pivot = row + d.base;
    for (int at = first; at < last; ++at) places[columns[at] - d.base] = -1;
  }
  free(places);
  free(diagonals);
  return CUSPARSE_STATUS_SUCCESS;
}

template <typename T> struct vectors {  // entries of a sparse vector, one by one
  static void add(T alpha, const cusparseSpVecDescr &x, T beta, T *y, int64_t size) {
    for (int64_t i = 0; i < size; ++i) y[i] = beta == T(0) ? T(0) : beta * y[i];
    for (int64_t i = 0; i < x.count; ++i) y[x.indices[i] - x.base] += alpha * ((const T *)x.values)[i];
  }
  static void gather(const T *y, const cusparseSpVecDescr &x) {
    for (int64_t i = 0; i < x.count; ++i) ((T *)x.values)[i] = y[x.indices[i] - x.base];
  }
  static void scatter(const cusparseSpVecDescr &x, T *y) {
    for (int64_t i = 0; i < x.count; ++i) y[x.indices[i] - x.base] = ((const T *)x.values)[i];
  }
};

template <typename T> cusparseStatus_t to_columns(int m, int n, const T *values, const int *offsets, const int *columns,
                                                  T *to, int *to_offsets, int *rows, int base, bool with_values) {
  int count = offsets[m] - base;
  for (int j = 0; j <= n; ++j) to_offsets[j] = 0;
  for (int i = 0; i < count; ++i) ++to_offsets[columns[i] - base + 1];
  for (int j = 0; j < n; ++j) to_offsets[j + 1] += to_offsets[j];
  int *next = (int *)malloc((size_t)n * sizeof(int) + 4);
  if (!next) return CUSPARSE_STATUS_ALLOC_FAILED;
  memcpy(next, to_offsets, (size_t)n * sizeof(int));
  for (int row = 0; row < m; ++row)
    for (int at = offsets[row] - base; at < offsets[row + 1] - base; ++at) {
      int place = next[columns[at] - base]++;
      rows[place] = row + base;
      if (with_values) to[place] = values[at];
    }
  free(next);
  for (int j = 0; j <= n; ++j) to_offsets[j] += base;
  return CUSPARSE_STATUS_SUCCESS;
}
}  // namespace

// Does `call` with T as the type of elements.
#define WEFT_FOR_TYPE(type, name, call) \
  switch (type) { \
    case CUDA_R_32F: { typedef float T; call; } break; \
    case CUDA_R_64F: { typedef double T; call; } break; \
    case CUDA_C_32F: { typedef complex_float T; call; } break; \
    case CUDA_C_64F: { typedef complex_double T; call; } break; \
    default: return refuse(name, "this type of elements"); \
  }
#define WEFT_SAME_TYPES(name, ...) \
  for (int others[] = {__VA_ARGS__}, *other = others; other < others + sizeof others / sizeof *others; ++other) \
    if (*other != a->type) return refuse(name, "elements of several types");

extern "C" {
cusparseStatus_t cusparseAxpby(cusparseHandle_t, const void *alpha, cusparseConstSpVecDescr_t a, const void *beta, cusparseDnVecDescr_t y) {
  WEFT_SAME_TYPES("cusparseAxpby", y->type)
  WEFT_FOR_TYPE(a->type, "cusparseAxpby", vectors<T>::add(*(const T *)alpha, *a, *(const T *)beta, (T *)y->values, y->size))
  return CUSPARSE_STATUS_SUCCESS;
}
cusparseStatus_t cusparseGather(cusparseHandle_t, cusparseConstDnVecDescr_t y, cusparseSpVecDescr_t a) {
  WEFT_SAME_TYPES("cusparseGather", y->type)
  WEFT_FOR_TYPE(a->type, "cusparseGather", vectors<T>::gather((const T *)y->values, *a))
  return CUSPARSE_STATUS_SUCCESS;
}
cusparseStatus_t cusparseScatter(cusparseHandle_t, cusparseConstSpVecDescr_t a, cusparseDnVecDescr_t y) {
  WEFT_SAME_TYPES("cusparseScatter", y->type)
  WEFT_FOR_TYPE(a->type, "cusparseScatter", vectors<T>::scatter(*a, (T *)y->values))
  return CUSPARSE_STATUS_SUCCESS;
}

// Nothing is needed beside the operands; programs allocate what is said, so it is not nothing.
static cusparseStatus_t no_buffer(size_t *bytes) {
  *bytes = 16;
  return CUSPARSE_STATUS_SUCCESS;
}
cusparseStatus_t cusparseSpMV_bufferSize(cusparseHandle_t, cusparseOperation_t, const void *, cusparseConstSpMatDescr_t,
                                         cusparseConstDnVecDescr_t, const void *, cusparseDnVecDescr_t, cudaDataType,
                                         cusparseSpMVAlg_t, size_t *bytes) {
  return no_buffer(bytes);
}
cusparseStatus_t cusparseSpMV_preprocess(cusparseHandle_t, cusparseOperation_t, const void *, cusparseConstSpMatDescr_t,
                                         cusparseConstDnVecDescr_t, const void *, cusparseDnVecDescr_t, cudaDataType,
                                         cusparseSpMVAlg_t, void *) {
  return CUSPARSE_STATUS_SUCCESS;
}
cusparseStatus_t cusparseSpMV(cusparseHandle_t, cusparseOperation_t operation, const void *alpha, cusparseConstSpMatDescr_t a,
                              cusparseConstDnVecDescr_t x, const void *beta, cusparseDnVecDescr_t y, cudaDataType compute,
                              cusparseSpMVAlg_t, void *) {
  WEFT_SAME_TYPES("cusparseSpMV", x->type, y->type, (int)compute)
  WEFT_FOR_TYPE(a->type, "cusparseSpMV",
                return multiply<T>(operation, alpha, *a, dense<T>{(T *)x->values, x->size, 1, 1, 1}, beta,
                                   dense<T>{(T *)y->values, y->size, 1, 1, 1}))
}
cusparseStatus_t cusparseSpMM_bufferSize(cusparseHandle_t, cusparseOperation_t, cusparseOperation_t, const void *,
                                         cusparseConstSpMatDescr_t, cusparseConstDnMatDescr_t, const void *, cusparseDnMatDescr_t,
                                         cudaDataType, cusparseSpMMAlg_t, size_t *bytes) {
  return no_buffer(bytes);
}
cusparseStatus_t cusparseSpMM_preprocess(cusparseHandle_t, cusparseOperation_t, cusparseOperation_t, const void *,
                                         cusparseConstSpMatDescr_t, cusparseConstDnMatDescr_t, const void *, cusparseDnMatDescr_t,
                                         cudaDataType, cusparseSpMMAlg_t, void *) {
  return CUSPARSE_STATUS_SUCCESS;
}
cusparseStatus_t cusparseSpMM(cusparseHandle_t, cusparseOperation_t operation, cusparseOperation_t other, const void *alpha,
                              cusparseConstSpMatDescr_t a, cusparseConstDnMatDescr_t b, const void *beta, cusparseDnMatDescr_t c,
                              cudaDataType compute, cusparseSpMMAlg_t, void *) {
  WEFT_SAME_TYPES("cusparseSpMM", b->type, c->type, (int)compute)
  WEFT_FOR_TYPE(a->type, "cusparseSpMM",
                return multiply<T>(operation, alpha, *a, seen<T>(*b, other), beta, seen<T>(*c, CUSPARSE_OPERATION_NON_TRANSPOSE)))
}
cusparseStatus_t cusparseSparseToDense_bufferSize(cusparseHandle_t, cusparseConstSpMatDescr_t, cusparseDnMatDescr_t,
                                                  cusparseSparseToDenseAlg_t, size_t *bytes) {
  return no_buffer(bytes);
}
cusparseStatus_t cusparseSparseToDense(cusparseHandle_t, cusparseConstSpMatDescr_t a, cusparseDnMatDescr_t b,
                                       cusparseSparseToDenseAlg_t, void *) {
  WEFT_SAME_TYPES("cusparseSparseToDense", b->type)
  WEFT_FOR_TYPE(a->type, "cusparseSparseToDense", {
    dense<T> to = seen<T>(*b, CUSPARSE_OPERATION_NON_TRANSPOSE);
    scale_rows(product<T>{a, 0, 0, to, to}, 0, to.rows);
    each_entry<T>(*a, [&](int64_t row, int64_t column, T value) { to.at[row * to.down + column * to.across] = value; });
  })
  return CUSPARSE_STATUS_SUCCESS;
}

cusparseStatus_t cusparseDenseToSparse_bufferSize(cusparseHandle_t, cusparseConstDnMatDescr_t, cusparseSpMatDescr_t,
                                                  cusparseDenseToSparseAlg_t, size_t *bytes) {
  return no_buffer(bytes);
}
cusparseStatus_t cusparseDenseToSparse_analysis(cusparseHandle_t, cusparseConstDnMatDescr_t b, cusparseSpMatDescr_t a,
                                                cusparseDenseToSparseAlg_t, void *) {
  WEFT_SAME_TYPES("cusparseDenseToSparse", b->type)
  WEFT_FOR_TYPE(a->type, "cusparseDenseToSparse", put_entries<T>(*b, *a, false))
  return CUSPARSE_STATUS_SUCCESS;
}
cusparseStatus_t cusparseDenseToSparse_convert(cusparseHandle_t, cusparseConstDnMatDescr_t b, cusparseSpMatDescr_t a,
                                               cusparseDenseToSparseAlg_t, void *) {
  WEFT_SAME_TYPES("cusparseDenseToSparse", b->type)
  WEFT_FOR_TYPE(a->type, "cusparseDenseToSparse", put_entries<T>(*b, *a, true))
  return CUSPARSE_STATUS_SUCCESS;
}

cusparseStatus_t cusparseSpSV_bufferSize(cusparseHandle_t, cusparseOperation_t, const void *, cusparseConstSpMatDescr_t,
                                         cusparseConstDnVecDescr_t, cusparseDnVecDescr_t, cudaDataType, cusparseSpSVAlg_t,
                                         cusparseSpSVDescr_t, size_t *bytes) {
  return no_buffer(bytes);
}
cusparseStatus_t cusparseSpSV_analysis(cusparseHandle_t, cusparseOperation_t, const void *, cusparseConstSpMatDescr_t,
                                       cusparseConstDnVecDescr_t, cusparseDnVecDescr_t, cudaDataType, cusparseSpSVAlg_t,
                                       cusparseSpSVDescr_t, void *) {
  return CUSPARSE_STATUS_SUCCESS;
}
cusparseStatus_t cusparseSpSV_solve(cusparseHandle_t, cusparseOperation_t operation, const void *alpha, cusparseConstSpMatDescr_t a,
                                    cusparseConstDnVecDescr_t x, cusparseDnVecDescr_t y, cudaDataType compute,
                                    cusparseSpSVAlg_t, cusparseSpSVDescr_t) {
  WEFT_SAME_TYPES("cusparseSpSV_solve", x->type, y->type, (int)compute)
  if (a->format != CUSPARSE_FORMAT_CSR) return refuse("cusparseSpSV_solve", "a matrix that is not CSR");
  if (a->rows != a->columns || x->size != a->rows || y->size != a->rows) return CUSPARSE_STATUS_INVALID_VALUE;
  WEFT_FOR_TYPE(a->type, "cusparseSpSV_solve",
                return solve<T>(operation, *(const T *)alpha, *a, (const T *)x->values, (T *)y->values))
}

cusparseStatus_t cusparseXcoo2csr(cusparseHandle_t, const int *rows, int count, int m, int *offsets, cusparseIndexBase_t base) {
  for (int row = 0, at = 0; row <= m; ++row) {
    while (at < count && rows[at] - base < row) ++at;
    offsets[row] = at + base;
  }
  return CUSPARSE_STATUS_SUCCESS;
}
cusparseStatus_t cusparseXcsr2coo(cusparseHandle_t, const int *offsets, int, int m, int *rows, cusparseIndexBase_t base) {
  for (int row = 0; row < m; ++row)
    for (int at = offsets[row] - base; at < offsets[row + 1] - base; ++at) rows[at] = row + base;
  return CUSPARSE_STATUS_SUCCESS;
}
cusparseStatus_t cusparseCsr2cscEx2_bufferSize(cusparseHandle_t, int, int, int, const void *, const int *, const int *, void *,
                                               int *, int *, cudaDataType, cusparseAction_t, cusparseIndexBase_t,
                                               cusparseCsr2CscAlg_t, size_t *bytes) {
  return no_buffer(bytes);
}
cusparseStatus_t cusparseCsr2cscEx2(cusparseHandle_t, int m, int n, int, const void *values, const int *offsets,
                                    const int *columns, void *to, int *to_offsets, int *rows, cudaDataType type,
                                    cusparseAction_t action, cusparseIndexBase_t base, cusparseCsr2CscAlg_t, void *) {
  WEFT_FOR_TYPE(type, "cusparseCsr2cscEx2",
                return to_columns(m, n, (const T *)values, offsets, columns, (T *)to, to_offsets, rows, base,
                                  action == CUSPARSE_ACTION_NUMERIC))
}

cusparseStatus_t cusparseXcsrilu02_zeroPivot(cusparseHandle_t, csrilu02Info_t info, int *position) {
  *position = info->zero_pivot;
  return info->zero_pivot < 0 ? CUSPARSE_STATUS_SUCCESS : CUSPARSE_STATUS_ZERO_PIVOT;
}
#define WEFT_FACTORS(letter, type) \
  cusparseStatus_t cusparse##letter##csrilu02_bufferSize(cusparseHandle_t, int, int, const cusparseMatDescr_t, type *, \
                                                         const int *, const int *, csrilu02Info_t, int *bytes) { \
    *bytes = 16; \
    return CUSPARSE_STATUS_SUCCESS; \
  } \
  cusparseStatus_t cusparse##letter##csrilu02_analysis(cusparseHandle_t, int, int, const cusparseMatDescr_t, const type *, \
                                                       const int *, const int *, csrilu02Info_t, cusparseSolvePolicy_t, \
                                                       void *) { \
    return CUSPARSE_STATUS_SUCCESS; \
  } \
  cusparseStatus_t cusparse##letter##csrilu02(cusparseHandle_t, int m, int, const cusparseMatDescr_t d, type *values, \
                                              const int *offsets, const int *columns, csrilu02Info_t info, \
                                              cusparseSolvePolicy_t, void *) { \
    return factors(m, *d, values, offsets, columns, info); \
  }
WEFT_FACTORS(S, float)
WEFT_FACTORS(D, double)
}
