// Elements of the types that libraries are told by number (`cudaDataType`), as floats and as doubles.
#pragma once
#include "cuda_bf16.h"
#include "cuda_fp16.h"
#include "cuda_fp8.h"
#include "library_types.h"

namespace {
// 0 for a type that there is nothing of.
inline int element_bytes(int type) {
  switch (type) {
    case CUDA_R_64F: return 8;
    case CUDA_R_32F: case CUDA_R_32I: return 4;
    case CUDA_R_16F: case CUDA_R_16BF: return 2;
    case CUDA_R_8I: case CUDA_R_8U: case CUDA_R_8F_E4M3: case CUDA_R_8F_E5M2: return 1;
    default: return 0;
  }
}
inline bool is_whole(int type) { return type == CUDA_R_8I || type == CUDA_R_8U || type == CUDA_R_32I; }

inline double load_element(const void *from, int type, int64_t at) {
  switch (type) {
    case CUDA_R_64F: return ((const double *)from)[at];
    case CUDA_R_32F: return ((const float *)from)[at];
    case CUDA_R_32I: return ((const int32_t *)from)[at];
    case CUDA_R_16F: return (float)((const __half *)from)[at];
    case CUDA_R_16BF: return (float)((const __nv_bfloat16 *)from)[at];
    case CUDA_R_8I: return ((const int8_t *)from)[at];
    case CUDA_R_8U: return ((const uint8_t *)from)[at];
    case CUDA_R_8F_E4M3: return (float)((const __nv_fp8_e4m3 *)from)[at];
    case CUDA_R_8F_E5M2: return (float)((const __nv_fp8_e5m2 *)from)[at];
    default: return 0;
  }
}
inline void store_element(void *to, int type, int64_t at, double value) {
  switch (type) {
    case CUDA_R_64F: ((double *)to)[at] = value; break;
    case CUDA_R_32F: ((float *)to)[at] = (float)value; break;
    case CUDA_R_32I: ((int32_t *)to)[at] = (int32_t)(int64_t)value; break;
    case CUDA_R_16F: ((__half *)to)[at] = __half((float)value); break;
    case CUDA_R_16BF: ((__nv_bfloat16 *)to)[at] = __nv_bfloat16((float)value); break;
    case CUDA_R_8I: ((int8_t *)to)[at] = (int8_t)(value > 127 ? 127 : value < -128 ? -128 : __builtin_rint(value)); break;
    case CUDA_R_8U: ((uint8_t *)to)[at] = (uint8_t)(value > 255 ? 255 : value < 0 ? 0 : __builtin_rint(value)); break;
    case CUDA_R_8F_E4M3: ((__nv_fp8_e4m3 *)to)[at] = __nv_fp8_e4m3((float)value); break;
    case CUDA_R_8F_E5M2: ((__nv_fp8_e5m2 *)to)[at] = __nv_fp8_e5m2((float)value); break;
  }
}
}  // namespace
