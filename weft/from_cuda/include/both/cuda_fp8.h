// Floats of 8 bits: e4m3 and e5m2, by their storage and conversions.
#pragma once
#include <cuda_fp16.h>
#include <cuda_bf16.h>

typedef unsigned char __nv_fp8_storage_t;
typedef unsigned short __nv_fp8x2_storage_t;
typedef unsigned int __nv_fp8x4_storage_t;
enum __nv_saturation_t { __NV_NOSAT, __NV_SATFINITE };
enum __nv_fp8_interpretation_t { __NV_E4M3, __NV_E5M2 };
#define WEFT_FP8 static __inline__ __host__ __device__

// Rounded to the nearest number with `fraction` bits behind the first, ties to even; exponents begin at `least`.
WEFT_FP8 __nv_fp8_storage_t weft_to_fp8(float x, __nv_saturation_t saturation, int fraction) {
  const bool is_e5m2 = fraction == 2;
  const float most = is_e5m2 ? 57344.0f : 448.0f;
  const int least = is_e5m2 ? -14 : -6;
  unsigned int bits = __builtin_bit_cast(unsigned int, x), sign = bits >> 24 & 0x80u;
  float size = __builtin_bit_cast(float, bits & 0x7fffffffu);
  if (size != size) return (__nv_fp8_storage_t)(is_e5m2 ? sign | 0x7eu : 0x7fu);
  int exponent = (int)(bits >> 23 & 255u) - 127;
  if (exponent < least) exponent = least;
  float step = __builtin_bit_cast(float, (unsigned int)(exponent - fraction + 127) << 23);
  float scaled = size / step;
  float rounded = scaled >= 8388608.0f ? scaled : (scaled + 8388608.0f) - 8388608.0f;
  if (rounded * step > most) {
    unsigned int over = is_e5m2 ? 0x7cu : 0x7fu, last = is_e5m2 ? 0x7bu : 0x7eu;
    return (__nv_fp8_storage_t)(sign | (saturation == __NV_SATFINITE ? last : over));
  }
  unsigned int whole = (unsigned int)rounded, one = 1u << fraction;
  unsigned int code = whole < one ? whole : ((unsigned int)(exponent - least + 1) << fraction) + (whole - one);
  return (__nv_fp8_storage_t)(sign | code);
}
WEFT_FP8 float weft_from_fp8(__nv_fp8_storage_t x, int fraction) {
  const bool is_e5m2 = fraction == 2;
  const int least = is_e5m2 ? -14 : -6;
  unsigned int one = 1u << fraction, code = x & 0x7fu, exponent = code >> fraction, part = code & (one - 1u);
  unsigned int sign = (unsigned int)(x & 0x80u) << 24;
  if (is_e5m2 ? exponent == 31u && part : code == 0x7fu) return __builtin_bit_cast(float, 0x7fffffffu);
  if (is_e5m2 && exponent == 31u) return __builtin_bit_cast(float, sign | 0x7f800000u);
  int power = (exponent ? (int)exponent - 1 : 0) + least - fraction;
  float step = __builtin_bit_cast(float, (unsigned int)(power + 127) << 23);
  float size = (float)(exponent ? one + part : part) * step;
  return (x & 0x80u) ? -size : size;
}
WEFT_FP8 __nv_fp8_storage_t __nv_cvt_float_to_fp8(float x, __nv_saturation_t s, __nv_fp8_interpretation_t kind) {
  return weft_to_fp8(x, s, kind == __NV_E4M3 ? 3 : 2);
}
WEFT_FP8 __nv_fp8_storage_t __nv_cvt_double_to_fp8(double x, __nv_saturation_t s, __nv_fp8_interpretation_t kind) {
  return __nv_cvt_float_to_fp8((float)x, s, kind);
}
WEFT_FP8 __half_raw __nv_cvt_fp8_to_halfraw(__nv_fp8_storage_t x, __nv_fp8_interpretation_t kind) {
  return __half_raw((__half)weft_from_fp8(x, kind == __NV_E4M3 ? 3 : 2));
}

#define WEFT_FP8_TYPE(type, fraction) \
  struct type { \
    __nv_fp8_storage_t __x; \
    type() = default; \
    __host__ __device__ explicit type(float x) : __x(weft_to_fp8(x, __NV_SATFINITE, fraction)) {} \
    __host__ __device__ explicit type(double x) : __x(weft_to_fp8((float)x, __NV_SATFINITE, fraction)) {} \
    __host__ __device__ explicit type(int x) : __x(weft_to_fp8((float)x, __NV_SATFINITE, fraction)) {} \
    __host__ __device__ explicit type(__half x) : __x(weft_to_fp8((float)x, __NV_SATFINITE, fraction)) {} \
    __host__ __device__ explicit type(__nv_bfloat16 x) : __x(weft_to_fp8((float)x, __NV_SATFINITE, fraction)) {} \
    __host__ __device__ explicit operator float() const { return weft_from_fp8(__x, fraction); } \
    __host__ __device__ explicit operator double() const { return weft_from_fp8(__x, fraction); } \
    __host__ __device__ explicit operator __half() const { return (__half)weft_from_fp8(__x, fraction); } \
    __host__ __device__ explicit operator __nv_bfloat16() const { return (__nv_bfloat16)weft_from_fp8(__x, fraction); } \
  };
WEFT_FP8_TYPE(__nv_fp8_e4m3, 3)
WEFT_FP8_TYPE(__nv_fp8_e5m2, 2)
#undef WEFT_FP8_TYPE

// Two and four of them, the first in the lowest byte.
#define WEFT_FP8_VECTORS(name, fraction) \
  struct __nv_fp8x2_##name { \
    __nv_fp8x2_storage_t __x; \
    __nv_fp8x2_##name() = default; \
    __host__ __device__ explicit __nv_fp8x2_##name(float2 v) \
        : __x((__nv_fp8x2_storage_t)(weft_to_fp8(v.x, __NV_SATFINITE, fraction) | weft_to_fp8(v.y, __NV_SATFINITE, fraction) << 8)) {} \
    __host__ __device__ explicit operator float2() const { \
      return make_float2(weft_from_fp8((__nv_fp8_storage_t)__x, fraction), weft_from_fp8((__nv_fp8_storage_t)(__x >> 8), fraction)); \
    } \
  }; \
  struct __nv_fp8x4_##name { \
    __nv_fp8x4_storage_t __x; \
    __nv_fp8x4_##name() = default; \
    __host__ __device__ explicit __nv_fp8x4_##name(float4 v) \
        : __x((unsigned)weft_to_fp8(v.x, __NV_SATFINITE, fraction) | (unsigned)weft_to_fp8(v.y, __NV_SATFINITE, fraction) << 8 | \
              (unsigned)weft_to_fp8(v.z, __NV_SATFINITE, fraction) << 16 | (unsigned)weft_to_fp8(v.w, __NV_SATFINITE, fraction) << 24) {} \
    __host__ __device__ explicit operator float4() const { \
      return make_float4(weft_from_fp8((__nv_fp8_storage_t)__x, fraction), weft_from_fp8((__nv_fp8_storage_t)(__x >> 8), fraction), \
                         weft_from_fp8((__nv_fp8_storage_t)(__x >> 16), fraction), weft_from_fp8((__nv_fp8_storage_t)(__x >> 24), fraction)); \
    } \
  };
WEFT_FP8_VECTORS(e4m3, 3)
WEFT_FP8_VECTORS(e5m2, 2)
#undef WEFT_FP8_VECTORS
#undef WEFT_FP8
