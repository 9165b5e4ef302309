// Complex numbers as pairs, and their functions.
#pragma once
#include <math.h>  // programs count on it
#include "cuda_runtime.h"

typedef float2 cuFloatComplex, cuComplex;
typedef double2 cuDoubleComplex;
#ifdef __cplusplus
#define WEFT_COMPLEX static __inline__ __host__ __device__
#else
#define WEFT_COMPLEX static inline
#endif
#define WEFT_COMPLEX_FUNCTIONS(suffix, complex, real, root) \
  WEFT_COMPLEX real cuCreal##suffix(complex x) { return x.x; } \
  WEFT_COMPLEX real cuCimag##suffix(complex x) { return x.y; } \
  WEFT_COMPLEX complex weft_complex##suffix(real x, real y) { \
    complex made; \
    made.x = x, made.y = y; \
    return made; \
  } \
  WEFT_COMPLEX complex cuConj##suffix(complex x) { return weft_complex##suffix(x.x, -x.y); } \
  WEFT_COMPLEX complex cuCadd##suffix(complex x, complex y) { return weft_complex##suffix(x.x + y.x, x.y + y.y); } \
  WEFT_COMPLEX complex cuCsub##suffix(complex x, complex y) { return weft_complex##suffix(x.x - y.x, x.y - y.y); } \
  WEFT_COMPLEX complex cuCmul##suffix(complex x, complex y) { \
    return weft_complex##suffix(x.x * y.x - x.y * y.y, x.x * y.y + x.y * y.x); \
  } \
  WEFT_COMPLEX complex cuCdiv##suffix(complex x, complex y) { \
    real s = (y.x < 0 ? -y.x : y.x) + (y.y < 0 ? -y.y : y.y), a = y.x / s, b = y.y / s, square = a * a + b * b; \
    return weft_complex##suffix((x.x / s * a + x.y / s * b) / square, (x.y / s * a - x.x / s * b) / square); \
  } \
  WEFT_COMPLEX real cuCabs##suffix(complex x) { return root(x.x * x.x + x.y * x.y); }
WEFT_COMPLEX_FUNCTIONS(f, cuFloatComplex, float, __builtin_sqrtf)
WEFT_COMPLEX_FUNCTIONS(, cuDoubleComplex, double, __builtin_sqrt)
#undef WEFT_COMPLEX_FUNCTIONS
WEFT_COMPLEX cuFloatComplex make_cuFloatComplex(float x, float y) { return weft_complexf(x, y); }
WEFT_COMPLEX cuComplex make_cuComplex(float x, float y) { return weft_complexf(x, y); }
WEFT_COMPLEX cuDoubleComplex make_cuDoubleComplex(double x, double y) { return weft_complex(x, y); }
WEFT_COMPLEX cuComplex cuCfmaf(cuComplex x, cuComplex y, cuComplex z) { return cuCaddf(cuCmulf(x, y), z); }
WEFT_COMPLEX cuDoubleComplex cuCfma(cuDoubleComplex x, cuDoubleComplex y, cuDoubleComplex z) { return cuCadd(cuCmul(x, y), z); }
#undef WEFT_COMPLEX
