// Copies that are done when they are asked for: a program that waits for them cannot tell.
#pragma once
namespace cuda {
template <typename T>
static __inline__ __device__ void weft_copy(T *to, const T *from, __SIZE_TYPE__ bytes, __SIZE_TYPE__ first, __SIZE_TYPE__ step) {
  for (__SIZE_TYPE__ i = first; i < bytes / sizeof(T); i += step) to[i] = from[i];
}
}  // namespace cuda
