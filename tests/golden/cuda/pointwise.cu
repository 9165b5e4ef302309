// bias_scale: made by Weft for sm_90, numerics fast

struct alignas(2) bfloat16 { unsigned short bits; };
__device__ __forceinline__ void follow_grid() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
template <int BYTES> struct access_unit;
template <> struct access_unit<16> { using type = uint4; };
template <> struct access_unit<8> { using type = uint2; };
template <> struct access_unit<4> { using type = unsigned; };
template <> struct access_unit<2> { using type = unsigned short; };
template <int BYTES, int N, class T> __device__ __forceinline__ void load(T (&x)[N], const T* p) {
  using Unit = typename access_unit<BYTES>::type;
  constexpr int count = N * sizeof(T) / BYTES;
  Unit units[count];
#pragma unroll
  for (int i = 0; i < count; ++i) units[i] = reinterpret_cast<const Unit*>(p)[i];
  memcpy(x, units, sizeof(x));
}
template <int BYTES, int N>
__device__ __forceinline__ void load(float (&x)[N], const bfloat16* p) {
  unsigned pairs[N / 2];
  load<BYTES>(pairs, reinterpret_cast<const unsigned*>(p));
#pragma unroll
  for (int i = 0; i < N / 2; ++i) {
    x[2 * i] = __uint_as_float(pairs[i] << 16);
    x[2 * i + 1] = __uint_as_float(pairs[i] & 0xffff0000u);
  }
}
template <int BYTES, int N, class T> __device__ __forceinline__ void store(T* p, const T (&x)[N]) {
  using Unit = typename access_unit<BYTES>::type;
  constexpr int count = N * sizeof(T) / BYTES;
  Unit units[count];
  memcpy(units, x, sizeof(x));
#pragma unroll
  for (int i = 0; i < count; ++i) reinterpret_cast<Unit*>(p)[i] = units[i];
}
__device__ __forceinline__ bfloat16 to_bfloat16(float x) {
  bfloat16 y;
#if __CUDA_ARCH__ >= 800
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
#else
  const unsigned u = __float_as_uint(x);
  y.bits = x != x ? 0x7fff : (u + 0x7fff + ((u >> 16) & 1)) >> 16;
#endif
  return y;
}
__device__ __forceinline__ unsigned pack_bfloat16(float x, float y) {
#if __CUDA_ARCH__ >= 800
  unsigned both;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(y), "f"(x));
  return both;
#else
  return to_bfloat16(x).bits | ((unsigned)to_bfloat16(y).bits << 16);
#endif
}
template <int BYTES, int N> __device__ __forceinline__ void store(bfloat16* p, const float (&x)[N]) {
  unsigned pairs[N / 2];
#pragma unroll
  for (int i = 0; i < N / 2; ++i) pairs[i] = pack_bfloat16(x[2 * i], x[2 * i + 1]);
  store<BYTES>(reinterpret_cast<unsigned*>(p), pairs);
}
__device__ __forceinline__ float widen(bfloat16 x) { return __uint_as_float((unsigned)x.bits << 16); }

extern "C" __global__ void __launch_bounds__(256)
bias_scale_kernel(const bfloat16* __restrict__ A, const bfloat16* __restrict__ b, bfloat16* __restrict__ C) {
  follow_grid();
  const int r = blockIdx.x;
  const int t = threadIdx.x;
  #pragma unroll
  for (int c = 0; c < 2; ++c) {
    float A_v[8];
    load<16>(A_v, A + (r * 4096 + c * 2048 + t * 8));
    float b_v[8];
    load<16>(b_v, b + (c * 2048 + t * 8));
    float C_v[8];
    #pragma unroll
    for (int v = 0; v < 8; ++v) {
      C_v[v] = A_v[v] * 0.5f + b_v[v];
    }
    store<16>(C + (r * 4096 + c * 2048 + t * 8), C_v);
  }
}
