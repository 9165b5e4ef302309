// cuSPARSE's basics: matrices by rows (CSR), columns (CSC) and entries (COO), by vectors and dense matrices; triangular
// systems and incomplete factors of CSR matrices.
#pragma once
#define CUSPARSE_H_  // headers of the CUDA samples ask for it
#define CUSPARSEAPI
#include "cuComplex.h"
#include "cuda_runtime_api.h"
#include "library_types.h"
#define CUSPARSE_VERSION 12300

typedef enum {
  CUSPARSE_STATUS_SUCCESS = 0, CUSPARSE_STATUS_NOT_INITIALIZED = 1, CUSPARSE_STATUS_ALLOC_FAILED = 2,
  CUSPARSE_STATUS_INVALID_VALUE = 3, CUSPARSE_STATUS_ARCH_MISMATCH = 4, CUSPARSE_STATUS_MAPPING_ERROR = 5,
  CUSPARSE_STATUS_EXECUTION_FAILED = 6, CUSPARSE_STATUS_INTERNAL_ERROR = 7,
  CUSPARSE_STATUS_MATRIX_TYPE_NOT_SUPPORTED = 8, CUSPARSE_STATUS_ZERO_PIVOT = 9, CUSPARSE_STATUS_NOT_SUPPORTED = 10,
  CUSPARSE_STATUS_INSUFFICIENT_RESOURCES = 11
} cusparseStatus_t;
typedef enum { CUSPARSE_OPERATION_NON_TRANSPOSE = 0, CUSPARSE_OPERATION_TRANSPOSE = 1, CUSPARSE_OPERATION_CONJUGATE_TRANSPOSE = 2 } cusparseOperation_t;
typedef enum { CUSPARSE_INDEX_BASE_ZERO = 0, CUSPARSE_INDEX_BASE_ONE = 1 } cusparseIndexBase_t;
typedef enum { CUSPARSE_INDEX_16U = 1, CUSPARSE_INDEX_32I = 2, CUSPARSE_INDEX_64I = 3 } cusparseIndexType_t;
typedef enum { CUSPARSE_ORDER_COL = 1, CUSPARSE_ORDER_ROW = 2 } cusparseOrder_t;
typedef enum { CUSPARSE_FORMAT_CSR = 1, CUSPARSE_FORMAT_CSC = 2, CUSPARSE_FORMAT_COO = 3 } cusparseFormat_t;
typedef enum { CUSPARSE_POINTER_MODE_HOST = 0, CUSPARSE_POINTER_MODE_DEVICE = 1 } cusparsePointerMode_t;
typedef enum { CUSPARSE_ACTION_SYMBOLIC = 0, CUSPARSE_ACTION_NUMERIC = 1 } cusparseAction_t;
typedef enum { CUSPARSE_FILL_MODE_LOWER = 0, CUSPARSE_FILL_MODE_UPPER = 1 } cusparseFillMode_t;
typedef enum { CUSPARSE_DIAG_TYPE_NON_UNIT = 0, CUSPARSE_DIAG_TYPE_UNIT = 1 } cusparseDiagType_t;
typedef enum { CUSPARSE_SPMAT_FILL_MODE = 0, CUSPARSE_SPMAT_DIAG_TYPE = 1 } cusparseSpMatAttribute_t;
typedef enum {
  CUSPARSE_MATRIX_TYPE_GENERAL = 0, CUSPARSE_MATRIX_TYPE_SYMMETRIC = 1, CUSPARSE_MATRIX_TYPE_HERMITIAN = 2,
  CUSPARSE_MATRIX_TYPE_TRIANGULAR = 3
} cusparseMatrixType_t;
typedef enum { CUSPARSE_SOLVE_POLICY_NO_LEVEL = 0, CUSPARSE_SOLVE_POLICY_USE_LEVEL = 1 } cusparseSolvePolicy_t;
typedef enum {
  CUSPARSE_SPMV_ALG_DEFAULT = 0, CUSPARSE_MV_ALG_DEFAULT = 0, CUSPARSE_SPMV_COO_ALG1 = 1, CUSPARSE_SPMV_CSR_ALG1 = 2,
  CUSPARSE_SPMV_CSR_ALG2 = 3, CUSPARSE_SPMV_COO_ALG2 = 4
} cusparseSpMVAlg_t;
typedef enum {
  CUSPARSE_SPMM_ALG_DEFAULT = 0, CUSPARSE_SPMM_COO_ALG1 = 1, CUSPARSE_SPMM_COO_ALG2 = 2, CUSPARSE_SPMM_COO_ALG3 = 3,
  CUSPARSE_SPMM_CSR_ALG1 = 4, CUSPARSE_SPMM_COO_ALG4 = 5, CUSPARSE_SPMM_CSR_ALG2 = 6, CUSPARSE_SPMM_CSR_ALG3 = 12
} cusparseSpMMAlg_t;
typedef enum { CUSPARSE_SPSV_ALG_DEFAULT = 0 } cusparseSpSVAlg_t;
typedef enum { CUSPARSE_SPARSETODENSE_ALG_DEFAULT = 0 } cusparseSparseToDenseAlg_t;
typedef enum { CUSPARSE_DENSETOSPARSE_ALG_DEFAULT = 0 } cusparseDenseToSparseAlg_t;
typedef enum { CUSPARSE_CSR2CSC_ALG_DEFAULT = 1, CUSPARSE_CSR2CSC_ALG1 = 1 } cusparseCsr2CscAlg_t;

typedef struct cusparseContext *cusparseHandle_t;
typedef struct cusparseMatDescr *cusparseMatDescr_t;
typedef struct cusparseSpMatDescr *cusparseSpMatDescr_t;
typedef struct cusparseSpVecDescr *cusparseSpVecDescr_t;
typedef struct cusparseDnVecDescr *cusparseDnVecDescr_t;
typedef struct cusparseDnMatDescr *cusparseDnMatDescr_t;
typedef const struct cusparseSpMatDescr *cusparseConstSpMatDescr_t;
typedef const struct cusparseSpVecDescr *cusparseConstSpVecDescr_t;
typedef const struct cusparseDnVecDescr *cusparseConstDnVecDescr_t;
typedef const struct cusparseDnMatDescr *cusparseConstDnMatDescr_t;
typedef struct cusparseSpSVDescr *cusparseSpSVDescr_t;
typedef struct csrilu02Info *csrilu02Info_t;

#ifdef __cplusplus
extern "C" {
#endif
cusparseStatus_t cusparseCreate(cusparseHandle_t *handle);
cusparseStatus_t cusparseDestroy(cusparseHandle_t handle);
cusparseStatus_t cusparseSetStream(cusparseHandle_t handle, cudaStream_t stream);
cusparseStatus_t cusparseGetStream(cusparseHandle_t handle, cudaStream_t *stream);
cusparseStatus_t cusparseSetPointerMode(cusparseHandle_t handle, cusparsePointerMode_t mode);
cusparseStatus_t cusparseGetPointerMode(cusparseHandle_t handle, cusparsePointerMode_t *mode);
cusparseStatus_t cusparseGetVersion(cusparseHandle_t handle, int *version);
const char *cusparseGetErrorName(cusparseStatus_t status);
const char *cusparseGetErrorString(cusparseStatus_t status);

cusparseStatus_t cusparseCreateMatDescr(cusparseMatDescr_t *descriptor);
cusparseStatus_t cusparseDestroyMatDescr(cusparseMatDescr_t descriptor);
cusparseStatus_t cusparseSetMatType(cusparseMatDescr_t descriptor, cusparseMatrixType_t type);
cusparseStatus_t cusparseSetMatIndexBase(cusparseMatDescr_t descriptor, cusparseIndexBase_t base);
cusparseStatus_t cusparseSetMatFillMode(cusparseMatDescr_t descriptor, cusparseFillMode_t mode);
cusparseStatus_t cusparseSetMatDiagType(cusparseMatDescr_t descriptor, cusparseDiagType_t type);
cusparseIndexBase_t cusparseGetMatIndexBase(const cusparseMatDescr_t descriptor);
cusparseMatrixType_t cusparseGetMatType(const cusparseMatDescr_t descriptor);

cusparseStatus_t cusparseCreateDnVec(cusparseDnVecDescr_t *vector, int64_t size, void *values, cudaDataType type);
cusparseStatus_t cusparseDestroyDnVec(cusparseConstDnVecDescr_t vector);
cusparseStatus_t cusparseDnVecGetValues(cusparseDnVecDescr_t vector, void **values);
cusparseStatus_t cusparseDnVecSetValues(cusparseDnVecDescr_t vector, void *values);
cusparseStatus_t cusparseCreateSpVec(cusparseSpVecDescr_t *vector, int64_t size, int64_t count, void *indices,
                                     void *values, cusparseIndexType_t index, cusparseIndexBase_t base, cudaDataType type);
cusparseStatus_t cusparseDestroySpVec(cusparseConstSpVecDescr_t vector);
cusparseStatus_t cusparseCreateDnMat(cusparseDnMatDescr_t *matrix, int64_t rows, int64_t columns, int64_t ld, void *values,
                                     cudaDataType type, cusparseOrder_t order);
cusparseStatus_t cusparseDestroyDnMat(cusparseConstDnMatDescr_t matrix);
cusparseStatus_t cusparseDnMatGetValues(cusparseDnMatDescr_t matrix, void **values);
cusparseStatus_t cusparseDnMatSetValues(cusparseDnMatDescr_t matrix, void *values);
cusparseStatus_t cusparseCreateCsr(cusparseSpMatDescr_t *matrix, int64_t rows, int64_t columns, int64_t count,
                                   void *row_offsets, void *column_indices, void *values, cusparseIndexType_t offset_type,
                                   cusparseIndexType_t index_type, cusparseIndexBase_t base, cudaDataType type);
cusparseStatus_t cusparseCreateCsc(cusparseSpMatDescr_t *matrix, int64_t rows, int64_t columns, int64_t count,
                                   void *column_offsets, void *row_indices, void *values, cusparseIndexType_t offset_type,
                                   cusparseIndexType_t index_type, cusparseIndexBase_t base, cudaDataType type);
cusparseStatus_t cusparseCreateCoo(cusparseSpMatDescr_t *matrix, int64_t rows, int64_t columns, int64_t count, void *row_indices,
                                   void *column_indices, void *values, cusparseIndexType_t index_type,
                                   cusparseIndexBase_t base, cudaDataType type);
cusparseStatus_t cusparseDestroySpMat(cusparseConstSpMatDescr_t matrix);
cusparseStatus_t cusparseSpMatGetSize(cusparseConstSpMatDescr_t matrix, int64_t *rows, int64_t *columns, int64_t *count);
cusparseStatus_t cusparseSpMatGetFormat(cusparseConstSpMatDescr_t matrix, cusparseFormat_t *format);
cusparseStatus_t cusparseSpMatGetValues(cusparseSpMatDescr_t matrix, void **values);
cusparseStatus_t cusparseSpMatSetValues(cusparseSpMatDescr_t matrix, void *values);
cusparseStatus_t cusparseCsrSetPointers(cusparseSpMatDescr_t matrix, void *row_offsets, void *column_indices, void *values);
cusparseStatus_t cusparseCscSetPointers(cusparseSpMatDescr_t matrix, void *column_offsets, void *row_indices, void *values);
cusparseStatus_t cusparseCooSetPointers(cusparseSpMatDescr_t matrix, void *row_indices, void *column_indices, void *values);
cusparseStatus_t cusparseSpMatSetAttribute(cusparseSpMatDescr_t matrix, cusparseSpMatAttribute_t attribute, void *data,
                                           size_t bytes);

cusparseStatus_t cusparseAxpby(cusparseHandle_t, const void *alpha, cusparseConstSpVecDescr_t x, const void *beta,
                               cusparseDnVecDescr_t y);
cusparseStatus_t cusparseGather(cusparseHandle_t, cusparseConstDnVecDescr_t y, cusparseSpVecDescr_t x);
cusparseStatus_t cusparseScatter(cusparseHandle_t, cusparseConstSpVecDescr_t x, cusparseDnVecDescr_t y);
cusparseStatus_t cusparseSpMV_bufferSize(cusparseHandle_t, cusparseOperation_t, const void *alpha, cusparseConstSpMatDescr_t a,
                                         cusparseConstDnVecDescr_t x, const void *beta, cusparseDnVecDescr_t y,
                                         cudaDataType compute, cusparseSpMVAlg_t, size_t *bytes);
cusparseStatus_t cusparseSpMV_preprocess(cusparseHandle_t, cusparseOperation_t, const void *alpha, cusparseConstSpMatDescr_t a,
                                         cusparseConstDnVecDescr_t x, const void *beta, cusparseDnVecDescr_t y,
                                         cudaDataType compute, cusparseSpMVAlg_t, void *buffer);
cusparseStatus_t cusparseSpMV(cusparseHandle_t, cusparseOperation_t, const void *alpha, cusparseConstSpMatDescr_t a,
                              cusparseConstDnVecDescr_t x, const void *beta, cusparseDnVecDescr_t y, cudaDataType compute,
                              cusparseSpMVAlg_t, void *buffer);
cusparseStatus_t cusparseSpMM_bufferSize(cusparseHandle_t, cusparseOperation_t, cusparseOperation_t, const void *alpha,
                                         cusparseConstSpMatDescr_t a, cusparseConstDnMatDescr_t b, const void *beta,
                                         cusparseDnMatDescr_t c, cudaDataType compute, cusparseSpMMAlg_t, size_t *bytes);
cusparseStatus_t cusparseSpMM_preprocess(cusparseHandle_t, cusparseOperation_t, cusparseOperation_t, const void *alpha,
                                         cusparseConstSpMatDescr_t a, cusparseConstDnMatDescr_t b, const void *beta,
                                         cusparseDnMatDescr_t c, cudaDataType compute, cusparseSpMMAlg_t, void *buffer);
cusparseStatus_t cusparseSpMM(cusparseHandle_t, cusparseOperation_t, cusparseOperation_t, const void *alpha,
                              cusparseConstSpMatDescr_t a, cusparseConstDnMatDescr_t b, const void *beta, cusparseDnMatDescr_t c,
                              cudaDataType compute, cusparseSpMMAlg_t, void *buffer);
cusparseStatus_t cusparseSparseToDense_bufferSize(cusparseHandle_t, cusparseConstSpMatDescr_t a, cusparseDnMatDescr_t b,
                                                  cusparseSparseToDenseAlg_t, size_t *bytes);
cusparseStatus_t cusparseSparseToDense(cusparseHandle_t, cusparseConstSpMatDescr_t a, cusparseDnMatDescr_t b,
                                       cusparseSparseToDenseAlg_t, void *buffer);
cusparseStatus_t cusparseDenseToSparse_bufferSize(cusparseHandle_t, cusparseConstDnMatDescr_t a, cusparseSpMatDescr_t b,
                                                  cusparseDenseToSparseAlg_t, size_t *bytes);
cusparseStatus_t cusparseDenseToSparse_analysis(cusparseHandle_t, cusparseConstDnMatDescr_t a, cusparseSpMatDescr_t b,
                                                cusparseDenseToSparseAlg_t, void *buffer);
cusparseStatus_t cusparseDenseToSparse_convert(cusparseHandle_t, cusparseConstDnMatDescr_t a, cusparseSpMatDescr_t b,
                                               cusparseDenseToSparseAlg_t, void *buffer);

cusparseStatus_t cusparseSpSV_createDescr(cusparseSpSVDescr_t *descriptor);
cusparseStatus_t cusparseSpSV_destroyDescr(cusparseSpSVDescr_t descriptor);
cusparseStatus_t cusparseSpSV_bufferSize(cusparseHandle_t, cusparseOperation_t, const void *alpha, cusparseConstSpMatDescr_t a,
                                         cusparseConstDnVecDescr_t x, cusparseDnVecDescr_t y, cudaDataType compute,
                                         cusparseSpSVAlg_t, cusparseSpSVDescr_t, size_t *bytes);
cusparseStatus_t cusparseSpSV_analysis(cusparseHandle_t, cusparseOperation_t, const void *alpha, cusparseConstSpMatDescr_t a,
                                       cusparseConstDnVecDescr_t x, cusparseDnVecDescr_t y, cudaDataType compute,
                                       cusparseSpSVAlg_t, cusparseSpSVDescr_t, void *buffer);
cusparseStatus_t cusparseSpSV_solve(cusparseHandle_t, cusparseOperation_t, const void *alpha, cusparseConstSpMatDescr_t a,
                                    cusparseConstDnVecDescr_t x, cusparseDnVecDescr_t y, cudaDataType compute,
                                    cusparseSpSVAlg_t, cusparseSpSVDescr_t);

cusparseStatus_t cusparseXcoo2csr(cusparseHandle_t, const int *rows, int count, int m, int *offsets, cusparseIndexBase_t base);
cusparseStatus_t cusparseXcsr2coo(cusparseHandle_t, const int *offsets, int count, int m, int *rows, cusparseIndexBase_t base);
cusparseStatus_t cusparseCsr2cscEx2_bufferSize(cusparseHandle_t, int m, int n, int count, const void *values,
                                               const int *row_offsets, const int *column_indices, void *to_values,
                                               int *column_offsets, int *row_indices, cudaDataType type, cusparseAction_t,
                                               cusparseIndexBase_t base, cusparseCsr2CscAlg_t, size_t *bytes);
cusparseStatus_t cusparseCsr2cscEx2(cusparseHandle_t, int m, int n, int count, const void *values, const int *row_offsets,
                                    const int *column_indices, void *to_values, int *column_offsets, int *row_indices,
                                    cudaDataType type, cusparseAction_t, cusparseIndexBase_t base, cusparseCsr2CscAlg_t,
                                    void *buffer);
cusparseStatus_t cusparseCreateCsrilu02Info(csrilu02Info_t *info);
cusparseStatus_t cusparseDestroyCsrilu02Info(csrilu02Info_t info);
cusparseStatus_t cusparseXcsrilu02_zeroPivot(cusparseHandle_t, csrilu02Info_t info, int *position);
#define WEFT_FACTORS(letter, type) \
  cusparseStatus_t cusparse##letter##csrilu02_bufferSize( \
      cusparseHandle_t, int m, int count, const cusparseMatDescr_t, type *values, const int *offsets, const int *columns, \
      csrilu02Info_t, int *bytes); \
  cusparseStatus_t cusparse##letter##csrilu02_analysis( \
      cusparseHandle_t, int m, int count, const cusparseMatDescr_t, const type *values, const int *offsets, \
      const int *columns, csrilu02Info_t, cusparseSolvePolicy_t, void *buffer); \
  cusparseStatus_t cusparse##letter##csrilu02( \
      cusparseHandle_t, int m, int count, const cusparseMatDescr_t, type *values, const int *offsets, const int *columns, \
      csrilu02Info_t, cusparseSolvePolicy_t, void *buffer);
WEFT_FACTORS(S, float)
WEFT_FACTORS(D, double)
#undef WEFT_FACTORS
#ifdef __cplusplus
}
#endif
