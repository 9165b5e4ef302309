// Floats of 16 bits: arithmetic is done in float and rounded, as the host does where it has no instructions for them.
#pragma once
#include "cuda_runtime.h"

#include "weft_small_functions.h"

#define WEFT_SMALL_FLOAT(type, storage) \
  struct __align__(2) type { \
    storage value; \
    type() = default; \
    __host__ __device__ type(float x) : value((storage)x) {} \
    __host__ __device__ type(double x) : value((storage)(float)x) {} \
    __host__ __device__ type(int x) : value((storage)(float)x) {} \
    __host__ __device__ type(unsigned int x) : value((storage)(float)x) {} \
    __host__ __device__ type(long x) : value((storage)(float)x) {} \
    __host__ __device__ type(unsigned long x) : value((storage)(float)x) {} \
    __host__ __device__ type(long long x) : value((storage)(float)x) {} \
    __host__ __device__ type(unsigned long long x) : value((storage)(float)x) {} \
    __host__ __device__ operator float() const { return (float)value; } \
    __host__ __device__ type &operator+=(type o) { return *this = type((float)*this + (float)o); } \
    __host__ __device__ type &operator-=(type o) { return *this = type((float)*this - (float)o); } \
    __host__ __device__ type &operator*=(type o) { return *this = type((float)*this * (float)o); } \
    __host__ __device__ type &operator/=(type o) { return *this = type((float)*this / (float)o); } \
  }; \
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
  WEFT_SMALL_FUNCTIONS(type)
