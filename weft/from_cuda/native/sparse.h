// What cuSPARSE's descriptors hold.
#pragma once
#include "cusparse.h"
#include "weft_cuda.h"
#include <stdlib.h>

struct cusparseContext {
  cudaStream_t stream;
  cusparsePointerMode_t mode;
};
struct cusparseMatDescr { int type, base, fill, diagonal; };
namespace {
// An index of entry i, or where a row or column begins.
struct index_list {
  const void *at;
  int type;
  int64_t operator[](int64_t i) const {
    if (type == CUSPARSE_INDEX_64I) return ((const int64_t *)at)[i];
    return type == CUSPARSE_INDEX_32I ? ((const int32_t *)at)[i] : ((const uint16_t *)at)[i];
  }
  void set(int64_t i, int64_t value) const {
    if (type == CUSPARSE_INDEX_64I) ((int64_t *)at)[i] = value;
    else if (type == CUSPARSE_INDEX_32I) ((int32_t *)at)[i] = (int32_t)value;
    else ((uint16_t *)at)[i] = (uint16_t)value;
  }
};
}  // namespace
struct cusparseSpMatDescr {
  cusparseFormat_t format;
  int64_t rows, columns, count;
  index_list outer, inner;  // CSR: row offsets and columns; CSC: column offsets and rows; COO: rows and columns
  void *values;
  int base, type, fill, diagonal;
};
struct cusparseSpVecDescr {
  int64_t size, count;
  index_list indices;
  void *values;
  int base, type;
};
struct cusparseDnVecDescr {
  int64_t size;
  void *values;
  int type;
};
struct cusparseDnMatDescr {
  int64_t rows, columns, ld;
  void *values;
  int type;
  cusparseOrder_t order;
};
struct cusparseSpSVDescr { char unused; };
struct csrilu02Info { int zero_pivot; };

namespace {
template <typename D> cusparseStatus_t made(D **to, const D &value) {
  *to = (D *)malloc(sizeof(D));
  if (!*to) return CUSPARSE_STATUS_ALLOC_FAILED;
  **to = value;
  return CUSPARSE_STATUS_SUCCESS;
}
template <typename D> cusparseStatus_t gone(const D *descriptor) {
  free((void *)descriptor);
  return CUSPARSE_STATUS_SUCCESS;
}
}  // namespace
