// half, and its functions.
#pragma once
#include "weft_small_floats.h"

WEFT_SMALL_FLOAT(__half, _Float16)
typedef __half half;
typedef __half2 half2;

WEFT_SMALL __half __float2half(float x) { return __half(x); }
WEFT_SMALL __half __float2half_rn(float x) { return __half(x); }
WEFT_SMALL float __half2float(__half x) { return (float)x; }
WEFT_SMALL __half __double2half(double x) { return __half(x); }
WEFT_SMALL __half __int2half_rn(int x) { return __half((float)x); }
WEFT_SMALL int __half2int_rn(__half x) { return (int)__builtin_rintf((float)x); }
WEFT_SMALL int __half2int_rz(__half x) { return (int)(float)x; }
WEFT_SMALL __half2 __halves2half2(__half x, __half y) { return __half2{x, y}; }
WEFT_SMALL __half2 make_half2(__half x, __half y) { return __half2{x, y}; }
WEFT_SMALL __half2 __half2half2(__half x) { return __half2{x, x}; }
WEFT_SMALL __half2 __float2half2_rn(float x) { return __half2{x, x}; }
WEFT_SMALL __half2 __floats2half2_rn(float x, float y) { return __half2{x, y}; }
WEFT_SMALL __half2 __float22half2_rn(float2 x) { return __half2{x.x, x.y}; }
WEFT_SMALL float2 __half22float2(__half2 x) { return float2{(float)x.x, (float)x.y}; }
WEFT_SMALL __half __low2half(__half2 x) { return x.x; }
WEFT_SMALL __half __high2half(__half2 x) { return x.y; }
WEFT_SMALL float __low2float(__half2 x) { return (float)x.x; }
WEFT_SMALL float __high2float(__half2 x) { return (float)x.y; }
WEFT_SMALL short __half_as_short(__half x) { return __builtin_bit_cast(short, x.value); }
WEFT_SMALL unsigned short __half_as_ushort(__half x) { return __builtin_bit_cast(unsigned short, x.value); }
WEFT_SMALL __half __ushort_as_half(unsigned short x) {
  __half made;
  made.value = __builtin_bit_cast(_Float16, x);
  return made;
}
WEFT_SMALL __half __short_as_half(short x) { return __ushort_as_half((unsigned short)x); }
struct __half_raw { unsigned short x; };
struct __half2_raw { unsigned short x, y; };
