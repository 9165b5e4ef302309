// Scopes and orders of libcu++: here every access is seen by all threads at once.
#pragma once
namespace cuda {
enum thread_scope { thread_scope_system, thread_scope_device, thread_scope_block, thread_scope_thread };
// A number of bytes that is a multiple of an alignment.
template <__SIZE_TYPE__ Alignment> struct aligned_size_t {
  static constexpr __SIZE_TYPE__ align = Alignment;
  __SIZE_TYPE__ value;
  __host__ __device__ explicit constexpr aligned_size_t(__SIZE_TYPE__ size) : value(size) {}
  __host__ __device__ constexpr operator __SIZE_TYPE__() const { return value; }
};
}  // namespace cuda
