// CUDA's vector types: plain structures, aligned as CUDA says, so that device and host lay them out alike.
#pragma once
#define __VECTOR_TYPES_H__  // headers of the CUDA samples ask for it
#include "weft_qualifiers.h"

#define WEFT_VECTOR_TYPES(name, base, align2, align4) \
  struct name##1 { base x; }; \
  struct __align__(align2) name##2 { base x, y; }; \
  struct name##3 { base x, y, z; }; \
  struct __align__(align4) name##4 { base x, y, z, w; };

WEFT_VECTOR_TYPES(char, signed char, 2, 4)
WEFT_VECTOR_TYPES(uchar, unsigned char, 2, 4)
WEFT_VECTOR_TYPES(short, short, 4, 8)
WEFT_VECTOR_TYPES(ushort, unsigned short, 4, 8)
WEFT_VECTOR_TYPES(int, int, 8, 16)
WEFT_VECTOR_TYPES(uint, unsigned int, 8, 16)
WEFT_VECTOR_TYPES(long, long int, 16, 16)
WEFT_VECTOR_TYPES(ulong, unsigned long int, 16, 16)
WEFT_VECTOR_TYPES(longlong, long long int, 16, 16)
WEFT_VECTOR_TYPES(ulonglong, unsigned long long int, 16, 16)
WEFT_VECTOR_TYPES(float, float, 8, 16)
WEFT_VECTOR_TYPES(double, double, 16, 16)
#undef WEFT_VECTOR_TYPES

struct dim3 {
  unsigned int x, y, z;
#ifdef __cplusplus
  __host__ __device__ constexpr dim3(unsigned int vx = 1, unsigned int vy = 1, unsigned int vz = 1) : x(vx), y(vy), z(vz) {}
  __host__ __device__ constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
  __host__ __device__ constexpr operator uint3() const { return uint3{x, y, z}; }
#endif
};
