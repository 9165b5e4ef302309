// CUDA's declarations, as the reader of weft/from_cuda knows them: no toolkit is needed. Functions without a body are
// known by name (weft/from_cuda/functions.py and beside it).
#pragma once
#pragma clang system_header

#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __host__ __attribute__((host))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#define __managed__ __attribute__((device))  // one memory: as in whole programs
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __inline__ inline
#define __align__(n) __attribute__((aligned(n)))
#define __builtin_align__(n) __attribute__((aligned(n)))
#define __grid_constant__
#define __restrict __restrict__
#define __cluster_dims__(...)
#define CUDART_CB
#define CUDARTAPI
#define _WEFT_BOTH __host__ __device__
#define __CUDACC__ 1
#define __NVCC__ 1
#define __CUDACC_VER_MAJOR__ 12
#define __CUDACC_VER_MINOR__ 3
#define __CUDACC_VER_BUILD__ 0
#define CUDART_VERSION 12030
#define CUDA_VERSION 12030

typedef decltype(sizeof(0)) size_t;
typedef decltype((char *)0 - (char *)0) ptrdiff_t;
typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long uint64_t;
typedef long intptr_t;
typedef unsigned long uintptr_t;
typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
typedef long clock_t, time_t;

#ifndef NULL
#define NULL 0
#endif

#include "device/float.h"
#include "device/limits.h"
#include "device/math.h"
#include "device/math_constants.h"
#include "device/stdint.h"

// ---- vector types
#define _WEFT_VECTOR(T, N, A1, A2, A4)                                       \
  struct N##1 { T x; };                                                      \
  struct __attribute__((aligned(A2))) N##2 { T x, y; };                      \
  struct N##3 { T x, y, z; };                                                \
  struct __attribute__((aligned(A4))) N##4 { T x, y, z, w; };                \
  _WEFT_BOTH static inline N##1 make_##N##1(T x) { return {x}; }             \
  _WEFT_BOTH static inline N##2 make_##N##2(T x, T y) { return {x, y}; }     \
  _WEFT_BOTH static inline N##3 make_##N##3(T x, T y, T z) { return {x, y, z}; } \
  _WEFT_BOTH static inline N##4 make_##N##4(T x, T y, T z, T w) { return {x, y, z, w}; }
_WEFT_VECTOR(signed char, char, 1, 2, 4)
_WEFT_VECTOR(unsigned char, uchar, 1, 2, 4)
_WEFT_VECTOR(short, short, 2, 4, 8)
_WEFT_VECTOR(unsigned short, ushort, 2, 4, 8)
_WEFT_VECTOR(int, int, 4, 8, 16)
_WEFT_VECTOR(unsigned int, uint, 4, 8, 16)
_WEFT_VECTOR(long, long, 8, 16, 16)
_WEFT_VECTOR(unsigned long, ulong, 8, 16, 16)
_WEFT_VECTOR(long long, longlong, 8, 16, 16)
_WEFT_VECTOR(unsigned long long, ulonglong, 8, 16, 16)
_WEFT_VECTOR(float, float, 4, 8, 16)
_WEFT_VECTOR(double, double, 8, 16, 16)

struct dim3 {
  unsigned int x, y, z;
  _WEFT_BOTH constexpr dim3(unsigned int x = 1, unsigned int y = 1, unsigned int z = 1) : x(x), y(y), z(z) {}
  _WEFT_BOTH constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
  _WEFT_BOTH constexpr operator uint3() const { return {x, y, z}; }
};

extern const __device__ uint3 threadIdx;
extern const __device__ uint3 blockIdx;
extern const __device__ dim3 blockDim;
extern const __device__ dim3 gridDim;
extern const __device__ int warpSize;

// ---- barriers and fences
extern "C" {
__device__ void __syncthreads();
__device__ int __syncthreads_count(int);
__device__ int __syncthreads_and(int);
__device__ int __syncthreads_or(int);
__device__ void __syncwarp(unsigned mask = 0xffffffffu);
__device__ void __threadfence();
__device__ void __threadfence_block();
__device__ void __threadfence_system();
_WEFT_BOTH int printf(const char *, ...);
_WEFT_BOTH void *memcpy(void *, const void *, size_t);
_WEFT_BOTH void *memmove(void *, const void *, size_t);
_WEFT_BOTH void *memset(void *, int, size_t);
_WEFT_BOTH void __assertfail(const char *, const char *, unsigned, const char *, unsigned long);
__device__ void __trap();
__device__ void __nanosleep(unsigned);
__device__ long long clock64();
__device__ clock_t clock();
}
#ifdef NDEBUG
#define assert(e) ((void)0)
#else
#define assert(e) ((e) ? (void)0 : __assertfail(#e, __FILE__, __LINE__, "", 1))
#endif

// ---- math: float and double by name and by overload; whole numbers become doubles
template <class T> struct _weft_whole {};
#define _WEFT_WHOLE(T) template <> struct _weft_whole<T> { typedef double type; };
_WEFT_WHOLE(char) _WEFT_WHOLE(signed char) _WEFT_WHOLE(unsigned char) _WEFT_WHOLE(short) _WEFT_WHOLE(unsigned short)
_WEFT_WHOLE(int) _WEFT_WHOLE(unsigned) _WEFT_WHOLE(long) _WEFT_WHOLE(unsigned long) _WEFT_WHOLE(long long)
_WEFT_WHOLE(unsigned long long) _WEFT_WHOLE(bool)

#define _WEFT_MATH1(F)                                                               \
  extern "C" _WEFT_BOTH double F(double);                                            \
  extern "C" _WEFT_BOTH float F##f(float);                                           \
  _WEFT_BOTH float F(float);                                                         \
  template <class T> _WEFT_BOTH static inline typename _weft_whole<T>::type F(T x) { return F((double)x); }
_WEFT_MATH1(exp) _WEFT_MATH1(exp2) _WEFT_MATH1(expm1) _WEFT_MATH1(log) _WEFT_MATH1(log2) _WEFT_MATH1(log10)
_WEFT_MATH1(log1p) _WEFT_MATH1(sin) _WEFT_MATH1(cos) _WEFT_MATH1(tan) _WEFT_MATH1(asin) _WEFT_MATH1(acos)
_WEFT_MATH1(atan) _WEFT_MATH1(sinh) _WEFT_MATH1(cosh) _WEFT_MATH1(tanh) _WEFT_MATH1(asinh) _WEFT_MATH1(acosh)
_WEFT_MATH1(atanh) _WEFT_MATH1(cbrt) _WEFT_MATH1(erf) _WEFT_MATH1(erfc) _WEFT_MATH1(tgamma) _WEFT_MATH1(lgamma)
_WEFT_MATH1(sqrt) _WEFT_MATH1(rsqrt) _WEFT_MATH1(floor) _WEFT_MATH1(ceil) _WEFT_MATH1(trunc) _WEFT_MATH1(rint)
_WEFT_MATH1(nearbyint) _WEFT_MATH1(round) _WEFT_MATH1(fabs) _WEFT_MATH1(exp10) _WEFT_MATH1(sinpi) _WEFT_MATH1(cospi)
_WEFT_MATH1(rcbrt) _WEFT_MATH1(normcdf)

#define _WEFT_MATH2(F)                                                               \
  extern "C" _WEFT_BOTH double F(double, double);                                    \
  extern "C" _WEFT_BOTH float F##f(float, float);                                    \
  _WEFT_BOTH float F(float, float);
_WEFT_MATH2(pow) _WEFT_MATH2(atan2) _WEFT_MATH2(fmod) _WEFT_MATH2(hypot) _WEFT_MATH2(fmin) _WEFT_MATH2(fmax)
_WEFT_MATH2(copysign) _WEFT_MATH2(fdim) _WEFT_MATH2(remainder)
_WEFT_BOTH static inline double pow(double x, int y) { return pow(x, (double)y); }
_WEFT_BOTH static inline float pow(float x, int y) { return pow(x, (float)y); }
_WEFT_BOTH static inline double pow(int x, int y) { return pow((double)x, (double)y); }
_WEFT_BOTH static inline double pow(int x, double y) { return pow((double)x, y); }
_WEFT_BOTH static inline double pow(float x, double y) { return pow((double)x, y); }
_WEFT_BOTH static inline double pow(double x, float y) { return pow(x, (double)y); }
_WEFT_BOTH static inline float powif(float x, int y) { return pow(x, (float)y); }

extern "C" {
_WEFT_BOTH double fma(double, double, double);
_WEFT_BOTH float fmaf(float, float, float);
_WEFT_BOTH float __fmaf_rn(float, float, float);
_WEFT_BOTH double __fma_rn(double, double, double);
_WEFT_BOTH float __expf(float);
_WEFT_BOTH float __exp10f(float);
_WEFT_BOTH float __logf(float);
_WEFT_BOTH float __log2f(float);
_WEFT_BOTH float __log10f(float);
_WEFT_BOTH float __sinf(float);
_WEFT_BOTH float __cosf(float);
_WEFT_BOTH float __tanf(float);
_WEFT_BOTH float __powf(float, float);
_WEFT_BOTH float __fdividef(float, float);
_WEFT_BOTH float __frcp_rn(float);
_WEFT_BOTH float __fsqrt_rn(float);
_WEFT_BOTH float __frsqrt_rn(float);
_WEFT_BOTH float __saturatef(float);
_WEFT_BOTH float __fadd_rn(float, float);
_WEFT_BOTH float __fsub_rn(float, float);
_WEFT_BOTH float __fmul_rn(float, float);
_WEFT_BOTH float __fdiv_rn(float, float);
_WEFT_BOTH double __dadd_rn(double, double);
_WEFT_BOTH double __dmul_rn(double, double);
_WEFT_BOTH double __ddiv_rn(double, double);
_WEFT_BOTH double __dsqrt_rn(double);
// Rounding in another direction is refused where it is asked for.
#define _WEFT_DIRECTED(letter, type, mode) \
  _WEFT_BOTH type __##letter##add_##mode(type, type); \
  _WEFT_BOTH type __##letter##sub_##mode(type, type); \
  _WEFT_BOTH type __##letter##mul_##mode(type, type); \
  _WEFT_BOTH type __##letter##div_##mode(type, type); \
  _WEFT_BOTH type __##letter##rcp_##mode(type); \
  _WEFT_BOTH type __##letter##sqrt_##mode(type);
_WEFT_DIRECTED(f, float, rd) _WEFT_DIRECTED(f, float, ru) _WEFT_DIRECTED(f, float, rz)
_WEFT_DIRECTED(d, double, rd) _WEFT_DIRECTED(d, double, ru) _WEFT_DIRECTED(d, double, rz)
#undef _WEFT_DIRECTED
_WEFT_BOTH int __float2int_rn(float);
_WEFT_BOTH int __float2int_rz(float);
_WEFT_BOTH int __float2int_rd(float);
_WEFT_BOTH int __float2int_ru(float);
_WEFT_BOTH unsigned __float2uint_rn(float);
_WEFT_BOTH unsigned __float2uint_rz(float);
_WEFT_BOTH int __double2int_rn(double);
_WEFT_BOTH int __double2int_rz(double);
_WEFT_BOTH int __double2int_rd(double);
_WEFT_BOTH long long __double2ll_rn(double);
_WEFT_BOTH float __double2float_rn(double);
_WEFT_BOTH float __int2float_rn(int);
_WEFT_BOTH float __uint2float_rn(unsigned);
_WEFT_BOTH double __int2double_rn(int);
_WEFT_BOTH long long __float2ll_rn(float);
_WEFT_BOTH int __float_as_int(float);
_WEFT_BOTH unsigned __float_as_uint(float);
_WEFT_BOTH float __int_as_float(int);
_WEFT_BOTH float __uint_as_float(unsigned);
_WEFT_BOTH long long __double_as_longlong(double);
_WEFT_BOTH double __longlong_as_double(long long);
_WEFT_BOTH int __popc(unsigned);
_WEFT_BOTH int __popcll(unsigned long long);
_WEFT_BOTH int __clz(int);
_WEFT_BOTH int __clzll(long long);
_WEFT_BOTH int __ffs(int);
_WEFT_BOTH int __ffsll(long long);
_WEFT_BOTH int __mulhi(int, int);
_WEFT_BOTH unsigned __umulhi(unsigned, unsigned);
_WEFT_BOTH int __mul24(int, int);
_WEFT_BOTH unsigned __umul24(unsigned, unsigned);
_WEFT_BOTH int abs(int);
_WEFT_BOTH long labs(long);
_WEFT_BOTH long long llabs(long long);
_WEFT_BOTH long lrint(double);
_WEFT_BOTH long lrintf(float);
_WEFT_BOTH long lround(double);
_WEFT_BOTH long lroundf(float);
_WEFT_BOTH long long llrint(double);
_WEFT_BOTH long long llround(double);
}
#define mul24 __mul24
#define umul24 __umul24
_WEFT_BOTH float fma(float, float, float);
_WEFT_BOTH long abs(long);
_WEFT_BOTH long long abs(long long);
_WEFT_BOTH float abs(float);
_WEFT_BOTH double abs(double);
_WEFT_BOTH bool isnan(float);
_WEFT_BOTH bool isnan(double);
_WEFT_BOTH bool isinf(float);
_WEFT_BOTH bool isinf(double);
_WEFT_BOTH bool isfinite(float);
_WEFT_BOTH bool isfinite(double);
_WEFT_BOTH static inline void sincosf(float x, float *s, float *c) { *s = sinf(x); *c = cosf(x); }
_WEFT_BOTH static inline void sincos(double x, double *s, double *c) { *s = sin(x); *c = cos(x); }
_WEFT_BOTH static inline void sincos(float x, float *s, float *c) { *s = sinf(x); *c = cosf(x); }
_WEFT_BOTH static inline void __sincosf(float x, float *s, float *c) { *s = sinf(x); *c = cosf(x); }
_WEFT_BOTH static inline float modff(float x, float *whole) { *whole = truncf(x); return copysignf(x - *whole, x); }
_WEFT_BOTH static inline double modf(double x, double *whole) { *whole = trunc(x); return copysign(x - *whole, x); }
_WEFT_BOTH static inline float norm3df(float a, float b, float c) { return sqrtf(a * a + b * b + c * c); }
_WEFT_BOTH static inline float rnorm3df(float a, float b, float c) { return rsqrtf(a * a + b * b + c * c); }

#define _WEFT_LEAST(T)            \
  _WEFT_BOTH T min(T, T);         \
  _WEFT_BOTH T max(T, T);
_WEFT_LEAST(int) _WEFT_LEAST(unsigned) _WEFT_LEAST(long) _WEFT_LEAST(unsigned long) _WEFT_LEAST(long long)
_WEFT_LEAST(unsigned long long) _WEFT_LEAST(float) _WEFT_LEAST(double)
_WEFT_BOTH static inline unsigned min(int a, unsigned b) { return min((unsigned)a, b); }
_WEFT_BOTH static inline unsigned min(unsigned a, int b) { return min(a, (unsigned)b); }
_WEFT_BOTH static inline unsigned max(int a, unsigned b) { return max((unsigned)a, b); }
_WEFT_BOTH static inline unsigned max(unsigned a, int b) { return max(a, (unsigned)b); }
_WEFT_BOTH static inline double min(float a, double b) { return min((double)a, b); }
_WEFT_BOTH static inline double min(double a, float b) { return min(a, (double)b); }
_WEFT_BOTH static inline double max(float a, double b) { return max((double)a, b); }
_WEFT_BOTH static inline double max(double a, float b) { return max(a, (double)b); }

// ---- atomics
#define _WEFT_ATOMIC(f, T)            \
  __device__ T f(T *, T);             \
  __device__ T f##_block(T *, T);     \
  __device__ T f##_system(T *, T);
#define _WEFT_ATOMICS(T)                                                                             \
  _WEFT_ATOMIC(atomicAdd, T) _WEFT_ATOMIC(atomicSub, T) _WEFT_ATOMIC(atomicMin, T) _WEFT_ATOMIC(atomicMax, T) \
  _WEFT_ATOMIC(atomicAnd, T) _WEFT_ATOMIC(atomicOr, T) _WEFT_ATOMIC(atomicXor, T) _WEFT_ATOMIC(atomicExch, T) \
  __device__ T atomicCAS(T *, T, T);                                                                 \
  __device__ T atomicCAS_block(T *, T, T);                                                           \
  __device__ T atomicCAS_system(T *, T, T);
_WEFT_ATOMICS(int) _WEFT_ATOMICS(unsigned) _WEFT_ATOMICS(unsigned long long) _WEFT_ATOMICS(long long)
_WEFT_ATOMIC(atomicAdd, float) _WEFT_ATOMIC(atomicAdd, double) _WEFT_ATOMIC(atomicExch, float)
_WEFT_ATOMIC(atomicExch, double)
__device__ unsigned short atomicCAS(unsigned short *, unsigned short, unsigned short);
__device__ unsigned atomicInc(unsigned *, unsigned);
__device__ unsigned atomicDec(unsigned *, unsigned);
#define _WEFT_OF_SCOPE(f, scope) \
  static inline __device__ unsigned f##scope(unsigned *at, unsigned limit) { return f(at, limit); }
_WEFT_OF_SCOPE(atomicInc, _block) _WEFT_OF_SCOPE(atomicInc, _system)
_WEFT_OF_SCOPE(atomicDec, _block) _WEFT_OF_SCOPE(atomicDec, _system)

// ---- reads that hint at caches
#include "both/weft_cache_hints.h"

// ---- warps
template <class T> __device__ T __shfl_sync(unsigned mask, T value, int lane, int width = 32);
template <class T> __device__ T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32);
template <class T> __device__ T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32);
template <class T> __device__ T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32);
extern "C" {
__device__ unsigned __ballot_sync(unsigned, int);
__device__ int __any_sync(unsigned, int);
__device__ int __all_sync(unsigned, int);
__device__ unsigned __activemask();
__device__ int __reduce_add_sync(unsigned, int);
__device__ int __reduce_min_sync(unsigned, int);
__device__ int __reduce_max_sync(unsigned, int);
}

#include "weft_bits.h"
#include "both/weft_packed.h"

__device__ void weft_sync_grid();
// Refused where they are called.
__device__ void weft_yield();
template <class T> __device__ unsigned __match_any_sync(unsigned mask, T value);
template <class T> __device__ unsigned __match_all_sync(unsigned mask, T value, int *all);

// ---- textures that arrays are bound to
enum cudaTextureReadMode { cudaReadModeElementType, cudaReadModeNormalizedFloat };
#define cudaTextureType1D 0x01
#define cudaTextureType2D 0x02
#define cudaTextureType3D 0x03
template <class T, int dimensions = 1, cudaTextureReadMode mode = cudaReadModeElementType>
struct __attribute__((device_builtin_texture_type)) texture {
  int normalized, filterMode, addressMode[3];
};
template <class T, cudaTextureReadMode mode> __device__ T tex1Dfetch(texture<T, 1, mode> t, int at);
// Of more dimensions, filtered, or by objects they are refused where they are called; other kernels of a source are read.
template <class T, cudaTextureReadMode mode> __device__ T tex1D(texture<T, 1, mode> t, float x);
template <class T, cudaTextureReadMode mode> __device__ T tex2D(texture<T, 2, mode> t, float x, float y);
template <class T, cudaTextureReadMode mode> __device__ T tex3D(texture<T, 3, mode> t, float x, float y, float z);
typedef unsigned long long cudaTextureObject_t, cudaSurfaceObject_t;
template <class T> __device__ T tex1Dfetch(cudaTextureObject_t t, int at);
template <class T> __device__ T tex1D(cudaTextureObject_t t, float x);
template <class T> __device__ T tex2D(cudaTextureObject_t t, float x, float y);
template <class T> __device__ T tex3D(cudaTextureObject_t t, float x, float y, float z);
template <class T> __device__ T tex1DLayered(cudaTextureObject_t t, float x, int layer);
template <class T> __device__ T tex2DLayered(cudaTextureObject_t t, float x, float y, int layer);
template <class T> __device__ void surf1Dread(T *to, cudaSurfaceObject_t s, int x, ...);
template <class T> __device__ T surf1Dread(cudaSurfaceObject_t s, int x, ...);
template <class T> __device__ void surf1Dwrite(T value, cudaSurfaceObject_t s, int x, ...);
template <class T> __device__ void surf2Dread(T *to, cudaSurfaceObject_t s, int x, int y, ...);
template <class T> __device__ T surf2Dread(cudaSurfaceObject_t s, int x, int y, ...);
template <class T> __device__ void surf2Dwrite(T value, cudaSurfaceObject_t s, int x, int y, ...);
template <class T> __device__ void surf3Dread(T *to, cudaSurfaceObject_t s, int x, int y, int z, ...);
template <class T> __device__ void surf3Dwrite(T value, cudaSurfaceObject_t s, int x, int y, int z, ...);

// ---- narrow floats: numbers of their own, computed in float
#include "both/weft_small_functions.h"
typedef _Float16 __half;
typedef __half half;
WEFT_SMALL_FUNCTIONS(__half)
WEFT_SMALL_CONVERSIONS(__half, half)
WEFT_SMALL_ATOMICS(__half)
typedef __half2 half2;
typedef __bf16 __nv_bfloat16;
typedef __nv_bfloat16 nv_bfloat16;
WEFT_SMALL_FUNCTIONS(__nv_bfloat16)
WEFT_SMALL_CONVERSIONS(__nv_bfloat16, bfloat16)
WEFT_SMALL_ATOMICS(__nv_bfloat16)
typedef __nv_bfloat162 nv_bfloat162;

#include "weft_ptx.h"
#include "device/cmath"

// ---- what clang asks for at a launch
extern "C" int cudaConfigureCall(dim3, dim3, size_t = 0, void * = 0);
extern "C" int __cudaPushCallConfiguration(dim3, dim3, size_t = 0, void * = 0);

struct _weft_end_of_header;
