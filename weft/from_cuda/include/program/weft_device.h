// What device code may use without including anything: built-in variables, barriers, atomics, warp functions, math.
#pragma once
#include "weft_qualifiers.h"
#include "vector_functions.h"
#include "weft_threads.h"
#include "weft_atomics.h"
#include "weft_math.h"
#define WEFT_PROGRAM
#include "../weft_ptx.h"
#include "../both/weft_packed.h"
#ifdef __cplusplus
// `new` in device code; the host has its own by the same names.
__inline__ __device__ void *operator new(__SIZE_TYPE__, void *at) noexcept { return at; }
__inline__ __device__ void *operator new[](__SIZE_TYPE__, void *at) noexcept { return at; }
__inline__ __device__ void operator delete(void *, void *) noexcept {}
__inline__ __device__ void operator delete[](void *, void *) noexcept {}
__inline__ __device__ void *operator new(__SIZE_TYPE__ bytes) { return __builtin_malloc(bytes); }
__inline__ __device__ void *operator new[](__SIZE_TYPE__ bytes) { return __builtin_malloc(bytes); }
__inline__ __device__ void operator delete(void *at) noexcept { __builtin_free(at); }
__inline__ __device__ void operator delete[](void *at) noexcept { __builtin_free(at); }
__inline__ __device__ void operator delete(void *at, __SIZE_TYPE__) noexcept { __builtin_free(at); }
__inline__ __device__ void operator delete[](void *at, __SIZE_TYPE__) noexcept { __builtin_free(at); }
#endif
