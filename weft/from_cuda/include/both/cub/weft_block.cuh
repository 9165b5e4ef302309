// CUB's functions of a block and of a warp: every thread puts its elements into shared memory, and one or each of them
// combines what it needs, in the order of threads.
#pragma once

namespace cub {
struct Sum { template <typename T> __host__ __device__ T operator()(const T &a, const T &b) const { return a + b; } };
struct Max { template <typename T> __host__ __device__ T operator()(const T &a, const T &b) const { return a < b ? b : a; } };
struct Min { template <typename T> __host__ __device__ T operator()(const T &a, const T &b) const { return b < a ? b : a; } };

enum BlockReduceAlgorithm { BLOCK_REDUCE_RAKING, BLOCK_REDUCE_RAKING_COMMUTATIVE_ONLY, BLOCK_REDUCE_WARP_REDUCTIONS };
enum BlockScanAlgorithm { BLOCK_SCAN_RAKING, BLOCK_SCAN_RAKING_MEMOIZE, BLOCK_SCAN_WARP_SCANS };
enum BlockLoadAlgorithm { BLOCK_LOAD_DIRECT, BLOCK_LOAD_STRIPED, BLOCK_LOAD_VECTORIZE, BLOCK_LOAD_TRANSPOSE, BLOCK_LOAD_WARP_TRANSPOSE };
enum BlockStoreAlgorithm { BLOCK_STORE_DIRECT, BLOCK_STORE_STRIPED, BLOCK_STORE_VECTORIZE, BLOCK_STORE_TRANSPOSE, BLOCK_STORE_WARP_TRANSPOSE };

__device__ inline int weft_rank() { return (int)(threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)); }

template <typename T, int X, BlockReduceAlgorithm A = BLOCK_REDUCE_WARP_REDUCTIONS, int Y = 1, int Z = 1> struct BlockReduce {
  struct TempStorage { T part[X * Y * Z]; };
  T *part;
  __device__ BlockReduce(TempStorage &temp) : part(temp.part) {}
  // The result is thread 0's.
  template <typename F> __device__ T Reduce(T x, F f, int valid) {
    int rank = weft_rank();
    part[rank] = x;
    __syncthreads();
    T sum = x;
    if (rank == 0)
      for (int i = 1; i < valid; ++i) sum = f(sum, part[i]);
    return sum;
  }
  // In CUB's order: neighbours in each warp, pairs of them, and so on; then warps, one after another.
  template <typename F> __device__ T Reduce(T x, F f) {
    constexpr int count = X * Y * Z;
    int rank = weft_rank();
    part[rank] = x;
    __syncthreads();
    for (int d = 1; d < 32; d *= 2) {
      if (rank % (2 * d) == 0 && rank + d < count) part[rank] = f(part[rank], part[rank + d]);
      __syncthreads();
    }
    T sum = part[0];
    if (rank == 0)
      for (int i = 32; i < count; i += 32) sum = f(sum, part[i]);
    return sum;
  }
  template <int N, typename F> __device__ T Reduce(T (&x)[N], F f) {
    T sum = x[0];
    for (int i = 1; i < N; ++i) sum = f(sum, x[i]);
    return Reduce(sum, f);
  }
  __device__ T Sum(T x) { return Reduce(x, cub::Sum()); }
  __device__ T Sum(T x, int valid) { return Reduce(x, cub::Sum(), valid); }
  template <int N> __device__ T Sum(T (&x)[N]) { return Reduce(x, cub::Sum()); }
};

template <typename T, int X, BlockScanAlgorithm A = BLOCK_SCAN_RAKING, int Y = 1, int Z = 1> struct BlockScan {
  struct TempStorage { T part[X * Y * Z]; };
  T *part;
  __device__ BlockScan(TempStorage &temp) : part(temp.part) {}
  // What comes before this thread's element, from `start` on; the sum of all goes to `all`.
  template <typename F> __device__ T before(T x, T start, F f, T &all) {
    int rank = weft_rank();
    part[rank] = x;
    __syncthreads();
    T sum = start, total = start;
    for (int i = 0; i < X * Y * Z; ++i) {
      if (i == rank) sum = total;
      total = f(total, part[i]);
    }
    all = total;
    return sum;
  }
  template <typename F> __device__ void InclusiveScan(T x, T &to, F f, T &all) {
    int rank = weft_rank();
    part[rank] = x;
    __syncthreads();
    T sum = part[0];
    to = sum;
    for (int i = 1; i < X * Y * Z; ++i) {
      sum = f(sum, part[i]);
      if (i == rank) to = sum;
    }
    all = sum;
  }
  template <typename F> __device__ void InclusiveScan(T x, T &to, F f) {
    T all;
    InclusiveScan(x, to, f, all);
  }
  template <typename F> __device__ void ExclusiveScan(T x, T &to, T start, F f, T &all) { to = before(x, start, f, all); }
  template <typename F> __device__ void ExclusiveScan(T x, T &to, T start, F f) {
    T all;
    to = before(x, start, f, all);
  }
  __device__ void ExclusiveSum(T x, T &to, T &all) { to = before(x, T(0), cub::Sum(), all); }
  __device__ void ExclusiveSum(T x, T &to) {
    T all;
    to = before(x, T(0), cub::Sum(), all);
  }
  __device__ void InclusiveSum(T x, T &to, T &all) { InclusiveScan(x, to, cub::Sum(), all); }
  __device__ void InclusiveSum(T x, T &to) { InclusiveScan(x, to, cub::Sum()); }
  template <int N> __device__ void ExclusiveSum(T (&x)[N], T (&to)[N], T &all) {
    T sum = T(0);
    for (int i = 0; i < N; ++i) sum = sum + x[i];
    sum = before(sum, T(0), cub::Sum(), all);
    for (int i = 0; i < N; ++i) {
      T next = sum + x[i];
      to[i] = sum, sum = next;
    }
  }
  template <int N> __device__ void ExclusiveSum(T (&x)[N], T (&to)[N]) {
    T all;
    ExclusiveSum(x, to, all);
  }
  template <int N> __device__ void InclusiveSum(T (&x)[N], T (&to)[N], T &all) {
    T kept[N];
    for (int i = 0; i < N; ++i) kept[i] = x[i];
    ExclusiveSum(x, to, all);
    for (int i = 0; i < N; ++i) to[i] = to[i] + kept[i];
  }
  template <int N> __device__ void InclusiveSum(T (&x)[N], T (&to)[N]) {
    T all;
    InclusiveSum(x, to, all);
  }
};

template <typename T, int Width = 32> struct WarpReduce {
  struct TempStorage { int unused; };
  __device__ WarpReduce(TempStorage &) {}
  template <typename F> __device__ T Reduce(T x, F f) {
    for (int by = Width / 2; by > 0; by /= 2) x = f(x, __shfl_down_sync(0xffffffffu, x, by, Width));
    return x;
  }
  __device__ T Sum(T x) { return Reduce(x, cub::Sum()); }
};
template <typename T, int Width = 32> struct WarpScan {
  struct TempStorage { int unused; };
  __device__ WarpScan(TempStorage &) {}
  template <typename F> __device__ void InclusiveScan(T x, T &to, F f) {
    int lane = weft_rank() % Width;
    for (int by = 1; by < Width; by *= 2) {
      T other = __shfl_up_sync(0xffffffffu, x, by, Width);
      if (lane >= by) x = f(other, x);
    }
    to = x;
  }
  __device__ void InclusiveSum(T x, T &to) { InclusiveScan(x, to, cub::Sum()); }
  __device__ void ExclusiveSum(T x, T &to) {
    T sum;
    InclusiveScan(x, sum, cub::Sum());
    to = sum - x;
  }
};

template <typename T, int X, int N, BlockLoadAlgorithm A = BLOCK_LOAD_DIRECT, int Y = 1, int Z = 1> struct BlockLoad {
  struct TempStorage { int unused; };
  __device__ BlockLoad() {}
  __device__ BlockLoad(TempStorage &) {}
  __device__ int place(int i) { return A == BLOCK_LOAD_STRIPED ? i * X * Y * Z + weft_rank() : weft_rank() * N + i; }
  template <typename I> __device__ void Load(I from, T (&to)[N]) {
    for (int i = 0; i < N; ++i) to[i] = from[place(i)];
  }
  template <typename I> __device__ void Load(I from, T (&to)[N], int valid) {
    for (int i = 0; i < N; ++i)
      if (place(i) < valid) to[i] = from[place(i)];
  }
  template <typename I> __device__ void Load(I from, T (&to)[N], int valid, T otherwise) {
    for (int i = 0; i < N; ++i) to[i] = place(i) < valid ? from[place(i)] : otherwise;
  }
};
template <typename T, int X, int N, BlockStoreAlgorithm A = BLOCK_STORE_DIRECT, int Y = 1, int Z = 1> struct BlockStore {
  struct TempStorage { int unused; };
  __device__ BlockStore() {}
  __device__ BlockStore(TempStorage &) {}
  __device__ int place(int i) { return A == BLOCK_STORE_STRIPED ? i * X * Y * Z + weft_rank() : weft_rank() * N + i; }
  template <typename I> __device__ void Store(I to, T (&from)[N]) {
    for (int i = 0; i < N; ++i) to[place(i)] = from[i];
  }
  template <typename I> __device__ void Store(I to, T (&from)[N], int valid) {
    for (int i = 0; i < N; ++i)
      if (place(i) < valid) to[place(i)] = from[i];
  }
};

// Sorts the block's elements: each finds its place by counting those that come before it.
template <typename K, int X, int N, typename V = int> struct BlockRadixSort {
  struct TempStorage {
    K key[X * N];
    V value[X * N];
  };
  K *key;
  V *value;
  __device__ BlockRadixSort(TempStorage &temp) : key(temp.key), value(temp.value) {}
  __device__ void order(K (&keys)[N], V (&values)[N], bool is_descending) {
    int rank = weft_rank(), place[N];
    for (int i = 0; i < N; ++i) key[rank * N + i] = keys[i];
    __syncthreads();
    for (int i = 0; i < N; ++i) {
      place[i] = 0;
      for (int j = 0; j < X * N; ++j) {
        K other = key[j];
        bool is_before = is_descending ? keys[i] < other : other < keys[i];
        if (is_before || (other == keys[i] && j < rank * N + i)) ++place[i];
      }
    }
    __syncthreads();
    for (int i = 0; i < N; ++i) key[place[i]] = keys[i], value[place[i]] = values[i];
    __syncthreads();
    for (int i = 0; i < N; ++i) keys[i] = key[rank * N + i], values[i] = value[rank * N + i];
  }
  __device__ void Sort(K (&keys)[N]) {
    V none[N];
    for (int i = 0; i < N; ++i) none[i] = V();
    order(keys, none, false);
  }
  __device__ void SortDescending(K (&keys)[N]) {
    V none[N];
    for (int i = 0; i < N; ++i) none[i] = V();
    order(keys, none, true);
  }
  __device__ void Sort(K (&keys)[N], V (&values)[N]) { order(keys, values, false); }
  __device__ void SortDescending(K (&keys)[N], V (&values)[N]) { order(keys, values, true); }
};
}  // namespace cub
#include "weft_block_moves.cuh"
