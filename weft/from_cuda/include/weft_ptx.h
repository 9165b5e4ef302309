// What translated PTX instructions call (ptx_text.py), in plain CUDA C++.
#pragma once

// Addresses within shared memory have 32 bits.
#ifndef WEFT_PROGRAM
__device__ void *weft_ptx_shared_at(unsigned address);
__device__ size_t __cvta_generic_to_shared(const void *at);
static inline __device__ void *__cvta_shared_to_generic(size_t address) { return weft_ptx_shared_at((unsigned)address); }
#endif
#include "both/weft_matrix.h"

static inline __device__ unsigned weft_ptx_rank() {
  return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
}
// A register of 64 bits is a number or a pointer.
template <class T> static inline __device__ void weft_ptx_set(T &to, unsigned long long value) { to = (T)value; }
static inline __device__ unsigned weft_ptx_lane() { return weft_ptx_rank() % 32u; }
// Bytes of b:a by the low four bits of each nibble of the selector; its high bit repeats the byte's sign.
static inline __device__ unsigned weft_ptx_prmt(unsigned a, unsigned b, unsigned selector) {
  unsigned long long both = ((unsigned long long)b << 32) | a;
  unsigned result = 0;
  for (int k = 0; k < 4; k++) {
    unsigned nibble = (selector >> (4 * k)) & 15u;
    unsigned byte = (unsigned)(both >> (8u * (nibble & 7u))) & 255u;
    if (nibble & 8u) byte = (byte & 128u) ? 255u : 0u;
    result |= byte << (8 * k);
  }
  return result;
}
static inline __device__ unsigned weft_ptx_bfe(unsigned a, unsigned at, unsigned length) {
  at &= 255u, length &= 255u;
  if (length == 0u || at > 31u) return 0u;
  unsigned moved = a >> at;
  return length > 31u ? moved : moved & ((1u << length) - 1u);
}
static inline __device__ int weft_ptx_bfe_signed(int a, unsigned at, unsigned length) {
  at &= 255u, length &= 255u;
  if (length == 0u) return 0;
  unsigned last = at + length - 1u;
  unsigned sign = ((unsigned)a >> (last > 31u ? 31u : last)) & 1u;
  unsigned result = at > 31u ? 0u : (unsigned)a >> at;
  unsigned mask = length > 31u ? 0xffffffffu : (1u << length) - 1u;
  unsigned there = at > 31u ? 0u : 0xffffffffu >> at;
  result &= mask & there;
  return (int)(sign ? result | ~(mask & there) : result);
}
static inline __device__ unsigned weft_ptx_bfi(unsigned a, unsigned b, unsigned at, unsigned length) {
  at &= 255u, length &= 255u;
  if (length == 0u || at > 31u) return b;
  unsigned mask = (length > 31u ? 0xffffffffu : (1u << length) - 1u) << at;
  return (b & ~mask) | ((a << at) & mask);
}
// For each of the eight values that a bit of a, b and c can be together, a bit of the table.
static inline __device__ unsigned weft_ptx_lop3(unsigned a, unsigned b, unsigned c, unsigned table) {
  unsigned result = 0;
  for (int k = 0; k < 8; k++)
    if (table >> k & 1u) result |= (k & 4 ? a : ~a) & (k & 2 ? b : ~b) & (k & 1 ? c : ~c);
  return result;
}
static inline __device__ unsigned weft_ptx_shift_left(unsigned low, unsigned high, unsigned by) {
  return (unsigned)((((unsigned long long)high << 32 | low) << by) >> 32);
}
static inline __device__ unsigned weft_ptx_shift_right(unsigned low, unsigned high, unsigned by) {
  return (unsigned)(((unsigned long long)high << 32 | low) >> by);
}
