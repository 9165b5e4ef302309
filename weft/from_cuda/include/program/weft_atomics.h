// Atomic functions: relaxed, as CUDA's are.
#pragma once
#include "weft_qualifiers.h"

#define WEFT_ATOMIC(function, type, operation) \
  static __inline__ __device__ type function(type *at, type value) { \
    return operation(at, value, __ATOMIC_RELAXED); \
  } \
  static __inline__ __device__ type function##_block(type *at, type value) { return function(at, value); } \
  static __inline__ __device__ type function##_system(type *at, type value) { return function(at, value); }
#define WEFT_ATOMIC_INTEGERS(function, operation) \
  WEFT_ATOMIC(function, int, operation) \
  WEFT_ATOMIC(function, unsigned int, operation) \
  WEFT_ATOMIC(function, unsigned long long int, operation)

WEFT_ATOMIC_INTEGERS(atomicAdd, __atomic_fetch_add)
WEFT_ATOMIC(atomicAdd, float, __atomic_fetch_add)
WEFT_ATOMIC(atomicAdd, double, __atomic_fetch_add)
WEFT_ATOMIC(atomicSub, int, __atomic_fetch_sub)
WEFT_ATOMIC(atomicSub, unsigned int, __atomic_fetch_sub)
WEFT_ATOMIC_INTEGERS(atomicMin, __atomic_fetch_min)
WEFT_ATOMIC(atomicMin, long long int, __atomic_fetch_min)
WEFT_ATOMIC_INTEGERS(atomicMax, __atomic_fetch_max)
WEFT_ATOMIC(atomicMax, long long int, __atomic_fetch_max)
WEFT_ATOMIC_INTEGERS(atomicAnd, __atomic_fetch_and)
WEFT_ATOMIC_INTEGERS(atomicOr, __atomic_fetch_or)
WEFT_ATOMIC_INTEGERS(atomicXor, __atomic_fetch_xor)
WEFT_ATOMIC_INTEGERS(atomicExch, __atomic_exchange_n)
#undef WEFT_ATOMIC
#undef WEFT_ATOMIC_INTEGERS

static __inline__ __device__ float atomicExch(float *at, float value) {
  unsigned int bits = atomicExch((unsigned int *)at, __builtin_bit_cast(unsigned int, value));
  return __builtin_bit_cast(float, bits);
}

#define WEFT_ATOMIC_CAS(type) \
  static __inline__ __device__ type atomicCAS(type *at, type expected, type value) { \
    __atomic_compare_exchange_n(at, &expected, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED); \
    return expected; \
  } \
  static __inline__ __device__ type atomicCAS_block(type *at, type e, type v) { return atomicCAS(at, e, v); } \
  static __inline__ __device__ type atomicCAS_system(type *at, type e, type v) { return atomicCAS(at, e, v); }
WEFT_ATOMIC_CAS(int)
WEFT_ATOMIC_CAS(unsigned int)
WEFT_ATOMIC_CAS(unsigned long long int)
WEFT_ATOMIC_CAS(unsigned short int)
#undef WEFT_ATOMIC_CAS

static __inline__ __device__ unsigned int atomicInc(unsigned int *at, unsigned int limit) {
  unsigned int old = __atomic_load_n(at, __ATOMIC_RELAXED), seen;
  do {
    seen = old;
    old = atomicCAS(at, seen, seen >= limit ? 0u : seen + 1u);
  } while (old != seen);
  return old;
}
static __inline__ __device__ unsigned int atomicDec(unsigned int *at, unsigned int limit) {
  unsigned int old = __atomic_load_n(at, __ATOMIC_RELAXED), seen;
  do {
    seen = old;
    old = atomicCAS(at, seen, seen == 0u || seen > limit ? limit : seen - 1u);
  } while (old != seen);
  return old;
}
static __inline__ __device__ unsigned int atomicInc_block(unsigned int *at, unsigned int limit) { return atomicInc(at, limit); }
static __inline__ __device__ unsigned int atomicInc_system(unsigned int *at, unsigned int limit) { return atomicInc(at, limit); }
static __inline__ __device__ unsigned int atomicDec_block(unsigned int *at, unsigned int limit) { return atomicDec(at, limit); }
static __inline__ __device__ unsigned int atomicDec_system(unsigned int *at, unsigned int limit) { return atomicDec(at, limit); }
