// Products of matrices of several types, with what cuBLASLt puts behind them: computed in float.
#include "cublasLt.h"
#include "element_types.h"
#include "weft_cuda.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct cublasLtContext { char unused; };
struct cublasLtMatmulPreferenceOpaque_t { char unused; };
struct cublasLtMatmulDescOpaque_t {
  cudaDataType_t scale;
  int32_t turned[2];  // whether the left and the right matrix are transposed
  int32_t epilogue, bias_type;
  const void *bias;
  void *aux;
  int64_t aux_ld;
  // Of matrices whose elements have 8 bits: what they stand for is this many times as much.
  const float *a_scale, *b_scale, *c_scale, *d_scale;
  float *d_largest;
};
struct cublasLtMatrixLayoutOpaque_t {
  int32_t type, order;
  uint64_t rows, columns;
  int64_t ld;
  int32_t count;
  int64_t step;
};

namespace {
bool is_known(int type) {
  return type == CUDA_R_32F || type == CUDA_R_16F || type == CUDA_R_16BF || type == CUDA_R_8F_E4M3 || type == CUDA_R_8F_E5M2;
}
float load(const void *from, int type, int64_t at) { return (float)load_element(from, type, at); }
void store(void *to, int type, int64_t at, float value) { store_element(to, type, at, value); }
// A number that a descriptor points to; 1 where it names none.
float scale_at(const float *scale) { return scale ? *scale : 1; }

struct matrix {
  const void *data;
  int type;
  int64_t rows, columns, ld;
};

// The matrix as floats, its columns side by side; to be freed.
float *as_floats(const matrix &m) {
  float *made = (float *)malloc((size_t)(m.rows * m.columns) * 4 + 4);
  for (int64_t j = 0; made && j < m.columns; ++j)
    for (int64_t i = 0; i < m.rows; ++i) made[j * m.rows + i] = load(m.data, m.type, j * m.ld + i);
  return made;
}

const float root = 0.7978845608028654f;  // of 2 / pi
float gelu(float x) { return 0.5f * x * (1 + tanhf(root * (x + 0.044715f * x * x * x))); }
float gelu_slope(float x) {
  float t = tanhf(root * (x + 0.044715f * x * x * x));
  return 0.5f * (1 + t) + 0.5f * x * (1 - t * t) * root * (1 + 3 * 0.044715f * x * x);
}

float behind(const cublasLtMatmulDescOpaque_t *how, int type, int64_t i, int64_t j, float value) {
  int steps = how->epilogue;
  if (steps == CUBLASLT_EPILOGUE_DGELU) return value * gelu_slope(load(how->aux, type, j * how->aux_ld + i));
  if (steps & CUBLASLT_EPILOGUE_BIAS) value += load(how->bias, how->bias_type < 0 ? type : how->bias_type, i);
  if (steps & 128) store(how->aux, type, j * how->aux_ld + i, value);
  if (steps & CUBLASLT_EPILOGUE_RELU) return value > 0 ? value : 0;
  return steps & CUBLASLT_EPILOGUE_GELU ? gelu(value) : value;
}

cublasStatus_t multiply(const cublasLtMatmulDescOpaque_t *how, int k, float alpha, const matrix &a, const matrix &b, float beta,
                        const matrix &c, void *d, const matrix &shape) {
  float *left = as_floats(a), *right = as_floats(b);
  float *sums = (float *)malloc((size_t)(shape.rows * shape.columns) * 4 + 4);
  cublasStatus_t status = CUBLAS_STATUS_ALLOC_FAILED;
  float c_scale = scale_at(how->c_scale), d_scale = scale_at(how->d_scale), largest = 0;
  alpha *= scale_at(how->a_scale) * scale_at(how->b_scale);
  if (left && right && sums) {
    for (int64_t j = 0; j < shape.columns; ++j)
      for (int64_t i = 0; i < shape.rows; ++i)
        sums[j * shape.rows + i] = beta == 0 ? 0 : c_scale * load(c.data, c.type, j * c.ld + i);
    status = cublasSgemm(nullptr, how->turned[0] ? CUBLAS_OP_T : CUBLAS_OP_N, how->turned[1] ? CUBLAS_OP_T : CUBLAS_OP_N,
                         (int)shape.rows, (int)shape.columns, k, &alpha, left, (int)a.rows, right, (int)b.rows, &beta, sums,
                         (int)shape.rows);
    for (int64_t j = 0; j < shape.columns; ++j)
      for (int64_t i = 0; i < shape.rows; ++i) {
        float value = behind(how, shape.type, i, j, sums[j * shape.rows + i]);
        largest = fabsf(value) > largest ? fabsf(value) : largest;
        store(d, shape.type, j * shape.ld + i, d_scale * value);
      }
    if (how->d_largest) *how->d_largest = largest;
  }
  free(left), free(right), free(sums);
  return status;
}

matrix part(const void *data, cublasLtMatrixLayout_t layout, int64_t number) {
  int64_t bytes = element_bytes(layout->type);
  return matrix{(const char *)data + number * layout->step * bytes, layout->type, (int64_t)layout->rows,
                (int64_t)layout->columns, layout->ld};
}

cublasStatus_t unsupported(const char *call, const char *what) {
  return (cublasStatus_t)weft_unsupported(call, what, "CUBLAS_STATUS_NOT_SUPPORTED", CUBLAS_STATUS_NOT_SUPPORTED);
}

bool is_supported(const cublasLtMatmulDescOpaque_t *how, cublasLtMatrixLayout_t layout) {
  int steps = how->epilogue;
  bool is_one = steps == CUBLASLT_EPILOGUE_DEFAULT || steps == CUBLASLT_EPILOGUE_RELU || steps == CUBLASLT_EPILOGUE_BIAS ||
                steps == CUBLASLT_EPILOGUE_RELU_BIAS || steps == CUBLASLT_EPILOGUE_GELU ||
                steps == CUBLASLT_EPILOGUE_GELU_BIAS || steps == CUBLASLT_EPILOGUE_GELU_AUX ||
                steps == CUBLASLT_EPILOGUE_GELU_AUX_BIAS || steps == CUBLASLT_EPILOGUE_DGELU;
  return is_one && is_known(layout->type) && layout->order == CUBLASLT_ORDER_COL;
}

cublasStatus_t set_field(void *field, size_t size, const void *value, size_t bytes) {
  if (bytes > size) return CUBLAS_STATUS_INVALID_VALUE;
  memcpy(field, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}
}  // namespace

extern "C" {
#define WEFT_MAKE(type, ...) \
  *made = (type)calloc(1, sizeof(**made)); \
  if (!*made) return CUBLAS_STATUS_ALLOC_FAILED; \
  **made = __VA_ARGS__; \
  return CUBLAS_STATUS_SUCCESS;
cublasStatus_t cublasLtCreate(cublasLtHandle_t *made) { WEFT_MAKE(cublasLtHandle_t, {0}) }
cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *made, cublasComputeType_t, cudaDataType_t scale) {
  WEFT_MAKE(cublasLtMatmulDesc_t, {scale, {0, 0}, CUBLASLT_EPILOGUE_DEFAULT, -1, nullptr, nullptr, 0})
}
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *made, cudaDataType type, uint64_t rows, uint64_t columns,
                                          int64_t ld) {
  WEFT_MAKE(cublasLtMatrixLayout_t, {type, CUBLASLT_ORDER_COL, rows, columns, ld, 1, 0})
}
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *made) {
  WEFT_MAKE(cublasLtMatmulPreference_t, {0})
}
#undef WEFT_MAKE
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) { return free(handle), CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t one) { return free(one), CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t one) { return free(one), CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t one) { return free(one), CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t, cublasLtMatmulPreferenceAttributes_t,
                                                    const void *, size_t) {
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t to, cublasLtMatmulDescAttributes_t which,
                                              const void *value, size_t bytes) {
  switch (which) {
    case CUBLASLT_MATMUL_DESC_COMPUTE_TYPE: return CUBLAS_STATUS_SUCCESS;
    case CUBLASLT_MATMUL_DESC_SCALE_TYPE: return set_field(&to->scale, 4, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSA: return set_field(to->turned, 4, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB: return set_field(to->turned + 1, 4, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE: return set_field(&to->epilogue, 4, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER: return set_field(&to->bias, 8, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE: return set_field(&to->bias_type, 4, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER: return set_field(&to->aux, 8, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD: return set_field(&to->aux_ld, 8, value, bytes);
    case CUBLASLT_MATMUL_DESC_A_SCALE_POINTER: return set_field(&to->a_scale, 8, value, bytes);
    case CUBLASLT_MATMUL_DESC_B_SCALE_POINTER: return set_field(&to->b_scale, 8, value, bytes);
    case CUBLASLT_MATMUL_DESC_C_SCALE_POINTER: return set_field(&to->c_scale, 8, value, bytes);
    case CUBLASLT_MATMUL_DESC_D_SCALE_POINTER: return set_field(&to->d_scale, 8, value, bytes);
    case CUBLASLT_MATMUL_DESC_AMAX_D_POINTER: return set_field(&to->d_largest, 8, value, bytes);
    case CUBLASLT_MATMUL_DESC_FAST_ACCUM: return CUBLAS_STATUS_SUCCESS;
    default: return unsupported("cublasLtMatmulDescSetAttribute", "this attribute");
  }
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t to, cublasLtMatrixLayoutAttribute_t which,
                                                const void *value, size_t bytes) {
  switch (which) {
    case CUBLASLT_MATRIX_LAYOUT_TYPE: return set_field(&to->type, 4, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_ORDER: return set_field(&to->order, 4, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_ROWS: return set_field(&to->rows, 8, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_COLS: return set_field(&to->columns, 8, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_LD: return set_field(&to->ld, 8, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT: return set_field(&to->count, 4, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET: return set_field(&to->step, 8, value, bytes);
    default: return unsupported("cublasLtMatrixLayoutSetAttribute", "this attribute");
  }
}
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t how, cublasLtMatrixLayout_t a,
                                              cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t, int asked,
                                              cublasLtMatmulHeuristicResult_t *results, int *found) {
  *found = asked > 0 && is_supported(how, a) && is_supported(how, b) && is_supported(how, c) && is_supported(how, d);
  if (*found) results[0] = cublasLtMatmulHeuristicResult_t{};
  return *found ? CUBLAS_STATUS_SUCCESS : unsupported("cublasLtMatmulAlgoGetHeuristic", "these types, orders or epilogues");
}
cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t how, const void *alpha, const void *a,
                              cublasLtMatrixLayout_t a_layout, const void *b, cublasLtMatrixLayout_t b_layout,
                              const void *beta, const void *c, cublasLtMatrixLayout_t c_layout, void *d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t *, void *, size_t, cudaStream_t) {
  bool is_possible = is_supported(how, a_layout) && is_supported(how, b_layout) && is_supported(how, c_layout);
  if (!is_possible || !is_supported(how, d_layout) || !is_known(how->scale))
    return unsupported("cublasLtMatmul", "these types, orders or epilogues");
  int k = (int)(how->turned[0] ? a_layout->rows : a_layout->columns);
  for (int64_t number = 0; number < d_layout->count; ++number) {
    matrix to = part(d, d_layout, number);
    cublasStatus_t status = multiply(how, k, load(alpha, how->scale, 0), part(a, a_layout, number), part(b, b_layout, number),
                                     load(beta, how->scale, 0), part(c, c_layout, number), (void *)to.data, to);
    if (status != CUBLAS_STATUS_SUCCESS) return status;
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetWorkspace(cublasHandle_t, void *, size_t) { return CUBLAS_STATUS_SUCCESS; }
}
