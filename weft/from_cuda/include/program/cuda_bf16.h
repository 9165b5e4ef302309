// bfloat16, and its functions.
#pragma once
#include "weft_small_floats.h"

// The upper half of a float, rounded to the nearest, to even where there are two.
struct weft_upper_half {
  unsigned short bits;
  weft_upper_half() = default;
  __host__ __device__ weft_upper_half(float x) {
    unsigned int all = __builtin_bit_cast(unsigned int, x);
    bits = x != x ? 0x7fffu : (unsigned short)((all + 0x7fffu + (all >> 16 & 1u)) >> 16);
  }
  __host__ __device__ operator float() const { return __builtin_bit_cast(float, (unsigned int)bits << 16); }
};
WEFT_SMALL_FLOAT(__nv_bfloat16, weft_upper_half)
typedef __nv_bfloat16 nv_bfloat16;
typedef __nv_bfloat162 nv_bfloat162;

WEFT_SMALL __nv_bfloat16 __float2bfloat16(float x) { return __nv_bfloat16(x); }
WEFT_SMALL __nv_bfloat16 __float2bfloat16_rn(float x) { return __nv_bfloat16(x); }
WEFT_SMALL float __bfloat162float(__nv_bfloat16 x) { return (float)x; }
WEFT_SMALL __nv_bfloat162 __floats2bfloat162_rn(float x, float y) { return __nv_bfloat162{x, y}; }
WEFT_SMALL float2 __bfloat1622float2(__nv_bfloat162 x) { return float2{(float)x.x, (float)x.y}; }
WEFT_SMALL __nv_bfloat162 make_bfloat162(__nv_bfloat16 x, __nv_bfloat16 y) { return __nv_bfloat162{x, y}; }
WEFT_SMALL __nv_bfloat162 __float2bfloat162_rn(float x) { return __nv_bfloat162{x, x}; }
WEFT_SMALL __nv_bfloat162 __float22bfloat162_rn(float2 x) { return __nv_bfloat162{x.x, x.y}; }
WEFT_SMALL __nv_bfloat162 __bfloat162bfloat162(__nv_bfloat16 x) { return __nv_bfloat162{x, x}; }
WEFT_SMALL float __low2float(__nv_bfloat162 x) { return (float)x.x; }
WEFT_SMALL float __high2float(__nv_bfloat162 x) { return (float)x.y; }
WEFT_SMALL unsigned short __bfloat16_as_ushort(__nv_bfloat16 x) { return x.value.bits; }
WEFT_SMALL short __bfloat16_as_short(__nv_bfloat16 x) { return (short)x.value.bits; }
WEFT_SMALL __nv_bfloat16 __ushort_as_bfloat16(unsigned short x) {
  __nv_bfloat16 made;
  made.value.bits = x;
  return made;
}
WEFT_SMALL __nv_bfloat16 __short_as_bfloat16(short x) { return __ushort_as_bfloat16((unsigned short)x); }
struct __nv_bfloat16_raw { unsigned short x; };
