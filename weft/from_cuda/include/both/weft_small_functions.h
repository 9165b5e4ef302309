// Functions of floats of 16 bits, and pairs of them: computed in float and rounded.
#pragma once

#define WEFT_SMALL static __inline__ __host__ __device__
WEFT_SMALL float weft_within_one(float x) { return __builtin_fminf(__builtin_fmaxf(x, 0.0f), 1.0f); }
// A float rounded to one of 16 bits that is no larger (-1), or no smaller (1), by magnitude: what is nearest, or the
// next one, whose bits are the next number.
template <typename type> WEFT_SMALL type weft_stepped(float x, int towards) {
  type near = (type)x;
  float gap = __builtin_fabsf((float)near) - __builtin_fabsf(x);
  if (towards < 0 ? !(gap > 0) : !(gap < 0)) return near;
  return __builtin_bit_cast(type, (unsigned short)(__builtin_bit_cast(unsigned short, near) + towards));
}
#define WEFT_SMALL_ONE(type, name, text) WEFT_SMALL type name(type a) { return (type)(text); }
#define WEFT_SMALL_TWO(type, name, text) WEFT_SMALL type name(type a, type b) { return (type)(text); }
#define WEFT_SMALL_TEST(type, name, text) WEFT_SMALL bool name(type a, type b) { return text; }
#define WEFT_SMALL_PAIR(type, name, one) \
  WEFT_SMALL type##2 name(type##2 a, type##2 b) { return type##2(one(a.x, b.x), one(a.y, b.y)); }
#define WEFT_SMALL_EACH(type, name, one) WEFT_SMALL type##2 name(type##2 a) { return type##2(one(a.x), one(a.y)); }
// A pair of tests: each as 1 or 0, and whether both hold.
#define WEFT_SMALL_BOTH(type, how) \
  WEFT_SMALL type##2 __h##how##2(type##2 a, type##2 b) { \
    return type##2((type)(float)__h##how(a.x, b.x), (type)(float)__h##how(a.y, b.y)); \
  } \
  WEFT_SMALL bool __hb##how##2(type##2 a, type##2 b) { return __h##how(a.x, b.x) && __h##how(a.y, b.y); }

#define WEFT_SMALL_FUNCTIONS(type) \
  struct __attribute__((aligned(4))) type##2 { \
    type x, y; \
    type##2() = default; \
    __host__ __device__ type##2(type a, type b) : x(a), y(b) {} \
  }; \
  struct type##_raw { \
    unsigned short x; \
    type##_raw() = default; \
    __host__ __device__ type##_raw(unsigned short bits) : x(bits) {} \
    __host__ __device__ type##_raw(type value) : x(__builtin_bit_cast(unsigned short, value)) {} \
    __host__ __device__ operator type() const { return __builtin_bit_cast(type, x); } \
  }; \
  struct type##2_raw { unsigned short x, y; }; \
  WEFT_SMALL_TWO(type, __hadd, (float)a + (float)b) WEFT_SMALL_TWO(type, __hsub, (float)a - (float)b) \
  WEFT_SMALL_TWO(type, __hmul, (float)a * (float)b) WEFT_SMALL_TWO(type, __hdiv, (float)a / (float)b) \
  WEFT_SMALL_TWO(type, __hadd_rn, (float)a + (float)b) WEFT_SMALL_TWO(type, __hsub_rn, (float)a - (float)b) \
  WEFT_SMALL_TWO(type, __hmul_rn, (float)a * (float)b) \
  WEFT_SMALL_TWO(type, __hmax, __builtin_fmaxf((float)a, (float)b)) \
  WEFT_SMALL_TWO(type, __hmin, __builtin_fminf((float)a, (float)b)) \
  WEFT_SMALL type __hfma(type a, type b, type c) { return (type)__builtin_fmaf((float)a, (float)b, (float)c); } \
  WEFT_SMALL_TEST(type, __heq, (float)a == (float)b) WEFT_SMALL_TEST(type, __hne, (float)a != (float)b) \
  WEFT_SMALL_TEST(type, __hlt, (float)a < (float)b) WEFT_SMALL_TEST(type, __hle, (float)a <= (float)b) \
  WEFT_SMALL_TEST(type, __hgt, (float)a > (float)b) WEFT_SMALL_TEST(type, __hge, (float)a >= (float)b) \
  WEFT_SMALL bool __hisnan(type a) { return (float)a != (float)a; } \
  WEFT_SMALL int __hisinf(type a) { return __builtin_fabsf((float)a) == __builtin_inff() ? ((float)a < 0 ? -1 : 1) : 0; } \
  WEFT_SMALL_ONE(type, __hneg, -(float)a) WEFT_SMALL_ONE(type, __habs, __builtin_fabsf((float)a)) \
  WEFT_SMALL_ONE(type, hexp, __builtin_expf((float)a)) WEFT_SMALL_ONE(type, hexp2, __builtin_exp2f((float)a)) \
  WEFT_SMALL_ONE(type, hlog, __builtin_logf((float)a)) WEFT_SMALL_ONE(type, hlog2, __builtin_log2f((float)a)) \
  WEFT_SMALL_ONE(type, hlog10, __builtin_log10f((float)a)) WEFT_SMALL_ONE(type, hsqrt, __builtin_sqrtf((float)a)) \
  WEFT_SMALL_ONE(type, hrsqrt, 1.0f / __builtin_sqrtf((float)a)) WEFT_SMALL_ONE(type, hrcp, 1.0f / (float)a) \
  WEFT_SMALL_ONE(type, hsin, __builtin_sinf((float)a)) WEFT_SMALL_ONE(type, hcos, __builtin_cosf((float)a)) \
  WEFT_SMALL_ONE(type, htanh, __builtin_tanhf((float)a)) WEFT_SMALL_ONE(type, hfloor, __builtin_floorf((float)a)) \
  WEFT_SMALL_ONE(type, hceil, __builtin_ceilf((float)a)) WEFT_SMALL_ONE(type, htrunc, __builtin_truncf((float)a)) \
  WEFT_SMALL_ONE(type, hrint, __builtin_rintf((float)a)) WEFT_SMALL_ONE(type, hexp10, __builtin_powf(10.0f, (float)a)) \
  WEFT_SMALL_TWO(type, __hadd_sat, weft_within_one((float)a + (float)b)) \
  WEFT_SMALL_TWO(type, __hsub_sat, weft_within_one((float)a - (float)b)) \
  WEFT_SMALL_TWO(type, __hmul_sat, weft_within_one((float)a * (float)b)) \
  WEFT_SMALL_TWO(type, __hmax_nan, __hisnan(a) || __hisnan(b) ? (float)a + (float)b : (float)__hmax(a, b)) \
  WEFT_SMALL_TWO(type, __hmin_nan, __hisnan(a) || __hisnan(b) ? (float)a + (float)b : (float)__hmin(a, b)) \
  WEFT_SMALL type __hfma_sat(type a, type b, type c) { \
    return (type)weft_within_one(__builtin_fmaf((float)a, (float)b, (float)c)); \
  } \
  WEFT_SMALL type __hfma_relu(type a, type b, type c) { \
    return (type)__builtin_fmaxf(__builtin_fmaf((float)a, (float)b, (float)c), 0.0f); \
  } \
  WEFT_SMALL_PAIR(type, __hadd2, __hadd) WEFT_SMALL_PAIR(type, __hsub2, __hsub) WEFT_SMALL_PAIR(type, __hmul2, __hmul) \
  WEFT_SMALL_PAIR(type, __h2div, __hdiv) WEFT_SMALL_PAIR(type, __hmax2, __hmax) WEFT_SMALL_PAIR(type, __hmin2, __hmin) \
  WEFT_SMALL_EACH(type, operator-, __hneg) WEFT_SMALL_PAIR(type, operator+, __hadd) WEFT_SMALL_PAIR(type, operator-, __hsub) \
  WEFT_SMALL_PAIR(type, operator*, __hmul) WEFT_SMALL_PAIR(type, operator/, __hdiv) \
  WEFT_SMALL bool operator==(type##2 a, type##2 b) { return __heq(a.x, b.x) && __heq(a.y, b.y); } \
  WEFT_SMALL bool operator!=(type##2 a, type##2 b) { return !(a == b); } \
  WEFT_SMALL type##2 &operator/=(type##2 &a, const type##2 &b) { return a = a / b; } \
  WEFT_SMALL type##2 &operator+=(type##2 &a, const type##2 &b) { return a = a + b; } \
  WEFT_SMALL type##2 &operator-=(type##2 &a, const type##2 &b) { return a = a - b; } \
  WEFT_SMALL type##2 &operator*=(type##2 &a, const type##2 &b) { return a = a * b; } \
  WEFT_SMALL type##2 __hfma2(type##2 a, type##2 b, type##2 c) { \
    return type##2(__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)); \
  } \
  WEFT_SMALL_BOTH(type, eq) WEFT_SMALL_BOTH(type, ne) WEFT_SMALL_BOTH(type, lt) WEFT_SMALL_BOTH(type, le) \
  WEFT_SMALL_BOTH(type, gt) WEFT_SMALL_BOTH(type, ge) \
  WEFT_SMALL_EACH(type, __hneg2, __hneg) WEFT_SMALL_EACH(type, __habs2, __habs) WEFT_SMALL_EACH(type, h2exp, hexp) \
  WEFT_SMALL_EACH(type, h2exp2, hexp2) WEFT_SMALL_EACH(type, h2log, hlog) WEFT_SMALL_EACH(type, h2log2, hlog2) \
  WEFT_SMALL_EACH(type, h2sqrt, hsqrt) WEFT_SMALL_EACH(type, h2rsqrt, hrsqrt) WEFT_SMALL_EACH(type, h2rcp, hrcp) \
  WEFT_SMALL_EACH(type, h2floor, hfloor) WEFT_SMALL_EACH(type, h2ceil, hceil) WEFT_SMALL_EACH(type, h2trunc, htrunc) \
  WEFT_SMALL_EACH(type, h2rint, hrint) WEFT_SMALL_EACH(type, h2log10, hlog10) WEFT_SMALL_EACH(type, h2exp10, hexp10) \
  WEFT_SMALL_PAIR(type, __hadd2_rn, __hadd) WEFT_SMALL_PAIR(type, __hsub2_rn, __hsub) \
  WEFT_SMALL_PAIR(type, __hmul2_rn, __hmul) WEFT_SMALL_PAIR(type, __hadd2_sat, __hadd_sat) \
  WEFT_SMALL_PAIR(type, __hsub2_sat, __hsub_sat) WEFT_SMALL_PAIR(type, __hmul2_sat, __hmul_sat) \
  WEFT_SMALL type##2 __lowhigh2highlow(type##2 a) { return type##2(a.y, a.x); } \
  WEFT_SMALL type##2 __hisnan2(type##2 a) { \
    return type##2((type)(float)__hisnan(a.x), (type)(float)__hisnan(a.y)); \
  } \
  WEFT_SMALL_EACH(type, h2sin, hsin) WEFT_SMALL_EACH(type, h2cos, hcos) WEFT_SMALL_EACH(type, h2tanh, htanh) \
  WEFT_SMALL float __low2float(type##2 a) { return (float)a.x; } \
  WEFT_SMALL float __high2float(type##2 a) { return (float)a.y; }

// Atomic sums: by trying until nobody was in between; of a pair each by itself.
#define WEFT_SMALL_ATOMICS(type) \
  static __inline__ __device__ type atomicAdd(type *at, type value) { \
    unsigned short *bits = (unsigned short *)at, old = 0, seen; \
    do { \
      seen = old; \
      type sum = (type)((float)__builtin_bit_cast(type, seen) + (float)value); \
      old = atomicCAS(bits, seen, __builtin_bit_cast(unsigned short, sum)); \
    } while (old != seen); \
    return __builtin_bit_cast(type, old); \
  } \
  static __inline__ __device__ type##2 atomicAdd(type##2 *at, type##2 value) { \
    type low = atomicAdd(&at->x, value.x), high = atomicAdd(&at->y, value.y); \
    return type##2(low, high); \
  }

// Conversions, whose names hold the type's own: half, bfloat16.
#define WEFT_SMALL_CONVERSIONS(type, name) \
  WEFT_SMALL type __float2##name(float x) { return (type)x; } \
  WEFT_SMALL type __float2##name##_rn(float x) { return (type)x; } \
  WEFT_SMALL type __float2##name##_rz(float x) { return weft_stepped<type>(x, -1); } \
  WEFT_SMALL type __float2##name##_rd(float x) { return weft_stepped<type>(x, x < 0 ? 1 : -1); } \
  WEFT_SMALL type __float2##name##_ru(float x) { return weft_stepped<type>(x, x < 0 ? -1 : 1); } \
  WEFT_SMALL type __double2##name(double x) { return (type)(float)x; } \
  WEFT_SMALL type __int2##name##_rn(int x) { return (type)(float)x; } \
  WEFT_SMALL type __uint2##name##_rn(unsigned int x) { return (type)(float)x; } \
  WEFT_SMALL type __short2##name##_rn(short x) { return (type)(float)x; } \
  WEFT_SMALL type __ushort2##name##_rn(unsigned short x) { return (type)(float)x; } \
  WEFT_SMALL type __ll2##name##_rn(long long x) { return (type)(float)x; } \
  WEFT_SMALL float __##name##2float(type x) { return (float)x; } \
  WEFT_SMALL int __##name##2int_rn(type x) { return (int)__builtin_rintf((float)x); } \
  WEFT_SMALL int __##name##2int_rz(type x) { return (int)(float)x; } \
  WEFT_SMALL int __##name##2int_rd(type x) { return (int)__builtin_floorf((float)x); } \
  WEFT_SMALL int __##name##2int_ru(type x) { return (int)__builtin_ceilf((float)x); } \
  WEFT_SMALL unsigned int __##name##2uint_rz(type x) { return (unsigned int)(float)x; } \
  WEFT_SMALL unsigned int __##name##2uint_rn(type x) { return (unsigned int)__builtin_rintf((float)x); } \
  WEFT_SMALL short __##name##2short_rz(type x) { return (short)(float)x; } \
  WEFT_SMALL short __##name##2short_rn(type x) { return (short)__builtin_rintf((float)x); } \
  WEFT_SMALL unsigned short __##name##2ushort_rz(type x) { return (unsigned short)(float)x; } \
  WEFT_SMALL unsigned short __##name##2ushort_rn(type x) { return (unsigned short)__builtin_rintf((float)x); } \
  WEFT_SMALL long long __##name##2ll_rz(type x) { return (long long)(float)x; } \
  WEFT_SMALL long long __##name##2ll_rn(type x) { return (long long)__builtin_rintf((float)x); } \
  WEFT_SMALL signed char __##name##2char_rz(type x) { return (signed char)(float)x; } \
  WEFT_SMALL unsigned short __##name##_as_ushort(type x) { return __builtin_bit_cast(unsigned short, x); } \
  WEFT_SMALL short __##name##_as_short(type x) { return __builtin_bit_cast(short, x); } \
  WEFT_SMALL type __ushort_as_##name(unsigned short x) { return __builtin_bit_cast(type, x); } \
  WEFT_SMALL type __short_as_##name(short x) { return __builtin_bit_cast(type, x); } \
  WEFT_SMALL type##2 __halves2##name##2(type a, type b) { return type##2(a, b); } \
  WEFT_SMALL type##2 make_##name##2(type a, type b) { return type##2(a, b); } \
  WEFT_SMALL type##2 __##name##2##name##2(type a) { return type##2(a, a); } \
  WEFT_SMALL type##2 __float2##name##2_rn(float x) { return type##2((type)x, (type)x); } \
  WEFT_SMALL type##2 __floats2##name##2_rn(float x, float y) { return type##2((type)x, (type)y); } \
  WEFT_SMALL type##2 __float22##name##2_rn(float2 x) { return type##2((type)x.x, (type)x.y); } \
  WEFT_SMALL float2 __##name##22float2(type##2 x) { return float2{(float)x.x, (float)x.y}; } \
  WEFT_SMALL type __low2##name(type##2 x) { return x.x; } \
  WEFT_SMALL type __high2##name(type##2 x) { return x.y; } \
  WEFT_SMALL type##2 __low2##name##2(type##2 x) { return type##2(x.x, x.x); } \
  WEFT_SMALL type##2 __high2##name##2(type##2 x) { return type##2(x.y, x.y); } \
  WEFT_SMALL type##2 __lows2##name##2(type##2 x, type##2 y) { return type##2(x.x, y.x); } \
  WEFT_SMALL type##2 __highs2##name##2(type##2 x, type##2 y) { return type##2(x.y, y.y); }
