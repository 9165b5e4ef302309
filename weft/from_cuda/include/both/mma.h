// nvcuda::wmma. Which lane has which element of a fragment is not specified; here element k of lane l is number
// 32 k + l of its matrix, row by row.
#pragma once
#include <cuda_fp16.h>
#include <cuda_bf16.h>

namespace nvcuda {
namespace wmma {
struct matrix_a;
struct matrix_b;
struct accumulator;
struct row_major;
struct col_major;
namespace precision {
struct tf32;
}
enum layout_t { mem_row_major, mem_col_major };

template <typename T> struct weft_element { typedef T stored; typedef float sum; };
template <> struct weft_element<precision::tf32> { typedef float stored; typedef float sum; };
template <> struct weft_element<double> { typedef double stored; typedef double sum; };
template <> struct weft_element<signed char> { typedef signed char stored; typedef int sum; };
template <> struct weft_element<unsigned char> { typedef unsigned char stored; typedef int sum; };
template <> struct weft_element<int> { typedef int stored; typedef int sum; };

template <typename Use, int M, int N, int K> struct weft_shape { static const int rows = M, columns = N; };
template <int M, int N, int K> struct weft_shape<matrix_a, M, N, K> { static const int rows = M, columns = K; };
template <int M, int N, int K> struct weft_shape<matrix_b, M, N, K> { static const int rows = K, columns = N; };
template <typename Layout> struct weft_layout { static const bool by_columns = false; };
template <> struct weft_layout<col_major> { static const bool by_columns = true; };

template <typename Use, int M, int N, int K, typename T, typename Layout = void> struct fragment {
  typedef typename weft_element<T>::stored element_type;
  typedef element_type storage_element_type;
  static constexpr int num_elements = weft_shape<Use, M, N, K>::rows * weft_shape<Use, M, N, K>::columns / 32;
  static constexpr int num_storage_elements = num_elements;
  element_type x[num_elements];
};

#define WEFT_WMMA template <typename Use, int M, int N, int K, typename T, typename Layout> static __inline__ __device__
static __inline__ __device__ unsigned weft_lane() {
  return (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % 32u;
}
static __inline__ __device__ unsigned weft_warp() {
  return (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) / 32u;
}
// Where element k of this lane lies in memory.
template <int columns> static __inline__ __device__ unsigned weft_place(int k, unsigned stride, bool by_columns) {
  unsigned at = 32 * k + weft_lane(), row = at / columns, column = at % columns;
  return by_columns ? column * stride + row : row * stride + column;
}

template <typename Use, int M, int N, int K, typename T, typename Layout, typename V>
static __inline__ __device__ void fill_fragment(fragment<Use, M, N, K, T, Layout> &f, const V &value) {
  for (int k = 0; k < f.num_elements; k++) f.x[k] = (typename weft_element<T>::stored)value;
}
WEFT_WMMA void load_matrix_sync(fragment<Use, M, N, K, T, Layout> &f, const typename weft_element<T>::stored *from,
                                unsigned stride) {
  for (int k = 0; k < f.num_elements; k++)
    f.x[k] = from[weft_place<weft_shape<Use, M, N, K>::columns>(k, stride, weft_layout<Layout>::by_columns)];
  __syncwarp();
}
template <int M, int N, int K, typename T>
static __inline__ __device__ void load_matrix_sync(fragment<accumulator, M, N, K, T> &f, const T *from, unsigned stride,
                                                   layout_t layout) {
  for (int k = 0; k < f.num_elements; k++) f.x[k] = from[weft_place<N>(k, stride, layout == mem_col_major)];
  __syncwarp();
}
template <int M, int N, int K, typename T>
static __inline__ __device__ void store_matrix_sync(T *to, const fragment<accumulator, M, N, K, T> &f, unsigned stride,
                                                    layout_t layout) {
  for (int k = 0; k < f.num_elements; k++) to[weft_place<N>(k, stride, layout == mem_col_major)] = f.x[k];
  __syncwarp();
}
template <int M, int N, int K, typename T, typename LayoutA, typename LayoutB, typename D, typename C>
static __inline__ __device__ void mma_sync(fragment<accumulator, M, N, K, D> &d,
                                           const fragment<matrix_a, M, N, K, T, LayoutA> &a,
                                           const fragment<matrix_b, M, N, K, T, LayoutB> &b,
                                           const fragment<accumulator, M, N, K, C> &c, bool saturate = false) {
  typedef typename weft_element<T>::sum Sum;
  __shared__ Sum weft_a[32][M * K], weft_b[32][K * N];
  unsigned lane = weft_lane(), warp = weft_warp();
  for (int k = 0; k < a.num_elements; k++) weft_a[warp][32 * k + lane] = (Sum)a.x[k];
  for (int k = 0; k < b.num_elements; k++) weft_b[warp][32 * k + lane] = (Sum)b.x[k];
  __syncwarp();
  for (int e = 0; e < d.num_elements; e++) {
    unsigned at = 32 * e + lane, row = at / N, column = at % N;
    Sum sum = (Sum)c.x[e];
    for (int k = 0; k < K; k++) sum += weft_a[warp][row * K + k] * weft_b[warp][k * N + column];
    d.x[e] = (D)sum;
  }
  __syncwarp();
}
static __inline__ __device__ float __float_to_tf32(float x) { return weft_ptx_tf32(x); }
#undef WEFT_WMMA
}  // namespace wmma
}  // namespace nvcuda
