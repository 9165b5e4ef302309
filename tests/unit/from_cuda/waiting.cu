// cuda::barrier, cuda::pipeline and cuda::atomic: prints how many results are wrong, a sum and a maximum.
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cstdio>
#include <cuda/atomic>
#include <cuda/barrier>
#include <cuda/pipeline>
#include <cuda/std/type_traits>
#include <utility>

namespace cg = cooperative_groups;
using barrier = cuda::barrier<cuda::thread_scope_block>;

__global__ void reversed(const int *x, int *y) {
  __shared__ barrier done;
  __shared__ int s[64];
  auto block = cg::this_thread_block();
  if (block.thread_rank() == 0) init(&done, block.size());
  block.sync();
  cuda::memcpy_async(block, s, x + blockIdx.x * 64, sizeof(int) * block.size(), done);
  barrier::arrival_token token = done.arrive();
  done.wait(std::move(token));
  y[blockIdx.x * 64 + threadIdx.x] = s[63 - threadIdx.x];
  done.arrive_and_wait();
}
// One thread of the first warp makes numbers, one after another, that the second warp adds up.
__global__ void handed_over(int *out) {
  __shared__ barrier full, empty;
  __shared__ int value;
  if (threadIdx.x == 0) {
    init(&full, 1 + 32);
    init(&empty, 1 + 32);
  }
  __syncthreads();
  if (threadIdx.x == 0)
    for (int i = 0; i < 5; i++) {
      value = i * i;
      full.arrive_and_wait();
      empty.arrive_and_wait();
    }
  if (threadIdx.x < 32) return;
  int sum = 0;
  for (int i = 0; i < 5; i++) {
    full.arrive_and_wait();
    sum += value;
    empty.arrive_and_wait();
  }
  out[threadIdx.x - 32] = sum;
}
__global__ void in_stages(const float *x, float *y, int n) {
  __shared__ float s[2][32];
  __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
  auto block = cg::this_thread_block();
  auto stages = cuda::make_pipeline(block, &state);
  float sum = 0;
  for (int made = 0, used = 0; used < n; used++) {
    for (; made < n && made < used + 2; made++) {
      stages.producer_acquire();
      cuda::memcpy_async(block, s[made % 2], x + 32 * made, sizeof(float) * 32, stages);
      stages.producer_commit();
    }
    stages.consumer_wait();
    sum += s[used % 2][31 - threadIdx.x];
    stages.consumer_release();
  }
  y[threadIdx.x] = sum;
}
__global__ void counted(int *count, unsigned *most) {
  cuda::atomic_ref<int, cuda::thread_scope_device> all(count[0]);
  all.fetch_add((int)threadIdx.x, cuda::std::memory_order_relaxed);
  __shared__ cuda::atomic<unsigned, cuda::thread_scope_block> largest;
  if (threadIdx.x == 0) largest.store(5u);
  __syncthreads();
  largest.fetch_max(threadIdx.x);
  unsigned seen = 1000;
  if (largest.compare_exchange_strong(seen, 7u)) largest.store(0u);
  __syncthreads();
  static_assert(cuda::std::is_same<int, int>::value, "");
  if (threadIdx.x == 0) *most = largest.load();
}

int main() {
  int *x, *y, wrong = 0;
  float *f, *g;
  cudaMallocManaged(&x, 128 * sizeof(int)), cudaMallocManaged(&y, 128 * sizeof(int));
  cudaMallocManaged(&f, 256 * sizeof(float)), cudaMallocManaged(&g, 32 * sizeof(float));
  for (int i = 0; i < 128; i++) x[i] = 3 * i;
  for (int i = 0; i < 256; i++) f[i] = i;
  reversed<<<2, 64>>>(x, y);
  cudaDeviceSynchronize();
  for (int i = 0; i < 128; i++) wrong += y[i] != 3 * (i / 64 * 64 + 63 - i % 64);
  handed_over<<<1, 64>>>(y);
  in_stages<<<1, 32>>>(f, g, 8);
  cudaDeviceSynchronize();
  for (int i = 0; i < 32; i++) wrong += (y[i] != 30) + (g[i] != 8 * (31 - i) + 32 * 28);
  x[0] = 0;
  counted<<<1, 64>>>(x, (unsigned *)y);
  cudaDeviceSynchronize();
  printf("%d %d %d\n", wrong, x[0], y[0]);
}
