// Functions of bits and bytes, of exponents, and those that newer ones stand for: in C++, since they are seldom used.
#pragma once

_WEFT_BOTH static inline unsigned __brev(unsigned x) {
  x = (x >> 1 & 0x55555555u) | (x & 0x55555555u) << 1;
  x = (x >> 2 & 0x33333333u) | (x & 0x33333333u) << 2;
  x = (x >> 4 & 0x0f0f0f0fu) | (x & 0x0f0f0f0fu) << 4;
  x = (x >> 8 & 0x00ff00ffu) | (x & 0x00ff00ffu) << 8;
  return x >> 16 | x << 16;
}
_WEFT_BOTH static inline unsigned long long __brevll(unsigned long long x) {
  return (unsigned long long)__brev((unsigned)x) << 32 | __brev((unsigned)(x >> 32));
}
_WEFT_BOTH static inline unsigned _weft_byte(unsigned long long both, unsigned which) {
  unsigned byte = (unsigned)(both >> 8 * (which & 7)) & 255u;
  return which & 8 ? (byte & 128u ? 255u : 0u) : byte;
}
_WEFT_BOTH static inline unsigned __byte_perm(unsigned x, unsigned y, unsigned s) {
  unsigned long long both = (unsigned long long)y << 32 | x;
  return _weft_byte(both, s & 15u) | _weft_byte(both, s >> 4 & 15u) << 8 | _weft_byte(both, s >> 8 & 15u) << 16 |
         _weft_byte(both, s >> 12 & 15u) << 24;
}
_WEFT_BOTH static inline unsigned __sad(int a, int b, unsigned c) { return (a > b ? (unsigned)a - (unsigned)b : (unsigned)b - (unsigned)a) + c; }
_WEFT_BOTH static inline unsigned __usad(unsigned a, unsigned b, unsigned c) { return (a > b ? a - b : b - a) + c; }
_WEFT_BOTH static inline int __hadd(int a, int b) { return (a & b) + ((a ^ b) >> 1); }
_WEFT_BOTH static inline int __rhadd(int a, int b) { return (a | b) - ((a ^ b) >> 1); }
_WEFT_BOTH static inline unsigned __uhadd(unsigned a, unsigned b) { return (a & b) + ((a ^ b) >> 1); }
_WEFT_BOTH static inline unsigned __urhadd(unsigned a, unsigned b) { return (a | b) - ((a ^ b) >> 1); }
_WEFT_BOTH static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  unsigned long long al = (unsigned)a, ah = a >> 32, bl = (unsigned)b, bh = b >> 32;
  unsigned long long middle = ah * bl + (al * bl >> 32), other = al * bh + (unsigned)middle;
  return ah * bh + (middle >> 32) + (other >> 32);
}
_WEFT_BOTH static inline long long __mul64hi(long long a, long long b) {
  unsigned long long x = (unsigned long long)a, y = (unsigned long long)b;
  return (long long)(__umul64hi(x, y) - (a < 0 ? y : 0ull) - (b < 0 ? x : 0ull));
}
_WEFT_BOTH static inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned by) {
  return (unsigned)(((unsigned long long)high << 32 | low) << (by & 31u) >> 32);
}
_WEFT_BOTH static inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned by) {
  return (unsigned)(((unsigned long long)high << 32 | low) >> (by & 31u));
}
_WEFT_BOTH static inline bool signbit(float x) { return __float_as_int(x) < 0; }
_WEFT_BOTH static inline bool signbit(double x) { return __double_as_longlong(x) < 0; }
_WEFT_BOTH static inline float nanf(const char *) { return NAN; }
_WEFT_BOTH static inline double nan(const char *) { return __builtin_nan(""); }
_WEFT_BOTH static inline double __drcp_rn(double x) { return 1.0 / x; }
_WEFT_BOTH static inline double __dsub_rn(double a, double b) { return a - b; }
_WEFT_BOTH static inline float _weft_power(int e) { return __int_as_float(e + 127 << 23); }
_WEFT_BOTH static inline float ldexpf(float x, int e) {
  e = e > 300 ? 300 : e < -300 ? -300 : e;
  int a = e / 3, b = (e - a) / 2;
  return x * _weft_power(a) * _weft_power(b) * _weft_power(e - a - b);
}
_WEFT_BOTH static inline double _weft_long_power(int e) { return __longlong_as_double((long long)(e + 1023) << 52); }
_WEFT_BOTH static inline double ldexp(double x, int e) {
  e = e > 2400 ? 2400 : e < -2400 ? -2400 : e;
  int a = e / 3, b = (e - a) / 2;
  return x * _weft_long_power(a) * _weft_long_power(b) * _weft_long_power(e - a - b);
}
_WEFT_BOTH static inline float ldexp(float x, int e) { return ldexpf(x, e); }
_WEFT_BOTH static inline float scalbnf(float x, int e) { return ldexpf(x, e); }
_WEFT_BOTH static inline double scalbn(double x, int e) { return ldexp(x, e); }
_WEFT_BOTH static inline float frexpf(float x, int *e) {
  *e = 0;
  if (x == 0 || !isfinite(x)) return x;
  int small = fabsf(x) < FLT_MIN ? 25 : 0, bits = __float_as_int(small ? x * 33554432.0f : x);
  *e = (bits >> 23 & 255) - 126 - small;
  return __int_as_float((bits & 0x807fffff) | 0x3f000000);
}
_WEFT_BOTH static inline double frexp(double x, int *e) {
  *e = 0;
  if (x == 0 || !isfinite(x)) return x;
  int small = fabs(x) < DBL_MIN ? 54 : 0;
  long long bits = __double_as_longlong(small ? x * 18014398509481984.0 : x);
  *e = (int)(bits >> 52 & 2047) - 1022 - small;
  return __longlong_as_double((bits & (long long)0x800fffffffffffffull) | 0x3fe0000000000000ll);
}
_WEFT_BOTH static inline float frexp(float x, int *e) { return frexpf(x, e); }

// ---- warps, as before CUDA 9: all lanes come
template <class T> __device__ static inline T __shfl(T value, int lane, int width = 32) { return __shfl_sync(~0u, value, lane, width); }
template <class T> __device__ static inline T __shfl_up(T value, unsigned by, int width = 32) { return __shfl_up_sync(~0u, value, by, width); }
template <class T> __device__ static inline T __shfl_down(T value, unsigned by, int width = 32) { return __shfl_down_sync(~0u, value, by, width); }
template <class T> __device__ static inline T __shfl_xor(T value, int lanes, int width = 32) { return __shfl_xor_sync(~0u, value, lanes, width); }
__device__ static inline unsigned __ballot(int x) { return __ballot_sync(~0u, x); }
__device__ static inline int __any(int x) { return __any_sync(~0u, x); }
__device__ static inline int __all(int x) { return __all_sync(~0u, x); }
