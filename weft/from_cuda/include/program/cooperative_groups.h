// Groups of threads: a block, tiles of a warp, the whole grid, and threads that came the same way.
#pragma once
#include "cuda_runtime.h"

extern "C" __device__ void weft_sync_grid(void);

namespace cooperative_groups {
#define WEFT_GROUP static __inline__ __device__

struct thread_block {
  static __device__ void sync() { weft_sync_threads(); }
  static __device__ unsigned int thread_rank() { return weft_thread_rank(); }
  static __device__ unsigned int size() { return blockDim.x * blockDim.y * blockDim.z; }
  static __device__ unsigned int num_threads() { return size(); }
  static __device__ dim3 group_index() { return dim3(blockIdx.x, blockIdx.y, blockIdx.z); }
  static __device__ dim3 thread_index() { return dim3(threadIdx.x, threadIdx.y, threadIdx.z); }
  static __device__ dim3 group_dim() { return dim3(blockDim.x, blockDim.y, blockDim.z); }
};
WEFT_GROUP thread_block this_thread_block() { return thread_block(); }

struct grid_group {
  static __device__ void sync() { weft_sync_grid(); }
  static __device__ bool is_valid() { return true; }
  static __device__ unsigned long long block_rank() {
    return blockIdx.x + (unsigned long long)gridDim.x * (blockIdx.y + (unsigned long long)gridDim.y * blockIdx.z);
  }
  static __device__ unsigned long long thread_rank() {
    return block_rank() * thread_block::size() + weft_thread_rank();
  }
  static __device__ unsigned long long num_blocks() { return (unsigned long long)gridDim.x * gridDim.y * gridDim.z; }
  static __device__ unsigned long long size() { return num_blocks() * thread_block::size(); }
  static __device__ unsigned long long num_threads() { return size(); }
};
WEFT_GROUP grid_group this_grid() { return grid_group(); }

// Lanes of one warp, named by their bits.
class weft_lanes {
 public:
  __device__ explicit weft_lanes(unsigned int mask) : mask_(mask) {}
  __device__ void sync() const { weft_sync_warp(mask_); }
  __device__ unsigned int size() const { return (unsigned int)__popc(mask_); }
  __device__ unsigned int num_threads() const { return size(); }
  __device__ unsigned int thread_rank() const { return (unsigned int)__popc(mask_ & ((1u << __laneid()) - 1u)); }
  template <typename T> __device__ T shfl(T value, unsigned int rank) const { return weft_shuffle(mask_, value, lane(rank)); }
  template <typename T> __device__ T shfl_up(T value, unsigned int delta) const {
    return shfl(value, thread_rank() >= delta ? thread_rank() - delta : thread_rank());
  }
  template <typename T> __device__ T shfl_down(T value, unsigned int delta) const {
    return shfl(value, thread_rank() + delta < size() ? thread_rank() + delta : thread_rank());
  }
  template <typename T> __device__ T shfl_xor(T value, unsigned int bits) const {
    return shfl(value, (thread_rank() ^ bits) < size() ? thread_rank() ^ bits : thread_rank());
  }
  __device__ int any(int predicate) const { return weft_ballot(mask_, predicate) != 0; }
  __device__ int all(int predicate) const { return weft_ballot(mask_, !predicate) == 0; }
  __device__ unsigned int ballot(int predicate) const {
    unsigned int bits = weft_ballot(mask_, predicate), packed = 0;
    for (unsigned int rank = 0; rank < size(); ++rank) packed |= (bits >> lane(rank) & 1u) << rank;
    return packed;
  }

 protected:
  // The lane of the thread with this rank.
  __device__ unsigned int lane(unsigned int rank) const {
    unsigned int rest = mask_;
    for (; rank; --rank) rest &= rest - 1u;
    return (unsigned int)__ffs((int)rest) - 1u;
  }
  unsigned int mask_;
};

typedef weft_lanes coalesced_group;
WEFT_GROUP coalesced_group coalesced_threads() { return coalesced_group(weft_active_mask()); }

template <unsigned int Size> WEFT_GROUP unsigned int weft_tile_mask() {
  return (Size == 32 ? 0xffffffffu : (1u << (Size & 31u)) - 1u) << (__laneid() & ~(Size - 1u));
}
template <unsigned int Size, typename Parent = void> class thread_block_tile : public weft_lanes {
 public:
  __device__ thread_block_tile() : weft_lanes(weft_tile_mask<Size>() & weft_active_mask()) {}
  static __device__ constexpr unsigned int size() { return Size; }
  static __device__ constexpr unsigned int num_threads() { return Size; }
  static __device__ unsigned int meta_group_rank() { return weft_thread_rank() / Size; }
  static __device__ unsigned int meta_group_size() { return (thread_block::size() + Size - 1) / Size; }
};
template <unsigned int Size, typename Group> WEFT_GROUP thread_block_tile<Size> tiled_partition(const Group &) {
  static_assert(Size <= 32 && (Size & (Size - 1)) == 0, "tiles have a power of two threads, 32 at most");
  return thread_block_tile<Size>();
}
template <typename Group> WEFT_GROUP void sync(const Group &group) { group.sync(); }

template <typename T> struct plus { __device__ T operator()(T a, T b) const { return a + b; } };
template <typename T> struct less { __device__ T operator()(T a, T b) const { return b < a ? b : a; } };
template <typename T> struct greater { __device__ T operator()(T a, T b) const { return a < b ? b : a; } };
template <typename Group, typename T, typename Combine> WEFT_GROUP T reduce(const Group &group, T value, Combine combine) {
  T result = group.shfl(value, 0);
  for (unsigned int rank = 1; rank < group.size(); ++rank) result = combine(result, group.shfl(value, rank));
  return result;
}
#undef WEFT_GROUP
}  // namespace cooperative_groups
