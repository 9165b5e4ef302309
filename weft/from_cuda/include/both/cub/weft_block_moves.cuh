// CUB's functions of a block that move elements between threads, or compare neighbours.
#pragma once

namespace cub {
struct Equality { template <typename T> __host__ __device__ bool operator()(const T &a, const T &b) const { return a == b; } };
struct Inequality { template <typename T> __host__ __device__ bool operator()(const T &a, const T &b) const { return !(a == b); } };

// Blocked: a thread has neighbours. Striped: neighbours are of different threads.
template <typename T, int X, int N, bool WarpTimeSlicing = false, int Y = 1, int Z = 1> struct BlockExchange {
  static const int threads = X * Y * Z;
  struct TempStorage { T part[X * Y * Z * N]; };
  T *part;
  __device__ BlockExchange(TempStorage &temp) : part(temp.part) {}
  __device__ void StripedToBlocked(const T (&from)[N], T (&to)[N]) {
    int rank = weft_rank();
    for (int i = 0; i < N; ++i) part[i * threads + rank] = from[i];
    __syncthreads();
    for (int i = 0; i < N; ++i) to[i] = part[rank * N + i];
  }
  __device__ void BlockedToStriped(const T (&from)[N], T (&to)[N]) {
    int rank = weft_rank();
    for (int i = 0; i < N; ++i) part[rank * N + i] = from[i];
    __syncthreads();
    for (int i = 0; i < N; ++i) to[i] = part[i * threads + rank];
  }
  __device__ void StripedToBlocked(T (&x)[N]) { StripedToBlocked(x, x); }
  __device__ void BlockedToStriped(T (&x)[N]) { BlockedToStriped(x, x); }
  template <typename R> __device__ void ScatterToBlocked(const T (&from)[N], T (&to)[N], R (&ranks)[N]) {
    int rank = weft_rank();
    for (int i = 0; i < N; ++i) part[ranks[i]] = from[i];
    __syncthreads();
    for (int i = 0; i < N; ++i) to[i] = part[rank * N + i];
  }
  template <typename R> __device__ void ScatterToStriped(const T (&from)[N], T (&to)[N], R (&ranks)[N]) {
    int rank = weft_rank();
    for (int i = 0; i < N; ++i) part[ranks[i]] = from[i];
    __syncthreads();
    for (int i = 0; i < N; ++i) to[i] = part[i * threads + rank];
  }
};

// What an element and its neighbour give; the first, or the last, of the block is as it was or has the one given.
template <typename T, int X, int Y = 1, int Z = 1> struct BlockAdjacentDifference {
  static const int threads = X * Y * Z;
  struct TempStorage { T part[X * Y * Z]; };
  T *part;
  __device__ BlockAdjacentDifference(TempStorage &temp) : part(temp.part) {}
  template <int N, typename O, typename F> __device__ void weft_left(T (&from)[N], O (&to)[N], F f, bool has, T before) {
    int rank = weft_rank();
    part[rank] = from[N - 1];
    __syncthreads();
    for (int i = N - 1; i > 0; --i) to[i] = f(from[i], from[i - 1]);
    T left = before;
    if (rank > 0) left = part[rank - 1];
    if (rank > 0 || has) to[0] = f(from[0], left);
    else to[0] = from[0];
  }
  template <int N, typename O, typename F> __device__ void weft_right(T (&from)[N], O (&to)[N], F f, bool has, T behind) {
    int rank = weft_rank();
    part[rank] = from[0];
    __syncthreads();
    for (int i = 0; i < N - 1; ++i) to[i] = f(from[i], from[i + 1]);
    T right = behind;
    if (rank < threads - 1) right = part[rank + 1];
    if (rank < threads - 1 || has) to[N - 1] = f(from[N - 1], right);
    else to[N - 1] = from[N - 1];
  }
  template <int N, typename O, typename F> __device__ void SubtractLeft(T (&from)[N], O (&to)[N], F f) {
    weft_left(from, to, f, false, from[0]);
  }
  template <int N, typename O, typename F> __device__ void SubtractLeft(T (&from)[N], O (&to)[N], F f, T before) {
    weft_left(from, to, f, true, before);
  }
  template <int N, typename O, typename F> __device__ void SubtractRight(T (&from)[N], O (&to)[N], F f) {
    weft_right(from, to, f, false, from[0]);
  }
  template <int N, typename O, typename F> __device__ void SubtractRight(T (&from)[N], O (&to)[N], F f, T behind) {
    weft_right(from, to, f, true, behind);
  }
};

// Where runs begin or end.
template <typename T, int X, int Y = 1, int Z = 1> struct BlockDiscontinuity {
  static const int threads = X * Y * Z;
  struct TempStorage { T part[X * Y * Z]; };
  T *part;
  __device__ BlockDiscontinuity(TempStorage &temp) : part(temp.part) {}
  template <int N, typename Flag, typename F> __device__ void FlagHeads(Flag (&flags)[N], T (&x)[N], F f) {
    int rank = weft_rank();
    part[rank] = x[N - 1];
    __syncthreads();
    for (int i = 1; i < N; ++i) flags[i] = f(x[i - 1], x[i]);
    flags[0] = 1;
    if (rank > 0) flags[0] = f(part[rank - 1], x[0]);
  }
  template <int N, typename Flag, typename F> __device__ void FlagTails(Flag (&flags)[N], T (&x)[N], F f) {
    int rank = weft_rank();
    part[rank] = x[0];
    __syncthreads();
    for (int i = 0; i < N - 1; ++i) flags[i] = f(x[i], x[i + 1]);
    flags[N - 1] = 1;
    if (rank < threads - 1) flags[N - 1] = f(x[N - 1], part[rank + 1]);
  }
};
}  // namespace cub
