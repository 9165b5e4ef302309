// The built-in variables, barriers and the functions of a warp.
#pragma once
#include "vector_types.h"

extern "C" {
extern __device__ const uint3 threadIdx;
extern __device__ const uint3 blockIdx;
extern __device__ const dim3 blockDim;
extern __device__ const dim3 gridDim;

__device__ void weft_sync_threads(void);
__device__ int weft_sync_threads_count(int predicate);
__device__ void weft_sync_warp(unsigned int mask);
__device__ void weft_sync_grid(void);
__device__ void weft_yield(void);
__device__ unsigned int weft_ballot(unsigned int mask, int predicate);
__device__ unsigned long long weft_exchange(unsigned int mask, unsigned long long value, unsigned int from_lane);
__device__ unsigned int weft_active_mask(void);
__device__ long long weft_clock64(void);
__device__ unsigned long long weft_globaltimer(void);
__device__ void *weft_shared_at(unsigned int address);
}
static __inline__ __device__ void *weft_ptx_shared_at(unsigned int address) { return weft_shared_at(address); }
static __inline__ __device__ __SIZE_TYPE__ __cvta_generic_to_shared(const void *at) {
  return (unsigned int)(__UINTPTR_TYPE__)at;
}
static __inline__ __device__ void *__cvta_shared_to_generic(__SIZE_TYPE__ address) {
  return weft_shared_at((unsigned int)address);
}

static __device__ const int warpSize = 32;

// Macros, since clang would take these names for instructions of a GPU.
#define __syncthreads() weft_sync_threads()
#define __syncthreads_count(p) weft_sync_threads_count(p)
#define __syncthreads_and(p) (weft_sync_threads_count(!(p)) == 0)
#define __syncthreads_or(p) (weft_sync_threads_count(p) != 0)

static __inline__ __device__ void __syncwarp(unsigned int mask = 0xffffffffu) { weft_sync_warp(mask); }
static __inline__ __device__ void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
static __inline__ __device__ void __threadfence_block() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
static __inline__ __device__ void __threadfence_system() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
static __inline__ __device__ long long clock64() { return weft_clock64(); }
static __inline__ __device__ int clock() { return (int)weft_clock64(); }
static __inline__ __device__ void __nanosleep(unsigned int) {}
static __inline__ __device__ void __brkpt() { __builtin_trap(); }
static __inline__ __device__ void __trap() { __builtin_trap(); }

static __inline__ __device__ unsigned int __activemask() { return weft_active_mask(); }
static __inline__ __device__ unsigned int __ballot_sync(unsigned int mask, int p) { return weft_ballot(mask, p); }
static __inline__ __device__ int __all_sync(unsigned int mask, int p) { return weft_ballot(mask, !p) == 0; }
static __inline__ __device__ int __any_sync(unsigned int mask, int p) { return weft_ballot(mask, p) != 0; }
static __inline__ __device__ int __uni_sync(unsigned int mask, int p) {
  return __all_sync(mask, p) || __all_sync(mask, !p);
}
static __inline__ __device__ unsigned int __ballot(int p) { return weft_ballot(weft_active_mask(), p); }
static __inline__ __device__ int __all(int p) { return weft_ballot(weft_active_mask(), !p) == 0; }
static __inline__ __device__ int __any(int p) { return weft_ballot(weft_active_mask(), p) != 0; }

static __inline__ __device__ unsigned int weft_thread_rank() {
  return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
}
static __inline__ __device__ unsigned int __laneid() { return weft_thread_rank() & 31u; }

template <typename T>
static __inline__ __device__ T weft_shuffle(unsigned int mask, T value, unsigned int from_lane) {
  unsigned long long bits[(sizeof(T) + 7) / 8] = {};
  __builtin_memcpy(bits, &value, sizeof(T));
  for (unsigned int i = 0; i < sizeof bits / 8; ++i) bits[i] = weft_exchange(mask, bits[i], from_lane);
  __builtin_memcpy(&value, bits, sizeof(T));
  return value;
}

template <typename T>
static __inline__ __device__ T __shfl_sync(unsigned int mask, T value, int lane, int width = 32) {
  unsigned int self = __laneid(), first = self & ~(unsigned int)(width - 1);
  return weft_shuffle(mask, value, first + ((unsigned int)lane & (unsigned int)(width - 1)));
}
template <typename T>
static __inline__ __device__ T __shfl_up_sync(unsigned int mask, T value, unsigned int delta, int width = 32) {
  unsigned int self = __laneid(), first = self & ~(unsigned int)(width - 1);
  return weft_shuffle(mask, value, self >= first + delta ? self - delta : self);
}
template <typename T>
static __inline__ __device__ T __shfl_down_sync(unsigned int mask, T value, unsigned int delta, int width = 32) {
  unsigned int self = __laneid(), last = self | (unsigned int)(width - 1);
  return weft_shuffle(mask, value, self + delta <= last ? self + delta : self);
}
template <typename T>
static __inline__ __device__ T __shfl_xor_sync(unsigned int mask, T value, int lane_mask, int width = 32) {
  unsigned int self = __laneid(), last = self | (unsigned int)(width - 1);
  unsigned int from = self ^ (unsigned int)lane_mask;
  return weft_shuffle(mask, value, from <= last ? from : self);
}
template <typename T>
static __inline__ __device__ T __shfl(T value, int lane, int width = 32) {
  return __shfl_sync(weft_active_mask(), value, lane, width);
}
template <typename T>
static __inline__ __device__ T __shfl_up(T value, unsigned int delta, int width = 32) {
  return __shfl_up_sync(weft_active_mask(), value, delta, width);
}
template <typename T>
static __inline__ __device__ T __shfl_down(T value, unsigned int delta, int width = 32) {
  return __shfl_down_sync(weft_active_mask(), value, delta, width);
}
template <typename T>
static __inline__ __device__ T __shfl_xor(T value, int lane_mask, int width = 32) {
  return __shfl_xor_sync(weft_active_mask(), value, lane_mask, width);
}

#define WEFT_WARP_REDUCE(name, type, combine) \
  static __inline__ __device__ type __reduce_##name##_sync(unsigned int mask, type value) { \
    type result = 0; \
    bool first = true; \
    for (unsigned int lane = 0; lane < 32; ++lane) \
      if (mask >> lane & 1u) { \
        type other = weft_shuffle(mask, value, lane); \
        result = first ? other : (combine); \
        first = false; \
      } \
    return result; \
  }
WEFT_WARP_REDUCE(add, unsigned int, result + other)
WEFT_WARP_REDUCE(add, int, result + other)
WEFT_WARP_REDUCE(min, unsigned int, result < other ? result : other)
WEFT_WARP_REDUCE(min, int, result < other ? result : other)
WEFT_WARP_REDUCE(max, unsigned int, result > other ? result : other)
WEFT_WARP_REDUCE(max, int, result > other ? result : other)
WEFT_WARP_REDUCE(and, unsigned int, result & other)
WEFT_WARP_REDUCE(or, unsigned int, result | other)
WEFT_WARP_REDUCE(xor, unsigned int, result ^ other)
#undef WEFT_WARP_REDUCE

template <typename T>
static __inline__ __device__ unsigned int __match_any_sync(unsigned int mask, T value) {
  unsigned int same = 0;
  for (unsigned int lane = 0; lane < 32; ++lane)
    if (mask >> lane & 1u) same |= (unsigned int)(weft_shuffle(mask, value, lane) == value) << lane;
  return same;
}
template <typename T>
static __inline__ __device__ unsigned int __match_all_sync(unsigned int mask, T value, int *all) {
  unsigned int same = __match_any_sync(mask, value);
  *all = same == mask;
  return *all ? mask : 0;
}
