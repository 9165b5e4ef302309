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

WEFT_SMALL_CONVERSIONS(__nv_bfloat16, bfloat16)
#ifdef __CUDACC__
WEFT_SMALL_ATOMICS(__nv_bfloat16)
#endif
