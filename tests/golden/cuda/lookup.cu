// count: made by Weft for sm_90, numerics fast

__device__ __forceinline__ void fail(long long* failed, long long* record, int site, int n, const long long* values) {
  if (atomicCAS((unsigned long long*)failed, 0ull, 1ull) != 0) return;
  for (int i = 0; i < n; ++i) ((volatile long long*)record)[1 + i] = values[i];
  __threadfence_system();
  *(volatile long long*)record = site;
  __threadfence_system();
}
struct alignas(2) float16 { unsigned short bits; };
__device__ __forceinline__ void follow_grid() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
__device__ __forceinline__ float widen(float16 x) {
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
  return y;
}

extern "C" __global__ void __launch_bounds__(256)
count_kernel(const int* __restrict__ I, long long* weft_failed, long long* weft_error) {
  follow_grid();
  const int check = blockIdx.x;
  const int checker = threadIdx.x;
  if (check * 256 + checker < 5000) {
    if (!(I[check * 256 + checker] >= 0 && I[check * 256 + checker] < 100)) {
      const long long seen[] = {check * 256 + checker, I[check * 256 + checker]};
      fail(weft_failed, weft_error, 1, 2, seen);
      return;
    }
  }
}

extern "C" __global__ void __launch_bounds__(100)
count_kernel_2(float* __restrict__ H, long long* weft_failed) {
  follow_grid();
  if (*weft_failed) return;
  const int b = blockIdx.x;
  const int t = threadIdx.x;
  // lookup.loops:3: block b in 0:1 { thread t in 0:100 { H[t] = 0.0 } }
  H[t] = 0.0f;
}

extern "C" __global__ void __launch_bounds__(256)
count_kernel_3(
    const int* __restrict__ I,
    const float16* __restrict__ W,
    float* __restrict__ H,
    long long* weft_failed) {
  follow_grid();
  if (*weft_failed) return;
  const int b = blockIdx.x;
  const int t = threadIdx.x;
  if (b * 256 + t < 5000) {
    atomicAdd(H + I[b * 256 + t], (float)(widen(W[b * 256 + t])));
  }
}
