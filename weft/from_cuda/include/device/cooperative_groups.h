#pragma once
namespace cooperative_groups {
struct thread_block {
  __device__ void sync() const { __syncthreads(); }
  __device__ unsigned thread_rank() const {
    return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  }
  __device__ unsigned size() const { return blockDim.x * blockDim.y * blockDim.z; }
  __device__ unsigned num_threads() const { return size(); }
  __device__ uint3 thread_index() const { return threadIdx; }
  __device__ uint3 group_index() const { return blockIdx; }
};
__device__ static inline thread_block this_thread_block() { return {}; }

struct grid_group {
  __device__ void sync() const { _weft_grid_sync(); }
  __device__ unsigned long long thread_rank() const {
    unsigned long long b = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    return b * blockDim.x * blockDim.y * blockDim.z + thread_block().thread_rank();
  }
  __device__ unsigned long long size() const {
    return (unsigned long long)gridDim.x * gridDim.y * gridDim.z * blockDim.x * blockDim.y * blockDim.z;
  }
  __device__ bool is_valid() const { return true; }
};
__device__ static inline grid_group this_grid() { return {}; }

template <unsigned N> struct thread_block_tile {
  __device__ void sync() const { __syncwarp(); }
  __device__ unsigned thread_rank() const { return thread_block().thread_rank() % N; }
  __device__ unsigned meta_group_rank() const { return thread_block().thread_rank() / N; }
  __device__ unsigned meta_group_size() const { return (thread_block().size() + N - 1) / N; }
  __device__ unsigned size() const { return N; }
  __device__ unsigned num_threads() const { return N; }
  template <class T> __device__ T shfl(T v, int lane) const { return __shfl_sync(0xffffffffu, v, lane, N); }
  template <class T> __device__ T shfl_up(T v, unsigned by) const { return __shfl_up_sync(0xffffffffu, v, by, N); }
  template <class T> __device__ T shfl_down(T v, unsigned by) const { return __shfl_down_sync(0xffffffffu, v, by, N); }
  template <class T> __device__ T shfl_xor(T v, unsigned by) const { return __shfl_xor_sync(0xffffffffu, v, by, N); }
  __device__ unsigned ballot(int p) const {
    unsigned all = __ballot_sync(0xffffffffu, p), start = thread_block().thread_rank() % 32 / N * N;
    return N == 32 ? all : (all >> start) & ((1u << (N % 32)) - 1);
  }
  __device__ int any(int p) const { return ballot(p) != 0; }
  __device__ int all(int p) const { return ballot(!p) == 0; }
};
template <unsigned N, class G> __device__ static inline thread_block_tile<N> tiled_partition(const G &) { return {}; }
template <class G> __device__ static inline void sync(const G &g) { g.sync(); }
}  // namespace cooperative_groups
