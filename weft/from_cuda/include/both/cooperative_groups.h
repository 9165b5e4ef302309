// Cooperative groups, made of a block's and a warp's own functions.
#pragma once

namespace cooperative_groups {
#define WEFT_GROUP static __inline__ __device__

// Any group within a block: all of it, or lanes of a warp.
struct thread_group {
  unsigned int mask;  // 0: the block
  __device__ void sync() const;
  __device__ unsigned int size() const;
  __device__ unsigned int num_threads() const { return size(); }
  __device__ unsigned int thread_rank() const;
  __device__ bool is_valid() const { return true; }
};

struct thread_block {
  __device__ operator thread_group() const { return thread_group{0u}; }
  static __device__ void sync() { __syncthreads(); }
  static __device__ unsigned int thread_rank() {
    return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  }
  static __device__ unsigned int size() { return blockDim.x * blockDim.y * blockDim.z; }
  static __device__ unsigned int num_threads() { return size(); }
  static __device__ dim3 group_index() { return dim3(blockIdx.x, blockIdx.y, blockIdx.z); }
  static __device__ dim3 thread_index() { return dim3(threadIdx.x, threadIdx.y, threadIdx.z); }
  static __device__ dim3 group_dim() { return dim3(blockDim.x, blockDim.y, blockDim.z); }
  static __device__ dim3 dim_threads() { return group_dim(); }
};
WEFT_GROUP thread_block this_thread_block() { return thread_block(); }

struct grid_group {
  static __device__ void sync() { weft_sync_grid(); }
  static __device__ bool is_valid() { return true; }
  static __device__ unsigned long long block_rank() {
    return blockIdx.x + (unsigned long long)gridDim.x * (blockIdx.y + (unsigned long long)gridDim.y * blockIdx.z);
  }
  static __device__ unsigned long long thread_rank() {
    return block_rank() * thread_block::size() + thread_block::thread_rank();
  }
  static __device__ unsigned long long num_blocks() { return (unsigned long long)gridDim.x * gridDim.y * gridDim.z; }
  static __device__ unsigned long long size() { return num_blocks() * thread_block::size(); }
  static __device__ unsigned long long num_threads() { return size(); }
  static __device__ dim3 block_index() { return dim3(blockIdx.x, blockIdx.y, blockIdx.z); }
  static __device__ dim3 group_dim() { return dim3(gridDim.x, gridDim.y, gridDim.z); }
  static __device__ dim3 dim_blocks() { return group_dim(); }
};
WEFT_GROUP grid_group this_grid() { return grid_group(); }

// Neighbouring lanes of one warp. A function may take tiles as `template <int Size>`, as nvcc lets it, though a tile's
// size is unsigned: for such the name of a tile is this one (`tiles_text.py`).
template <int Size> struct weft_tile {
  static_assert(Size <= 32 && (Size & (Size - 1)) == 0, "tiles have a power of two threads, 32 at most");
  static __device__ unsigned int weft_first() { return thread_block::thread_rank() % 32u / Size * Size; }
  static __device__ unsigned int weft_mask() {
    return (Size == 32 ? 0xffffffffu : (1u << (Size & 31u)) - 1u) << weft_first();
  }
  __device__ operator thread_group() const { return thread_group{weft_mask()}; }
  static __device__ void sync() { __syncwarp(weft_mask()); }
  static __device__ unsigned int thread_rank() { return thread_block::thread_rank() % Size; }
  static __device__ constexpr unsigned int size() { return Size; }
  static __device__ constexpr unsigned int num_threads() { return Size; }
  static __device__ unsigned int meta_group_rank() { return thread_block::thread_rank() / Size; }
  static __device__ unsigned int meta_group_size() { return (thread_block::size() + Size - 1) / Size; }
  template <typename T> static __device__ T shfl(T value, int rank) { return __shfl_sync(weft_mask(), value, rank, Size); }
  template <typename T> static __device__ T shfl_up(T value, unsigned int by) {
    return __shfl_up_sync(weft_mask(), value, by, Size);
  }
  template <typename T> static __device__ T shfl_down(T value, unsigned int by) {
    return __shfl_down_sync(weft_mask(), value, by, Size);
  }
  template <typename T> static __device__ T shfl_xor(T value, unsigned int bits) {
    return __shfl_xor_sync(weft_mask(), value, (int)bits, Size);
  }
  static __device__ unsigned int ballot(int predicate) { return __ballot_sync(weft_mask(), predicate) >> weft_first(); }
  static __device__ int any(int predicate) { return ballot(predicate) != 0; }
  static __device__ int all(int predicate) { return ballot(!predicate) == 0; }
};
template <unsigned int Size, typename Parent = void> struct thread_block_tile : weft_tile<(int)Size> {
  thread_block_tile() = default;
  __device__ thread_block_tile(const weft_tile<(int)Size> &) {}
};
template <unsigned int Size, typename Group> WEFT_GROUP thread_block_tile<Size> tiled_partition(const Group &) {
  return thread_block_tile<Size>();
}

// Lanes of one warp, named by their bits.
struct coalesced_group {
  unsigned int mask;
  __device__ operator thread_group() const { return thread_group{mask}; }
  __device__ void sync() const { __syncwarp(mask); }
  __device__ unsigned int size() const { return (unsigned int)__popc(mask); }
  __device__ unsigned int num_threads() const { return size(); }
  __device__ unsigned int thread_rank() const {
    return (unsigned int)__popc(mask & ((1u << thread_block::thread_rank() % 32u) - 1u));
  }
  // The lane of the thread with this rank.
  __device__ int weft_lane(unsigned int rank) const {
    unsigned int rest = mask;
    for (unsigned int passed = 0; passed < rank; ++passed) rest &= rest - 1u;
    return __ffs((int)rest) - 1;
  }
  template <typename T> __device__ T shfl(T value, unsigned int rank) const { return __shfl_sync(mask, value, weft_lane(rank)); }
  template <typename T> __device__ T shfl_up(T value, unsigned int by) const {
    return shfl(value, thread_rank() >= by ? thread_rank() - by : thread_rank());
  }
  template <typename T> __device__ T shfl_down(T value, unsigned int by) const {
    return shfl(value, thread_rank() + by < size() ? thread_rank() + by : thread_rank());
  }
  __device__ unsigned int ballot(int predicate) const {
    unsigned int bits = __ballot_sync(mask, predicate), packed = 0;
    for (unsigned int rank = 0; rank < size(); ++rank) packed |= (bits >> weft_lane(rank) & 1u) << rank;
    return packed;
  }
  __device__ int any(int predicate) const { return __ballot_sync(mask, predicate) != 0; }
  __device__ int all(int predicate) const { return __ballot_sync(mask, !predicate) == 0; }
};
__inline__ __device__ void thread_group::sync() const {
  if (mask) __syncwarp(mask);
  else __syncthreads();
}
__inline__ __device__ unsigned int thread_group::size() const {
  return mask ? (unsigned int)__popc(mask) : thread_block::size();
}
__inline__ __device__ unsigned int thread_group::thread_rank() const {
  return mask ? coalesced_group{mask}.thread_rank() : thread_block::thread_rank();
}
// Neighbours within a group whose threads are neighbours: `size` is a power of two, 32 at most.
WEFT_GROUP thread_group tiled_partition(const thread_group &group, unsigned int size) {
  unsigned int lane = thread_block::thread_rank() % 32u, first = lane - group.thread_rank() % size;
  return thread_group{(size == 32u ? 0xffffffffu : (1u << size) - 1u) << first};
}
WEFT_GROUP coalesced_group coalesced_threads() { return coalesced_group{__activemask()}; }
template <typename Group> WEFT_GROUP coalesced_group binary_partition(const Group &group, bool predicate) {
  unsigned int asked = __activemask(), holding = __ballot_sync(asked, predicate);
  return coalesced_group{predicate ? holding : asked & ~holding};
}

template <typename Label> WEFT_GROUP coalesced_group labeled_partition(const coalesced_group &group, Label label) {
  return coalesced_group{__match_any_sync(group.mask, label)};
}
template <int Size, typename Label>
WEFT_GROUP coalesced_group labeled_partition(const weft_tile<Size> &tile, Label label) {
  return coalesced_group{__match_any_sync(tile.weft_mask(), label)};
}

template <typename Group> WEFT_GROUP void sync(const Group &group) { group.sync(); }
template <typename Group> WEFT_GROUP unsigned int thread_rank(const Group &group) { return group.thread_rank(); }
template <typename Group> WEFT_GROUP unsigned int group_size(const Group &group) { return group.size(); }

template <typename T> struct plus { __device__ T operator()(T a, T b) const { return a + b; } };
template <typename T> struct less { __device__ T operator()(T a, T b) const { return b < a ? b : a; } };
template <typename T> struct greater { __device__ T operator()(T a, T b) const { return a < b ? b : a; } };
template <typename T> struct bit_and { __device__ T operator()(T a, T b) const { return a & b; } };
template <typename T> struct bit_or { __device__ T operator()(T a, T b) const { return a | b; } };
template <typename T> struct bit_xor { __device__ T operator()(T a, T b) const { return a ^ b; } };

template <int Size, typename T, typename Combine>
WEFT_GROUP T reduce(const weft_tile<Size> &tile, T value, Combine combine) {
  for (unsigned int by = Size / 2; by > 0; by /= 2) value = combine(value, tile.shfl_xor(value, by));
  return value;
}
template <typename T, typename Combine> WEFT_GROUP T reduce(const coalesced_group &group, T value, Combine combine) {
  T result = group.shfl(value, 0);
  for (unsigned int rank = 1; rank < group.size(); ++rank) result = combine(result, group.shfl(value, rank));
  return result;
}
template <typename Group, typename T, typename Combine> WEFT_GROUP T inclusive_scan(const Group &group, T value, Combine combine) {
  for (unsigned int by = 1; by < group.size(); by *= 2) {
    T before = group.shfl_up(value, by);
    if (group.thread_rank() >= by) value = combine(before, value);
  }
  return value;
}
template <typename Group, typename T> WEFT_GROUP T inclusive_scan(const Group &group, T value) {
  return inclusive_scan(group, value, plus<T>());
}
template <typename Group, typename T, typename Combine> WEFT_GROUP T exclusive_scan(const Group &group, T value, Combine combine) {
  T before = group.shfl_up(inclusive_scan(group, value, combine), 1);
  return group.thread_rank() == 0 ? T(0) : before;
}
template <typename Group, typename T> WEFT_GROUP T exclusive_scan(const Group &group, T value) {
  return exclusive_scan(group, value, plus<T>());
}

// Copies are done when they are asked for; others see them after `wait`.
template <typename Group, typename T> WEFT_GROUP void memcpy_async(const Group &group, T *to, const T *from, unsigned long bytes) {
  for (unsigned long i = group.thread_rank(); i < bytes / sizeof(T); i += group.size()) to[i] = from[i];
}
template <typename Group> WEFT_GROUP void wait(const Group &group) { group.sync(); }
template <unsigned int Stages, typename Group> WEFT_GROUP void wait_prior(const Group &group) { group.sync(); }
#undef WEFT_GROUP
}  // namespace cooperative_groups
