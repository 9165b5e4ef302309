// cuSPARSE's handles and descriptors.
#include "sparse.h"

extern "C" {
cusparseStatus_t cusparseCreate(cusparseHandle_t *handle) { return made(handle, cusparseContext{}); }
cusparseStatus_t cusparseDestroy(cusparseHandle_t handle) { return gone(handle); }
cusparseStatus_t cusparseSetStream(cusparseHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return CUSPARSE_STATUS_SUCCESS;
}
cusparseStatus_t cusparseGetStream(cusparseHandle_t handle, cudaStream_t *stream) {
  *stream = handle->stream;
  return CUSPARSE_STATUS_SUCCESS;
}
cusparseStatus_t cusparseSetPointerMode(cusparseHandle_t handle, cusparsePointerMode_t mode) {
  handle->mode = mode;
  return CUSPARSE_STATUS_SUCCESS;
}
cusparseStatus_t cusparseGetPointerMode(cusparseHandle_t handle, cusparsePointerMode_t *mode) {
  *mode = handle->mode;
  return CUSPARSE_STATUS_SUCCESS;
}
cusparseStatus_t cusparseGetVersion(cusparseHandle_t, int *version) {
  *version = CUSPARSE_VERSION;
  return CUSPARSE_STATUS_SUCCESS;
}
const char *cusparseGetErrorName(cusparseStatus_t status) {
  static const char *const names[] = {
      "CUSPARSE_STATUS_SUCCESS", "CUSPARSE_STATUS_NOT_INITIALIZED", "CUSPARSE_STATUS_ALLOC_FAILED",
      "CUSPARSE_STATUS_INVALID_VALUE", "CUSPARSE_STATUS_ARCH_MISMATCH", "CUSPARSE_STATUS_MAPPING_ERROR",
      "CUSPARSE_STATUS_EXECUTION_FAILED", "CUSPARSE_STATUS_INTERNAL_ERROR", "CUSPARSE_STATUS_MATRIX_TYPE_NOT_SUPPORTED",
      "CUSPARSE_STATUS_ZERO_PIVOT", "CUSPARSE_STATUS_NOT_SUPPORTED", "CUSPARSE_STATUS_INSUFFICIENT_RESOURCES"};
  return (unsigned)status < sizeof names / sizeof *names ? names[status] : "unrecognized error code";
}
const char *cusparseGetErrorString(cusparseStatus_t status) { return cusparseGetErrorName(status); }

cusparseStatus_t cusparseCreateMatDescr(cusparseMatDescr_t *to) { return made(to, cusparseMatDescr{}); }
cusparseStatus_t cusparseDestroyMatDescr(cusparseMatDescr_t d) { return gone(d); }
#define WEFT_SET(function, kind, member) \
  cusparseStatus_t cusparseSetMat##function(cusparseMatDescr_t d, kind value) { \
    d->member = value; \
    return CUSPARSE_STATUS_SUCCESS; \
  }
WEFT_SET(Type, cusparseMatrixType_t, type)
WEFT_SET(IndexBase, cusparseIndexBase_t, base)
WEFT_SET(FillMode, cusparseFillMode_t, fill)
WEFT_SET(DiagType, cusparseDiagType_t, diagonal)
cusparseIndexBase_t cusparseGetMatIndexBase(const cusparseMatDescr_t d) { return (cusparseIndexBase_t)d->base; }
cusparseMatrixType_t cusparseGetMatType(const cusparseMatDescr_t d) { return (cusparseMatrixType_t)d->type; }

cusparseStatus_t cusparseCreateDnVec(cusparseDnVecDescr_t *to, int64_t size, void *values, cudaDataType type) {
  return made(to, cusparseDnVecDescr{size, values, type});
}
cusparseStatus_t cusparseDestroyDnVec(cusparseConstDnVecDescr_t v) { return gone(v); }
cusparseStatus_t cusparseCreateSpVec(cusparseSpVecDescr_t *to, int64_t size, int64_t count, void *indices, void *values,
                                     cusparseIndexType_t index, cusparseIndexBase_t base, cudaDataType type) {
  return made(to, cusparseSpVecDescr{size, count, {indices, index}, values, base, type});
}
cusparseStatus_t cusparseDestroySpVec(cusparseConstSpVecDescr_t v) { return gone(v); }
cusparseStatus_t cusparseCreateDnMat(cusparseDnMatDescr_t *to, int64_t rows, int64_t columns, int64_t ld, void *values,
                                     cudaDataType type, cusparseOrder_t order) {
  return made(to, cusparseDnMatDescr{rows, columns, ld, values, type, order});
}
cusparseStatus_t cusparseDestroyDnMat(cusparseConstDnMatDescr_t m) { return gone(m); }
#define WEFT_VALUES(kind) \
  cusparseStatus_t cusparse##kind##GetValues(cusparse##kind##Descr_t of, void **values) { \
    *values = of->values; \
    return CUSPARSE_STATUS_SUCCESS; \
  } \
  cusparseStatus_t cusparse##kind##SetValues(cusparse##kind##Descr_t of, void *values) { \
    of->values = values; \
    return CUSPARSE_STATUS_SUCCESS; \
  }
WEFT_VALUES(DnVec)
WEFT_VALUES(DnMat)
WEFT_VALUES(SpMat)
cusparseStatus_t cusparseCreateCsr(cusparseSpMatDescr_t *to, int64_t rows, int64_t columns, int64_t count, void *offsets,
                                   void *indices, void *values, cusparseIndexType_t offset, cusparseIndexType_t index,
                                   cusparseIndexBase_t base, cudaDataType type) {
  return made(to, cusparseSpMatDescr{CUSPARSE_FORMAT_CSR, rows, columns, count, {offsets, offset}, {indices, index}, values, base, type});
}
cusparseStatus_t cusparseCreateCsc(cusparseSpMatDescr_t *to, int64_t rows, int64_t columns, int64_t count, void *offsets,
                                   void *indices, void *values, cusparseIndexType_t offset, cusparseIndexType_t index,
                                   cusparseIndexBase_t base, cudaDataType type) {
  return made(to, cusparseSpMatDescr{CUSPARSE_FORMAT_CSC, rows, columns, count, {offsets, offset}, {indices, index}, values, base, type});
}
cusparseStatus_t cusparseCreateCoo(cusparseSpMatDescr_t *to, int64_t rows, int64_t columns, int64_t count, void *row_indices,
                                   void *column_indices, void *values, cusparseIndexType_t index, cusparseIndexBase_t base,
                                   cudaDataType type) {
  return made(to, cusparseSpMatDescr{CUSPARSE_FORMAT_COO, rows, columns, count, {row_indices, index}, {column_indices, index}, values, base, type});
}
cusparseStatus_t cusparseDestroySpMat(cusparseConstSpMatDescr_t m) { return gone(m); }
cusparseStatus_t cusparseSpMatGetSize(cusparseConstSpMatDescr_t m, int64_t *rows, int64_t *columns, int64_t *count) {
  *rows = m->rows, *columns = m->columns, *count = m->count;
  return CUSPARSE_STATUS_SUCCESS;
}
cusparseStatus_t cusparseSpMatGetFormat(cusparseConstSpMatDescr_t m, cusparseFormat_t *format) {
  *format = m->format;
  return CUSPARSE_STATUS_SUCCESS;
}
cusparseStatus_t cusparseCsrSetPointers(cusparseSpMatDescr_t m, void *offsets, void *indices, void *values) {
  m->outer.at = offsets, m->inner.at = indices, m->values = values;
  return CUSPARSE_STATUS_SUCCESS;
}
cusparseStatus_t cusparseCscSetPointers(cusparseSpMatDescr_t m, void *offsets, void *indices, void *values) {
  return cusparseCsrSetPointers(m, offsets, indices, values);
}
cusparseStatus_t cusparseCooSetPointers(cusparseSpMatDescr_t m, void *rows, void *columns, void *values) {
  return cusparseCsrSetPointers(m, rows, columns, values);
}
cusparseStatus_t cusparseSpMatSetAttribute(cusparseSpMatDescr_t m, cusparseSpMatAttribute_t attribute, void *data, size_t bytes) {
  if (bytes != sizeof(int)) return CUSPARSE_STATUS_INVALID_VALUE;
  (attribute == CUSPARSE_SPMAT_FILL_MODE ? m->fill : m->diagonal) = *(int *)data;
  return CUSPARSE_STATUS_SUCCESS;
}
cusparseStatus_t cusparseSpSV_createDescr(cusparseSpSVDescr_t *to) { return made(to, cusparseSpSVDescr{}); }
cusparseStatus_t cusparseSpSV_destroyDescr(cusparseSpSVDescr_t d) { return gone(d); }
cusparseStatus_t cusparseCreateCsrilu02Info(csrilu02Info_t *to) { return made(to, csrilu02Info{-1}); }
cusparseStatus_t cusparseDestroyCsrilu02Info(csrilu02Info_t info) { return gone(info); }
}
