// CUDA's intrinsics. Those that a GPU computes less exactly are as exact as their plain counterparts here.
#pragma once
#include "weft_qualifiers.h"

#define WEFT_FAST(name, text) WEFT_DEVICE float name(float x) { return text; }
WEFT_FAST(__expf, __builtin_expf(x))
WEFT_FAST(__exp10f, exp10f(x))
WEFT_FAST(__logf, __builtin_logf(x))
WEFT_FAST(__log2f, __builtin_log2f(x))
WEFT_FAST(__log10f, __builtin_log10f(x))
WEFT_FAST(__sinf, __builtin_sinf(x))
WEFT_FAST(__cosf, __builtin_cosf(x))
WEFT_FAST(__tanf, __builtin_tanf(x))
WEFT_FAST(__tanhf, __builtin_tanhf(x))
WEFT_FAST(__saturatef, saturate(x))
WEFT_FAST(__frsqrt_rn, 1.0f / __builtin_sqrtf(x))
#undef WEFT_FAST
WEFT_DEVICE float __powf(float x, float y) { return __builtin_powf(x, y); }
WEFT_DEVICE float __fdividef(float x, float y) { return x / y; }
WEFT_DEVICE void __sincosf(float x, float *s, float *c) { *s = __builtin_sinf(x), *c = __builtin_cosf(x); }

// Rounding to nearest is the processor's own. In another direction: what rounding left out, which is exact (`left`: the
// result less the true value has the other sign), tells whether the neighbour is meant.
enum weft_direction { weft_rd, weft_ru, weft_rz };
WEFT_DEVICE float weft_beside(float x, float to) { return __builtin_nextafterf(x, to); }
WEFT_DEVICE double weft_beside(double x, double to) { return __builtin_nextafter(x, to); }
WEFT_DEVICE float weft_fused(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
WEFT_DEVICE double weft_fused(double x, double y, double z) { return __builtin_fma(x, y, z); }
template <typename T> WEFT_DEVICE T weft_directed(T result, T left, weft_direction to) {
  if (left < 0 && (to == weft_rd || (to == weft_rz && result > 0))) return weft_beside(result, -(T)__builtin_inf());
  if (left > 0 && (to == weft_ru || (to == weft_rz && result < 0))) return weft_beside(result, (T)__builtin_inf());
  return result;
}
template <typename T> WEFT_DEVICE T weft_add(T x, T y, weft_direction to) {
  T sum = x + y, of_y = sum - x;
  return weft_directed(sum, (x - (sum - of_y)) + (y - of_y), to);
}
template <typename T> WEFT_DEVICE T weft_multiply(T x, T y, weft_direction to) {
  return weft_directed(x * y, weft_fused(x, y, -(x * y)), to);
}
template <typename T> WEFT_DEVICE T weft_divide(T x, T y, weft_direction to) {
  T left = weft_fused(-(x / y), y, x);
  return weft_directed(x / y, y < 0 ? -left : left, to);
}
template <typename T> WEFT_DEVICE T weft_root(T x, T root, weft_direction to) {
  return weft_directed(root, weft_fused(-root, root, x), to);
}
#define WEFT_ROUNDED(letter, type, root) \
  WEFT_DEVICE type __##letter##add_rn(type x, type y) { return x + y; } \
  WEFT_DEVICE type __##letter##sub_rn(type x, type y) { return x - y; } \
  WEFT_DEVICE type __##letter##mul_rn(type x, type y) { return x * y; } \
  WEFT_DEVICE type __##letter##div_rn(type x, type y) { return x / y; } \
  WEFT_DEVICE type __##letter##rcp_rn(type x) { return 1 / x; } \
  WEFT_DEVICE type __##letter##sqrt_rn(type x) { return root(x); } \
  WEFT_DIRECTED(letter, type, root, rd) WEFT_DIRECTED(letter, type, root, ru) WEFT_DIRECTED(letter, type, root, rz)
#define WEFT_DIRECTED(letter, type, root, mode) \
  WEFT_DEVICE type __##letter##add_##mode(type x, type y) { return weft_add(x, y, weft_##mode); } \
  WEFT_DEVICE type __##letter##sub_##mode(type x, type y) { return weft_add(x, -y, weft_##mode); } \
  WEFT_DEVICE type __##letter##mul_##mode(type x, type y) { return weft_multiply(x, y, weft_##mode); } \
  WEFT_DEVICE type __##letter##div_##mode(type x, type y) { return weft_divide(x, y, weft_##mode); } \
  WEFT_DEVICE type __##letter##rcp_##mode(type x) { return weft_divide((type)1, x, weft_##mode); } \
  WEFT_DEVICE type __##letter##sqrt_##mode(type x) { return weft_root(x, root(x), weft_##mode); }
WEFT_ROUNDED(f, float, __builtin_sqrtf)
WEFT_ROUNDED(d, double, __builtin_sqrt)
#undef WEFT_DIRECTED
#undef WEFT_ROUNDED
WEFT_DEVICE float __fmaf_rn(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
WEFT_DEVICE double __fma_rn(double x, double y, double z) { return __builtin_fma(x, y, z); }

WEFT_DEVICE int __mul24(int x, int y) { return ((x << 8) >> 8) * ((y << 8) >> 8); }
WEFT_DEVICE unsigned int __umul24(unsigned int x, unsigned int y) { return (x & 0xffffffu) * (y & 0xffffffu); }
WEFT_DEVICE int __mulhi(int x, int y) { return (int)((long long)x * y >> 32); }
WEFT_DEVICE unsigned int __umulhi(unsigned int x, unsigned int y) {
  return (unsigned int)((unsigned long long)x * y >> 32);
}
WEFT_DEVICE long long __mul64hi(long long x, long long y) { return (long long)((__int128)x * y >> 64); }
WEFT_DEVICE unsigned long long __umul64hi(unsigned long long x, unsigned long long y) {
  return (unsigned long long)((unsigned __int128)x * y >> 64);
}
WEFT_DEVICE int __popc(unsigned int x) { return __builtin_popcount(x); }
WEFT_DEVICE int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
WEFT_DEVICE int __clz(int x) { return x == 0 ? 32 : __builtin_clz((unsigned int)x); }
WEFT_DEVICE int __clzll(long long x) { return x == 0 ? 64 : __builtin_clzll((unsigned long long)x); }
WEFT_DEVICE int __ffs(int x) { return x == 0 ? 0 : __builtin_ctz((unsigned int)x) + 1; }
WEFT_DEVICE int __ffsll(long long x) { return x == 0 ? 0 : __builtin_ctzll((unsigned long long)x) + 1; }
WEFT_DEVICE unsigned int __brev(unsigned int x) { return __builtin_bitreverse32(x); }
WEFT_DEVICE unsigned long long __brevll(unsigned long long x) { return __builtin_bitreverse64(x); }
WEFT_DEVICE int __hadd(int x, int y) { return (int)(((long long)x + y) >> 1); }
WEFT_DEVICE unsigned int __sad(int x, int y, unsigned int z) { return z + (x > y ? (unsigned)x - y : (unsigned)y - x); }
WEFT_DEVICE unsigned int __usad(unsigned int x, unsigned int y, unsigned int z) { return z + (x > y ? x - y : y - x); }
WEFT_DEVICE unsigned int __byte_perm(unsigned int x, unsigned int y, unsigned int s) {
  unsigned long long both = (unsigned long long)y << 32 | x;
  unsigned int result = 0;
  for (unsigned int i = 0; i < 4; ++i) {
    unsigned int pick = s >> (4 * i) & 0xfu, byte = (unsigned int)(both >> (8 * (pick & 7u))) & 0xffu;
    result |= (pick & 8u ? (byte & 0x80u ? 0xffu : 0u) : byte) << (8 * i);
  }
  return result;
}
WEFT_DEVICE unsigned int __funnelshift_l(unsigned int low, unsigned int high, unsigned int by) {
  return (unsigned int)((((unsigned long long)high << 32 | low) << (by & 31u)) >> 32);
}
WEFT_DEVICE unsigned int __funnelshift_r(unsigned int low, unsigned int high, unsigned int by) {
  return (unsigned int)(((unsigned long long)high << 32 | low) >> (by & 31u));
}

WEFT_DEVICE float __int_as_float(int x) { return __builtin_bit_cast(float, x); }
WEFT_DEVICE int __float_as_int(float x) { return __builtin_bit_cast(int, x); }
WEFT_DEVICE float __uint_as_float(unsigned int x) { return __builtin_bit_cast(float, x); }
WEFT_DEVICE unsigned int __float_as_uint(float x) { return __builtin_bit_cast(unsigned int, x); }
WEFT_DEVICE double __longlong_as_double(long long x) { return __builtin_bit_cast(double, x); }
WEFT_DEVICE long long __double_as_longlong(double x) { return __builtin_bit_cast(long long, x); }
WEFT_DEVICE double __hiloint2double(int high, int low) {
  return __longlong_as_double((long long)high << 32 | (unsigned int)low);
}
WEFT_DEVICE int __double2hiint(double x) { return (int)(__double_as_longlong(x) >> 32); }
WEFT_DEVICE int __double2loint(double x) { return (int)__double_as_longlong(x); }

#define WEFT_ROUND(suffix, round) \
  WEFT_DEVICE int __float2int_##suffix(float x) { return (int)__builtin_##round##f(x); } \
  WEFT_DEVICE unsigned int __float2uint_##suffix(float x) { return (unsigned int)__builtin_##round##f(x); } \
  WEFT_DEVICE long long __float2ll_##suffix(float x) { return (long long)__builtin_##round##f(x); } \
  WEFT_DEVICE unsigned long long __float2ull_##suffix(float x) { return (unsigned long long)__builtin_##round##f(x); } \
  WEFT_DEVICE int __double2int_##suffix(double x) { return (int)__builtin_##round(x); } \
  WEFT_DEVICE unsigned int __double2uint_##suffix(double x) { return (unsigned int)__builtin_##round(x); } \
  WEFT_DEVICE long long __double2ll_##suffix(double x) { return (long long)__builtin_##round(x); } \
  WEFT_DEVICE unsigned long long __double2ull_##suffix(double x) { return (unsigned long long)__builtin_##round(x); }
WEFT_ROUND(rn, rint)
WEFT_ROUND(rz, trunc)
WEFT_ROUND(ru, ceil)
WEFT_ROUND(rd, floor)
#undef WEFT_ROUND
WEFT_DEVICE float __int2float_rn(int x) { return (float)x; }
WEFT_DEVICE float __uint2float_rn(unsigned int x) { return (float)x; }
WEFT_DEVICE float __ll2float_rn(long long x) { return (float)x; }
WEFT_DEVICE float __ull2float_rn(unsigned long long x) { return (float)x; }
WEFT_DEVICE double __int2double_rn(int x) { return (double)x; }
WEFT_DEVICE double __uint2double_rn(unsigned int x) { return (double)x; }
WEFT_DEVICE double __ll2double_rn(long long x) { return (double)x; }
WEFT_DEVICE double __ull2double_rn(unsigned long long x) { return (double)x; }
// What rounding left out of a whole number is one, too.
template <typename F, typename I> WEFT_DEVICE F weft_from_whole(I x, weft_direction to) {
  F result = (F)x;
  __int128 left = (__int128)x - (__int128)result;
  return weft_directed(result, (F)(left < 0 ? -1 : left > 0), to);
}
#define WEFT_FROM_WHOLE(suffix) \
  WEFT_DEVICE float __int2float_##suffix(int x) { return weft_from_whole<float>(x, weft_##suffix); } \
  WEFT_DEVICE float __uint2float_##suffix(unsigned int x) { return weft_from_whole<float>(x, weft_##suffix); } \
  WEFT_DEVICE float __ll2float_##suffix(long long x) { return weft_from_whole<float>(x, weft_##suffix); } \
  WEFT_DEVICE float __ull2float_##suffix(unsigned long long x) { return weft_from_whole<float>(x, weft_##suffix); } \
  WEFT_DEVICE double __ll2double_##suffix(long long x) { return weft_from_whole<double>(x, weft_##suffix); } \
  WEFT_DEVICE double __ull2double_##suffix(unsigned long long x) { return weft_from_whole<double>(x, weft_##suffix); }
WEFT_FROM_WHOLE(rd)
WEFT_FROM_WHOLE(ru)
WEFT_FROM_WHOLE(rz)
#undef WEFT_FROM_WHOLE
WEFT_DEVICE float __double2float_rn(double x) { return (float)x; }

#include "weft_cache_hints.h"
