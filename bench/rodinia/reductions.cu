// Sums, extremes and scans that a block computes together, in the forms in which people write them.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cub/cub.cuh>
namespace cg = cooperative_groups;
constexpr int B = 256;

__global__ void tree(const float *x, float *out, int n) {
  __shared__ float s[B];
  int t = threadIdx.x, i = blockIdx.x * B + t;
  s[t] = i < n ? x[i] : 0;
  __syncthreads();
  for (int d = blockDim.x / 2; d > 0; d >>= 1) {
    if (t < d) s[t] += s[t + d];
    __syncthreads();
  }
  if (t == 0) out[blockIdx.x] = s[0];
}

__global__ void interleaved(const float *x, float *out, int n) {
  __shared__ float s[B];
  int t = threadIdx.x, i = blockIdx.x * B + t;
  s[t] = i < n ? x[i] : 0;
  __syncthreads();
  for (int d = 1; d < blockDim.x; d *= 2) {
    if (t % (2 * d) == 0) s[t] += s[t + d];
    __syncthreads();
  }
  if (t == 0) out[blockIdx.x] = s[0];
}

__global__ void strided(const float *x, float *out, int n) {
  extern __shared__ float all[];
  int t = threadIdx.x, i = blockIdx.x * B + t;
  all[t] = i < n ? x[i] : 0;
  __syncthreads();
  for (int d = 1; d < blockDim.x; d *= 2) {
    int at = 2 * d * t;
    if (at < blockDim.x) all[at] += all[at + d];
    __syncthreads();
  }
  if (t == 0) out[blockIdx.x] = all[0];
}

template <int SIZE> __device__ void last_warp(volatile float *s, int t) {
  if (SIZE >= 64) { s[t] += s[t + 32]; __syncwarp(); }
  if (SIZE >= 32) { s[t] += s[t + 16]; __syncwarp(); }
  if (SIZE >= 16) { s[t] += s[t + 8]; __syncwarp(); }
  if (SIZE >= 8) { s[t] += s[t + 4]; __syncwarp(); }
  if (SIZE >= 4) { s[t] += s[t + 2]; __syncwarp(); }
  if (SIZE >= 2) s[t] += s[t + 1];
}

__global__ void written_out(const float *x, float *out, int n) {
  __shared__ float s[B];
  int t = threadIdx.x;
  float own = 0;
  for (int i = blockIdx.x * B * 2 + t; i < n; i += B * 2 * gridDim.x) own += x[i] + (i + B < n ? x[i + B] : 0);
  s[t] = own;
  __syncthreads();
  if (t < 128) s[t] += s[t + 128];
  __syncthreads();
  if (t < 64) s[t] += s[t + 64];
  __syncthreads();
  if (t < 32) last_warp<B>(s, t);
  if (t == 0) out[blockIdx.x] = s[0];
}

__device__ float warp_sum(float v) {
  for (int d = 16; d > 0; d /= 2) v += __shfl_down_sync(0xffffffff, v, d);
  return v;
}
__device__ float block_sum(float v) {
  static __shared__ float part[32];
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  v = warp_sum(v);
  if (lane == 0) part[warp] = v;
  __syncthreads();
  v = threadIdx.x < blockDim.x / 32 ? part[lane] : 0;
  if (warp == 0) v = warp_sum(v);
  return v;
}
__global__ void shuffles(const float *x, float *out, int n) {
  float v = block_sum(x[blockIdx.x * B + threadIdx.x]);
  if (threadIdx.x == 0) out[blockIdx.x] = v;
}

__global__ void butterfly(const float *x, float *out, int n) {
  float v = x[blockIdx.x * B + threadIdx.x];
  for (int m = 1; m < 32; m *= 2) v += __shfl_xor_sync(0xffffffff, v, m);
  if (threadIdx.x % 32 == 0) out[(blockIdx.x * B + threadIdx.x) / 32] = v;
}

__global__ void groups(const float *x, float *out, int n) {
  auto block = cg::this_thread_block();
  auto tile = cg::tiled_partition<32>(block);
  __shared__ float part[B / 32];
  float v = cg::reduce(tile, x[blockIdx.x * B + threadIdx.x], cg::plus<float>());
  if (tile.thread_rank() == 0) part[tile.meta_group_rank()] = v;
  block.sync();
  if (threadIdx.x == 0) {
    float all = 0;
    for (int i = 0; i < B / 32; i++) all += part[i];
    out[blockIdx.x] = all;
  }
}

__global__ void cub_sum(const float *x, float *out, int n) {
  using Reduce = cub::BlockReduce<float, B>;
  __shared__ typename Reduce::TempStorage temp;
  float v = Reduce(temp).Sum(x[blockIdx.x * B + threadIdx.x]);
  if (threadIdx.x == 0) out[blockIdx.x] = v;
}

__global__ void dot(const float *x, const float *y, float *out, int n) {
  __shared__ float s[B];
  int t = threadIdx.x;
  float own = 0;
  for (int i = blockIdx.x * B + t; i < n; i += B * gridDim.x) own += x[i] * y[i];
  s[t] = own;
  __syncthreads();
  for (int d = B / 2; d != 0; d /= 2) {
    if (t < d) s[t] += s[t + d];
    __syncthreads();
  }
  if (t == 0) out[blockIdx.x] = s[0];
}

__global__ void largest(const int *x, int *out, int n) {
  __shared__ int s[B];
  int t = threadIdx.x;
  s[t] = x[blockIdx.x * B + t];
  __syncthreads();
  for (int d = 1; d < B; d *= 2) {
    if (t % (2 * d) == 0) s[t] = max(s[t], s[t + d]);
    __syncthreads();
  }
  if (t == 0) out[blockIdx.x] = s[0];
}

__device__ float warp_all_max(float v) {
  for (int m = 16; m > 0; m >>= 1) v = fmaxf(v, __shfl_xor_sync(0xffffffff, v, m));
  return v;
}
__device__ float warp_all_sum(float v) {
  for (int m = 16; m > 0; m >>= 1) v += __shfl_xor_sync(0xffffffff, v, m);
  return v;
}
__global__ void softmax(const float *x, float *out, int columns) {
  __shared__ float part[32];
  int t = threadIdx.x, lane = t % 32, warp = t / 32, warps = blockDim.x / 32;
  const float *row = x + (size_t)blockIdx.x * columns;
  float *to = out + (size_t)blockIdx.x * columns;
  float most = -INFINITY;
  for (int i = t; i < columns; i += blockDim.x) most = fmaxf(most, row[i]);
  most = warp_all_max(most);
  if (lane == 0) part[warp] = most;
  __syncthreads();
  most = warp_all_max(lane < warps ? part[lane] : -INFINITY);
  __syncthreads();
  float sum = 0;
  for (int i = t; i < columns; i += blockDim.x) {
    float e = expf(row[i] - most);
    to[i] = e;
    sum += e;
  }
  sum = warp_all_sum(sum);
  if (lane == 0) part[warp] = sum;
  __syncthreads();
  sum = warp_all_sum(lane < warps ? part[lane] : 0);
  for (int i = t; i < columns; i += blockDim.x) to[i] /= sum;
}

__global__ void layernorm(const float *x, float *out, int columns) {
  __shared__ float s[B];
  int t = threadIdx.x;
  const float *row = x + (size_t)blockIdx.x * columns;
  float own = 0;
  for (int i = t; i < columns; i += B) own += row[i];
  s[t] = own;
  __syncthreads();
  for (int d = B / 2; d > 0; d /= 2) {
    if (t < d) s[t] += s[t + d];
    __syncthreads();
  }
  float mean = s[0] / columns;
  __syncthreads();
  own = 0;
  for (int i = t; i < columns; i += B) own += (row[i] - mean) * (row[i] - mean);
  s[t] = own;
  __syncthreads();
  for (int d = B / 2; d > 0; d /= 2) {
    if (t < d) s[t] += s[t + d];
    __syncthreads();
  }
  float scale = rsqrtf(s[0] / columns + 1e-5f);
  for (int i = t; i < columns; i += B) out[(size_t)blockIdx.x * columns + i] = (row[i] - mean) * scale;
}

__global__ void warp_rows(const float *x, float *out, int columns) {
  int row = blockIdx.x * (B / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
  float sum = 0;
  for (int i = lane; i < columns; i += 32) sum += x[(size_t)row * columns + i];
  sum = warp_all_sum(sum);
  if (lane == 0) out[row] = sum;
}

__global__ void scan(const float *x, float *out, int n) {
  __shared__ float s[B];
  int t = threadIdx.x, i = blockIdx.x * B + t;
  s[t] = x[i];
  __syncthreads();
  for (int d = 1; d < B; d *= 2) {
    float v = t >= d ? s[t - d] : 0;
    __syncthreads();
    s[t] += v;
    __syncthreads();
  }
  out[i] = s[t];
}

__global__ void shuffled_scan(const float *x, float *out, int n) {
  __shared__ float part[B / 32];
  int t = threadIdx.x, lane = t % 32, warp = t / 32;
  float v = x[blockIdx.x * B + t];
  for (int d = 1; d < 32; d *= 2) {
    float below = __shfl_up_sync(0xffffffff, v, d);
    if (lane >= d) v += below;
  }
  if (lane == 31) part[warp] = v;
  __syncthreads();
  if (warp == 0) {
    float sum = lane < B / 32 ? part[lane] : 0;
    for (int d = 1; d < B / 32; d *= 2) {
      float below = __shfl_up_sync(0xffffffff, sum, d);
      if (lane >= d) sum += below;
    }
    if (lane < B / 32) part[lane] = sum;
  }
  __syncthreads();
  if (warp > 0) v += part[warp - 1];
  out[blockIdx.x * B + t] = v;
}

__global__ void work_efficient_scan(const float *x, float *out, int n) {
  __shared__ float s[2 * B];
  int t = threadIdx.x, first = blockIdx.x * 2 * B;
  s[2 * t] = x[first + 2 * t];
  s[2 * t + 1] = x[first + 2 * t + 1];
  int step = 1;
  for (int d = B; d > 0; d >>= 1) {
    __syncthreads();
    if (t < d) s[step * (2 * t + 2) - 1] += s[step * (2 * t + 1) - 1];
    step *= 2;
  }
  if (t == 0) s[2 * B - 1] = 0;
  for (int d = 1; d < 2 * B; d *= 2) {
    step >>= 1;
    __syncthreads();
    if (t < d) {
      int a = step * (2 * t + 1) - 1, b = step * (2 * t + 2) - 1;
      float v = s[a];
      s[a] = s[b];
      s[b] += v;
    }
  }
  __syncthreads();
  out[first + 2 * t] = s[2 * t];
  out[first + 2 * t + 1] = s[2 * t + 1];
}
