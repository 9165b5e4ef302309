// CUB: functions of a block and a warp, and of the whole device by Thrust's algorithms. Temporary storage is asked for
// and not needed.
#pragma once
#include "cub/weft_block.cuh"
#include "thrust/weft_thrust.h"

#define CUB_VERSION 200300
namespace cub {
template <typename K, typename V> struct KeyValuePair {
  K key;
  V value;
};
template <typename T> struct DoubleBuffer {
  T *d_buffers[2];
  int selector = 0;
  DoubleBuffer() = default;
  __host__ __device__ DoubleBuffer(T *current, T *other) : d_buffers{current, other} {}
  __host__ __device__ T *Current() { return d_buffers[selector]; }
  __host__ __device__ T *Alternate() { return d_buffers[selector ^ 1]; }
};
template <typename T> using CountingInputIterator = thrust::counting_iterator<T>;
template <typename T> using ConstantInputIterator = thrust::constant_iterator<T>;
template <typename V, typename F, typename I> struct TransformInputIterator : thrust::transform_iterator<F, I> {
  __host__ __device__ TransformInputIterator(I base, F f) : thrust::transform_iterator<F, I>(base, f) {}
};

#define WEFT_SIZED if (!temporary) return bytes = 1, cudaSuccess
struct DeviceReduce {
  template <typename I, typename O, typename F, typename T, typename N>
  static cudaError_t Reduce(void *temporary, size_t &bytes, I in, O out, N n, F f, T start, cudaStream_t = 0) {
    WEFT_SIZED;
    *out = weft_library::reduce<true>(in, in + n, start, f);
    return cudaPeekAtLastError();
  }
  template <typename I, typename O, typename N>
  static cudaError_t Sum(void *temporary, size_t &bytes, I in, O out, N n, cudaStream_t = 0) {
    return Reduce(temporary, bytes, in, out, n, cub::Sum(), thrust::weft_value<I>(0));
  }
  template <typename I, typename O, typename N>
  static cudaError_t Max(void *temporary, size_t &bytes, I in, O out, N n, cudaStream_t = 0) {
    WEFT_SIZED;
    *out = *weft_library::max_element<true>(in, in + n);
    return cudaPeekAtLastError();
  }
  template <typename I, typename O, typename N>
  static cudaError_t Min(void *temporary, size_t &bytes, I in, O out, N n, cudaStream_t = 0) {
    WEFT_SIZED;
    *out = *weft_library::min_element<true>(in, in + n);
    return cudaPeekAtLastError();
  }
  template <typename I, typename O, typename N>
  static cudaError_t ArgMax(void *temporary, size_t &bytes, I in, O out, N n, cudaStream_t = 0) {
    WEFT_SIZED;
    I at = weft_library::max_element<true>(in, in + n);
    out->key = (int)(at - in), out->value = *at;
    return cudaPeekAtLastError();
  }
  template <typename I, typename O, typename N>
  static cudaError_t ArgMin(void *temporary, size_t &bytes, I in, O out, N n, cudaStream_t = 0) {
    WEFT_SIZED;
    I at = weft_library::min_element<true>(in, in + n);
    out->key = (int)(at - in), out->value = *at;
    return cudaPeekAtLastError();
  }
  template <typename K, typename KO, typename V, typename VO, typename C, typename F>
  static cudaError_t ReduceByKey(void *temporary, size_t &bytes, K keys, KO unique, V values, VO sums, C runs, F f,
                                 int n, cudaStream_t = 0) {
    WEFT_SIZED;
    auto end = weft_library::reduce_by_key<true>(keys, keys + n, values, unique, sums, thrust::equal_to<>(), f);
    *runs = (int)(end.first - unique);
    return cudaPeekAtLastError();
  }
};
struct DeviceSegmentedReduce {
  template <typename I, typename O, typename B, typename E>
  static cudaError_t Sum(void *temporary, size_t &bytes, I in, O out, int segments, B begins, E ends, cudaStream_t = 0) {
    WEFT_SIZED;
    weft_library::tabulate<true>(out, out + segments, [=] __host__ __device__(long long segment) {
      thrust::weft_value<I> sum = 0;
      for (auto i = begins[segment]; i < ends[segment]; ++i) sum = sum + in[i];
      return sum;
    });
    return cudaPeekAtLastError();
  }
};
struct DeviceScan {
  template <typename I, typename O, typename N>
  static cudaError_t ExclusiveSum(void *temporary, size_t &bytes, I in, O out, N n, cudaStream_t = 0) {
    WEFT_SIZED;
    weft_library::exclusive_scan<true>(in, in + n, out);
    return cudaPeekAtLastError();
  }
  template <typename I, typename O, typename N>
  static cudaError_t InclusiveSum(void *temporary, size_t &bytes, I in, O out, N n, cudaStream_t = 0) {
    WEFT_SIZED;
    weft_library::inclusive_scan<true>(in, in + n, out);
    return cudaPeekAtLastError();
  }
  template <typename I, typename O, typename F, typename T, typename N>
  static cudaError_t ExclusiveScan(void *temporary, size_t &bytes, I in, O out, F f, T start, N n, cudaStream_t = 0) {
    WEFT_SIZED;
    weft_library::exclusive_scan<true>(in, in + n, out, start, f);
    return cudaPeekAtLastError();
  }
  template <typename I, typename O, typename F, typename N>
  static cudaError_t InclusiveScan(void *temporary, size_t &bytes, I in, O out, F f, N n, cudaStream_t = 0) {
    WEFT_SIZED;
    weft_library::inclusive_scan<true>(in, in + n, out, f);
    return cudaPeekAtLastError();
  }
};
// Bits outside of begin..end do not count; equal keys keep their order.
template <typename K> struct weft_by_bits {
  int begin, end;
  bool is_descending;
  __host__ __device__ bool operator()(const K &a, const K &b) const {
    const K &first = is_descending ? b : a, &second = is_descending ? a : b;
    if constexpr (std::is_integral<K>::value) {
      if (begin > 0 || end < (int)sizeof(K) * 8) return bits(first) < bits(second);
    }
    return first < second;
  }
  __host__ __device__ unsigned long long bits(K x) const {
    unsigned long long all = (unsigned long long)(std::make_unsigned_t<K>)x;
    if (std::is_signed<K>::value) all ^= 1ull << (sizeof(K) * 8 - 1);
    return (end - begin >= 64 ? all : all & ((1ull << end) - 1)) >> begin;
  }
};
struct DeviceRadixSort {
#define WEFT_SORT(suffix, is_descending) \
  template <typename K, typename N> \
  static cudaError_t SortKeys##suffix(void *temporary, size_t &bytes, const K *in, K *out, N n, int begin = 0, \
                                      int end = sizeof(K) * 8, cudaStream_t = 0) { \
    WEFT_SIZED; \
    if (in != out) weft_library::copy<true>(in, in + n, out); \
    weft_library::stable_sort<true>(out, out + n, weft_by_bits<K>{begin, end, is_descending}); \
    return cudaPeekAtLastError(); \
  } \
  template <typename K, typename V, typename N> \
  static cudaError_t SortPairs##suffix(void *temporary, size_t &bytes, const K *in, K *out, const V *values, V *sorted, \
                                       N n, int begin = 0, int end = sizeof(K) * 8, cudaStream_t = 0) { \
    WEFT_SIZED; \
    if (in != out) weft_library::copy<true>(in, in + n, out); \
    if (values != sorted) weft_library::copy<true>(values, values + n, sorted); \
    weft_library::stable_sort_by_key<true>(out, out + n, sorted, weft_by_bits<K>{begin, end, is_descending}); \
    return cudaPeekAtLastError(); \
  } \
  template <typename K, typename N> \
  static cudaError_t SortKeys##suffix(void *temporary, size_t &bytes, DoubleBuffer<K> &keys, N n, int begin = 0, \
                                      int end = sizeof(K) * 8, cudaStream_t stream = 0) { \
    return SortKeys##suffix(temporary, bytes, keys.Current(), keys.Current(), n, begin, end, stream); \
  } \
  template <typename K, typename V, typename N> \
  static cudaError_t SortPairs##suffix(void *temporary, size_t &bytes, DoubleBuffer<K> &keys, DoubleBuffer<V> &values, \
                                       N n, int begin = 0, int end = sizeof(K) * 8, cudaStream_t stream = 0) { \
    return SortPairs##suffix(temporary, bytes, keys.Current(), keys.Current(), values.Current(), values.Current(), n, \
                             begin, end, stream); \
  }
  WEFT_SORT(, false)
  WEFT_SORT(Descending, true)
#undef WEFT_SORT
};
struct DeviceSelect {
  template <typename I, typename O, typename C, typename P>
  static cudaError_t If(void *temporary, size_t &bytes, I in, O out, C selected, int n, P is, cudaStream_t = 0) {
    WEFT_SIZED;
    *selected = (int)(weft_library::copy_if<true>(in, in + n, out, is) - out);
    return cudaPeekAtLastError();
  }
  template <typename I, typename S, typename O, typename C>
  static cudaError_t Flagged(void *temporary, size_t &bytes, I in, S flags, O out, C selected, int n, cudaStream_t = 0) {
    WEFT_SIZED;
    auto is = [] __host__ __device__(const thrust::weft_value<S> &flag) { return (bool)flag; };
    *selected = (int)(weft_library::copy_if<true>(in, in + n, flags, out, is) - out);
    return cudaPeekAtLastError();
  }
  template <typename I, typename O, typename C>
  static cudaError_t Unique(void *temporary, size_t &bytes, I in, O out, C selected, int n, cudaStream_t = 0) {
    WEFT_SIZED;
    *selected = (int)(weft_library::unique_copy<true>(in, in + n, out) - out);
    return cudaPeekAtLastError();
  }
};
struct DeviceRunLengthEncode {
  template <typename I, typename U, typename L, typename C>
  static cudaError_t Encode(void *temporary, size_t &bytes, I in, U unique, L lengths, C runs, int n, cudaStream_t = 0) {
    return DeviceReduce::ReduceByKey(temporary, bytes, in, unique, thrust::constant_iterator<int>(1), lengths, runs,
                                     cub::Sum(), n);
  }
};
struct DeviceHistogram {
  template <typename I, typename C, typename L, typename N>
  static cudaError_t HistogramEven(void *temporary, size_t &bytes, I in, C *counts, int levels, L low, L high, N n,
                                   cudaStream_t = 0) {
    WEFT_SIZED;
    weft_library::run_once<true>([=] __host__ __device__() {
      for (int i = 0; i < levels - 1; ++i) counts[i] = 0;
      for (N i = 0; i < n; ++i)
        if (in[i] >= low && in[i] < high) ++counts[(int)((in[i] - low) * (levels - 1) / (high - low))];
    });
    return cudaPeekAtLastError();
  }
};
#undef WEFT_SIZED
}  // namespace cub
