// Floats of 16 bits: arithmetic is done in float and rounded, as the host does where it has no instructions for them.
#pragma once
#include "cuda_runtime.h"

#define WEFT_SMALL static __inline__ __host__ __device__
#define WEFT_SMALL_FLOAT(type, storage) \
  struct __align__(2) type { \
    storage value; \
    type() = default; \
    __host__ __device__ type(float x) : value((storage)x) {} \
    __host__ __device__ type(double x) : value((storage)(float)x) {} \
    __host__ __device__ type(int x) : value((storage)(float)x) {} \
    __host__ __device__ operator float() const { return (float)value; } \
    __host__ __device__ type &operator+=(type o) { return *this = type((float)*this + (float)o); } \
    __host__ __device__ type &operator-=(type o) { return *this = type((float)*this - (float)o); } \
    __host__ __device__ type &operator*=(type o) { return *this = type((float)*this * (float)o); } \
    __host__ __device__ type &operator/=(type o) { return *this = type((float)*this / (float)o); } \
  }; \
  struct __align__(4) type##2 { type x, y; }; \
  WEFT_SMALL type operator+(type a, type b) { return type((float)a + (float)b); } \
  WEFT_SMALL type operator-(type a, type b) { return type((float)a - (float)b); } \
  WEFT_SMALL type operator*(type a, type b) { return type((float)a * (float)b); } \
  WEFT_SMALL type operator/(type a, type b) { return type((float)a / (float)b); } \
  WEFT_SMALL type operator-(type a) { return type(-(float)a); } \
  WEFT_SMALL bool operator<(type a, type b) { return (float)a < (float)b; } \
  WEFT_SMALL bool operator>(type a, type b) { return (float)a > (float)b; } \
  WEFT_SMALL bool operator<=(type a, type b) { return (float)a <= (float)b; } \
  WEFT_SMALL bool operator>=(type a, type b) { return (float)a >= (float)b; } \
  WEFT_SMALL bool operator==(type a, type b) { return (float)a == (float)b; } \
  WEFT_SMALL bool operator!=(type a, type b) { return (float)a != (float)b; } \
  WEFT_SMALL type __hadd(type a, type b) { return a + b; } \
  WEFT_SMALL type __hsub(type a, type b) { return a - b; } \
  WEFT_SMALL type __hmul(type a, type b) { return a * b; } \
  WEFT_SMALL type __hdiv(type a, type b) { return a / b; } \
  WEFT_SMALL type __hneg(type a) { return -a; } \
  WEFT_SMALL type __habs(type a) { return type(__builtin_fabsf((float)a)); } \
  WEFT_SMALL type __hfma(type a, type b, type c) { return type(__builtin_fmaf((float)a, (float)b, (float)c)); } \
  WEFT_SMALL type __hmax(type a, type b) { return type(__builtin_fmaxf((float)a, (float)b)); } \
  WEFT_SMALL type __hmin(type a, type b) { return type(__builtin_fminf((float)a, (float)b)); } \
  WEFT_SMALL bool __heq(type a, type b) { return a == b; } \
  WEFT_SMALL bool __hne(type a, type b) { return a != b; } \
  WEFT_SMALL bool __hlt(type a, type b) { return a < b; } \
  WEFT_SMALL bool __hle(type a, type b) { return a <= b; } \
  WEFT_SMALL bool __hgt(type a, type b) { return a > b; } \
  WEFT_SMALL bool __hge(type a, type b) { return a >= b; } \
  WEFT_SMALL bool __hisnan(type a) { return (float)a != (float)a; } \
  WEFT_SMALL type##2 __hadd2(type##2 a, type##2 b) { return type##2{a.x + b.x, a.y + b.y}; } \
  WEFT_SMALL type##2 operator+(type##2 a, type##2 b) { return __hadd2(a, b); } \
  WEFT_SMALL type##2 __hsub2(type##2 a, type##2 b) { return type##2{a.x - b.x, a.y - b.y}; } \
  WEFT_SMALL type##2 operator-(type##2 a, type##2 b) { return __hsub2(a, b); } \
  WEFT_SMALL type##2 __hmul2(type##2 a, type##2 b) { return type##2{a.x * b.x, a.y * b.y}; } \
  WEFT_SMALL type##2 operator*(type##2 a, type##2 b) { return __hmul2(a, b); } \
  WEFT_SMALL type##2 __hmax2(type##2 a, type##2 b) { return type##2{__hmax(a.x, b.x), __hmax(a.y, b.y)}; } \
  WEFT_SMALL type##2 __hmin2(type##2 a, type##2 b) { return type##2{__hmin(a.x, b.x), __hmin(a.y, b.y)}; } \
  WEFT_SMALL type##2 __hfma2(type##2 a, type##2 b, type##2 c) { \
    return type##2{__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)}; \
  } \
  WEFT_SMALL type hsqrt(type a) { return type(__builtin_sqrtf((float)a)); } \
  WEFT_SMALL type hrsqrt(type a) { return type(1.0f / __builtin_sqrtf((float)a)); } \
  WEFT_SMALL type hexp(type a) { return type(__builtin_expf((float)a)); } \
  WEFT_SMALL type hlog(type a) { return type(__builtin_logf((float)a)); } \
  WEFT_SMALL type hsin(type a) { return type(__builtin_sinf((float)a)); } \
  WEFT_SMALL type hcos(type a) { return type(__builtin_cosf((float)a)); } \
  WEFT_SMALL type htanh(type a) { return type(__builtin_tanhf((float)a)); } \
  WEFT_SMALL type hrcp(type a) { return type(1.0f / (float)a); } \
  WEFT_SMALL type hfloor(type a) { return type(__builtin_floorf((float)a)); } \
  WEFT_SMALL type hceil(type a) { return type(__builtin_ceilf((float)a)); }
