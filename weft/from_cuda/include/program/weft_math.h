// Math for device code: the C library's names, CUDA's own, and its intrinsics.
//
// The device's own are declared before the standard headers, whose templates look for them where they are defined.
#pragma once
#include "weft_qualifiers.h"

#define WEFT_DEVICE static __inline__ __device__
#define WEFT_BOTH static __inline__ __host__ __device__

#define WEFT_MATH1(name) \
  WEFT_DEVICE double name(double x) { return __builtin_##name(x); } \
  WEFT_DEVICE float name##f(float x) { return __builtin_##name##f(x); }
#define WEFT_MATH2(name) \
  WEFT_DEVICE double name(double x, double y) { return __builtin_##name(x, y); } \
  WEFT_DEVICE float name##f(float x, float y) { return __builtin_##name##f(x, y); }
WEFT_MATH1(acos) WEFT_MATH1(acosh) WEFT_MATH1(asin) WEFT_MATH1(asinh) WEFT_MATH1(atan) WEFT_MATH1(atanh)
WEFT_MATH1(cbrt) WEFT_MATH1(ceil) WEFT_MATH1(cos) WEFT_MATH1(cosh) WEFT_MATH1(erf) WEFT_MATH1(erfc) WEFT_MATH1(exp)
WEFT_MATH1(exp2) WEFT_MATH1(expm1) WEFT_MATH1(fabs) WEFT_MATH1(floor) WEFT_MATH1(lgamma) WEFT_MATH1(log)
WEFT_MATH1(log10) WEFT_MATH1(log1p) WEFT_MATH1(log2) WEFT_MATH1(logb) WEFT_MATH1(nearbyint) WEFT_MATH1(rint)
WEFT_MATH1(round) WEFT_MATH1(sin) WEFT_MATH1(sinh) WEFT_MATH1(sqrt) WEFT_MATH1(tan) WEFT_MATH1(tanh) WEFT_MATH1(tgamma)
WEFT_MATH1(trunc)
WEFT_MATH2(atan2) WEFT_MATH2(copysign) WEFT_MATH2(fdim) WEFT_MATH2(fmax) WEFT_MATH2(fmin) WEFT_MATH2(fmod)
WEFT_MATH2(hypot) WEFT_MATH2(nextafter) WEFT_MATH2(pow) WEFT_MATH2(remainder)
#undef WEFT_MATH1
#undef WEFT_MATH2

WEFT_DEVICE double fma(double x, double y, double z) { return __builtin_fma(x, y, z); }
WEFT_DEVICE float fmaf(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
WEFT_DEVICE double ldexp(double x, int e) { return __builtin_ldexp(x, e); }
WEFT_DEVICE float ldexpf(float x, int e) { return __builtin_ldexpf(x, e); }
WEFT_DEVICE double scalbn(double x, int e) { return __builtin_ldexp(x, e); }
WEFT_DEVICE float scalbnf(float x, int e) { return __builtin_ldexpf(x, e); }
WEFT_DEVICE double frexp(double x, int *e) { return __builtin_frexp(x, e); }
WEFT_DEVICE float frexpf(float x, int *e) { return __builtin_frexpf(x, e); }
WEFT_DEVICE double modf(double x, double *whole) { return __builtin_modf(x, whole); }
WEFT_DEVICE float modff(float x, float *whole) { return __builtin_modff(x, whole); }
WEFT_DEVICE int ilogb(double x) { return __builtin_ilogb(x); }
WEFT_DEVICE int ilogbf(float x) { return __builtin_ilogbf(x); }
WEFT_DEVICE long lrint(double x) { return __builtin_lrint(x); }
WEFT_DEVICE long lrintf(float x) { return __builtin_lrintf(x); }
WEFT_DEVICE long lround(double x) { return __builtin_lround(x); }
WEFT_DEVICE long lroundf(float x) { return __builtin_lroundf(x); }
WEFT_DEVICE long long llrint(double x) { return __builtin_llrint(x); }
WEFT_DEVICE long long llrintf(float x) { return __builtin_llrintf(x); }
WEFT_DEVICE long long llround(double x) { return __builtin_llround(x); }
WEFT_DEVICE long long llroundf(float x) { return __builtin_llroundf(x); }
WEFT_DEVICE void sincos(double x, double *s, double *c) { *s = __builtin_sin(x), *c = __builtin_cos(x); }
WEFT_DEVICE void sincosf(float x, float *s, float *c) { *s = __builtin_sinf(x), *c = __builtin_cosf(x); }
WEFT_DEVICE int abs(int x) { return x < 0 ? -x : x; }
WEFT_DEVICE long labs(long x) { return x < 0 ? -x : x; }
WEFT_DEVICE long long llabs(long long x) { return x < 0 ? -x : x; }

extern "C" {
__device__ int printf(const char *format, ...);
__device__ void __assert_fail(const char *text, const char *file, unsigned int line, const char *function);
__device__ void *malloc(decltype(sizeof(0)) bytes);
__device__ void free(void *at);
__device__ void *memcpy(void *to, const void *from, decltype(sizeof(0)) bytes);
__device__ void *memmove(void *to, const void *from, decltype(sizeof(0)) bytes);
__device__ void *memset(void *to, int value, decltype(sizeof(0)) bytes);
}

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <stdio.h>
#include <cmath>
#include <cstdlib>
#include <new>

namespace std {
using ::acos; using ::acosf; using ::acosh; using ::acoshf; using ::asin; using ::asinf; using ::asinh;
using ::asinhf; using ::atan; using ::atan2; using ::atan2f; using ::atanf; using ::atanh; using ::atanhf;
using ::cbrt; using ::cbrtf; using ::ceil; using ::ceilf; using ::copysign; using ::copysignf; using ::cos;
using ::cosf; using ::cosh; using ::coshf; using ::erf; using ::erfc; using ::erfcf; using ::erff; using ::exp;
using ::exp2; using ::exp2f; using ::expf; using ::expm1; using ::expm1f; using ::fabs; using ::fabsf; using ::fdim;
using ::fdimf; using ::floor; using ::floorf; using ::fma; using ::fmaf; using ::fmax; using ::fmaxf; using ::fmin;
using ::fminf; using ::fmod; using ::fmodf; using ::frexp; using ::frexpf; using ::hypot; using ::hypotf;
using ::ilogb; using ::ilogbf; using ::ldexp; using ::ldexpf; using ::lgamma; using ::lgammaf; using ::llrint;
using ::llrintf; using ::llround; using ::llroundf; using ::log; using ::log10; using ::log10f; using ::log1p;
using ::log1pf; using ::log2; using ::log2f; using ::logb; using ::logbf; using ::logf; using ::lrint;
using ::lrintf; using ::lround; using ::lroundf; using ::modf; using ::modff; using ::nearbyint; using ::nearbyintf;
using ::nextafter; using ::nextafterf; using ::pow; using ::powf; using ::remainder; using ::remainderf;
using ::rint; using ::rintf; using ::round; using ::roundf; using ::scalbn; using ::scalbnf; using ::sin;
using ::sinf; using ::sinh; using ::sinhf; using ::sqrt; using ::sqrtf; using ::tan; using ::tanf; using ::tanh;
using ::tanhf; using ::tgamma; using ::tgammaf; using ::trunc; using ::truncf; using ::abs; using ::labs;
using ::llabs;
}  // namespace std

// Functions that only CUDA had, on the host as well: there as templates, which give way to those of C libraries that have
// them by now (sinpi, rsqrt).
#define WEFT_CUDA2(name, text, text_of_float) \
  WEFT_DEVICE double name(double x) { return text; } \
  WEFT_DEVICE float name##f(float x) { return text_of_float; } \
  WEFT_BOTH float name(float x) { return text_of_float; } \
  template <typename T> static __inline__ __host__ double name(T x) { return text; } \
  template <typename T> static __inline__ __host__ float name##f(T x) { return text_of_float; }
#define WEFT_CUDA1(name, text) WEFT_CUDA2(name, text, (float)(text))
WEFT_CUDA2(rsqrt, 1.0 / __builtin_sqrt((double)x), 1.0f / __builtin_sqrtf((float)x))
WEFT_CUDA1(rcbrt, 1.0 / __builtin_cbrt((double)x))
WEFT_CUDA1(sinpi, __builtin_sin(3.141592653589793 * __builtin_remainder((double)x, 2.0)))
WEFT_CUDA1(cospi, __builtin_cos(3.141592653589793 * __builtin_remainder((double)x, 2.0)))
WEFT_CUDA1(normcdf, 0.5 * __builtin_erfc((double)x * -0.7071067811865476))
WEFT_CUDA1(erfcx, __builtin_exp((double)x *(double)x) * __builtin_erfc((double)x))
#undef WEFT_CUDA1
#undef WEFT_CUDA2
WEFT_BOTH float fdividef(float x, float y) { return x / y; }
WEFT_BOTH float fdivide(float x, float y) { return x / y; }
WEFT_BOTH double fdivide(double x, double y) { return x / y; }
WEFT_DEVICE double nan(const char *) { return __builtin_nan(""); }
WEFT_DEVICE float nanf(const char *) { return __builtin_nanf(""); }
WEFT_DEVICE double exp10(double x) { return __builtin_pow(10.0, x); }
WEFT_DEVICE float exp10f(float x) { return (float)__builtin_pow(10.0, (double)x); }
WEFT_BOTH float saturate(float x) { return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f; }
WEFT_BOTH float norm3df(float x, float y, float z) { return __builtin_sqrtf(x * x + y * y + z * z); }
WEFT_BOTH double norm3d(double x, double y, double z) { return __builtin_sqrt(x * x + y * y + z * z); }
WEFT_BOTH float rnorm3df(float x, float y, float z) { return 1.0f / norm3df(x, y, z); }
WEFT_BOTH float rhypotf(float x, float y) { return 1.0f / __builtin_hypotf(x, y); }

// min and max of every pair of arithmetic types, with C's usual conversions.
#define WEFT_MIN_MAX(type) \
  WEFT_BOTH type min(type a, type b) { return a < b ? a : b; } \
  WEFT_BOTH type max(type a, type b) { return a > b ? a : b; }
WEFT_MIN_MAX(int)
WEFT_MIN_MAX(unsigned int)
WEFT_MIN_MAX(long)
WEFT_MIN_MAX(unsigned long)
WEFT_MIN_MAX(long long)
WEFT_MIN_MAX(unsigned long long)
#undef WEFT_MIN_MAX
#define WEFT_MIN_MAX(first, second, type) \
  WEFT_BOTH type min(first a, second b) { return (type)a < (type)b ? (type)a : (type)b; } \
  WEFT_BOTH type max(first a, second b) { return (type)a > (type)b ? (type)a : (type)b; }
WEFT_MIN_MAX(int, unsigned int, unsigned int)
WEFT_MIN_MAX(unsigned int, int, unsigned int)
WEFT_MIN_MAX(long, int, long)
WEFT_MIN_MAX(int, long, long)
WEFT_MIN_MAX(unsigned long, int, unsigned long)
WEFT_MIN_MAX(int, unsigned long, unsigned long)
WEFT_MIN_MAX(unsigned long, unsigned int, unsigned long)
WEFT_MIN_MAX(unsigned int, unsigned long, unsigned long)
WEFT_MIN_MAX(unsigned long, long, unsigned long)
WEFT_MIN_MAX(long, unsigned long, unsigned long)
WEFT_MIN_MAX(long long, int, long long)
WEFT_MIN_MAX(int, long long, long long)
#undef WEFT_MIN_MAX
#define WEFT_MIN_MAX(first, second, type, suffix) \
  WEFT_BOTH type min(first a, second b) { return __builtin_fmin##suffix((type)a, (type)b); } \
  WEFT_BOTH type max(first a, second b) { return __builtin_fmax##suffix((type)a, (type)b); }
WEFT_MIN_MAX(float, float, float, f)
WEFT_MIN_MAX(float, int, float, f)
WEFT_MIN_MAX(int, float, float, f)
WEFT_MIN_MAX(double, double, double, )
WEFT_MIN_MAX(float, double, double, )
WEFT_MIN_MAX(double, float, double, )
WEFT_MIN_MAX(double, int, double, )
WEFT_MIN_MAX(int, double, double, )
#undef WEFT_MIN_MAX
WEFT_BOTH unsigned int umin(unsigned int a, unsigned int b) { return a < b ? a : b; }
WEFT_BOTH unsigned int umax(unsigned int a, unsigned int b) { return a > b ? a : b; }

#include "weft_intrinsics.h"
