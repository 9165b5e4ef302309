// make_float4 and its kin.
#pragma once
#include "vector_types.h"

#define WEFT_MAKE_VECTORS(name, base) \
  static __inline__ __host__ __device__ name##1 make_##name##1(base x) { return name##1{x}; } \
  static __inline__ __host__ __device__ name##2 make_##name##2(base x, base y) { return name##2{x, y}; } \
  static __inline__ __host__ __device__ name##3 make_##name##3(base x, base y, base z) { return name##3{x, y, z}; } \
  static __inline__ __host__ __device__ name##4 make_##name##4(base x, base y, base z, base w) { return name##4{x, y, z, w}; }

WEFT_MAKE_VECTORS(char, signed char)
WEFT_MAKE_VECTORS(uchar, unsigned char)
WEFT_MAKE_VECTORS(short, short)
WEFT_MAKE_VECTORS(ushort, unsigned short)
WEFT_MAKE_VECTORS(int, int)
WEFT_MAKE_VECTORS(uint, unsigned int)
WEFT_MAKE_VECTORS(long, long int)
WEFT_MAKE_VECTORS(ulong, unsigned long int)
WEFT_MAKE_VECTORS(longlong, long long int)
WEFT_MAKE_VECTORS(ulonglong, unsigned long long int)
WEFT_MAKE_VECTORS(float, float)
WEFT_MAKE_VECTORS(double, double)
#undef WEFT_MAKE_VECTORS
