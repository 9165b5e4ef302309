// softmax: made by Weft for sm_90, numerics fast

struct alignas(2) bfloat16 { unsigned short bits; };
__device__ __forceinline__ void follow_grid() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
__device__ __forceinline__ float infinity() { return __int_as_float(0x7f800000); }
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
__device__ __forceinline__ float max_nan(float a, float b) {
#if __CUDA_ARCH__ >= 800
  float c;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(c) : "f"(a), "f"(b));
  return c;
#else
  return a >= b || a != a ? a : b;
#endif
}
__device__ __forceinline__ double max_nan(double a, double b) { return a >= b || a != a ? a : b; }
__device__ __forceinline__ float quick_exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ __forceinline__ float quick_exp(float x) { return quick_exp2(1.4426950408889634f * x); }
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
softmax_kernel(const bfloat16* __restrict__ A, bfloat16* __restrict__ C) {
  follow_grid();
  const int r = blockIdx.x;
  __shared__ __align__(16) float passed[256];
  const int t_ = threadIdx.x;
  float e[16];
  float p[1];
  float m[1];
  float q[1];
  float s[1];
  // rows.loops:9: p[t] = -inf
  p[0] = -infinity();
  #pragma unroll
  for (int c = 0; c < 2; ++c) {
    float A_v[8];
    load<16>(A_v, A + (r * 4096 + c * 2048 + t_ * 8));
    #pragma unroll
    for (int v = 0; v < 8; ++v) {
      // rows.loops:10: unroll c in 0:2 { vector v in 0:8 { e[c*2048 + t*8 + v] = float32(A[r, c*2048 + t*8 + v]) } }
      e[c * 8 + v] = A_v[v];
    }
  }
  #pragma unroll
  for (int c = 0; c < 2; ++c) {
    #pragma unroll
    for (int v = 0; v < 8; ++v) {
      // rows.loops:11: unroll c in 0:2 { unroll v in 0:8 { p[t] = max(p[t], e[c*2048 + t*8 + v]) } } }
      p[0] = max_nan(p[0], e[c * 8 + v]);
    }
  }
  // rows.loops:12: m[0] = -inf
  m[0] = -infinity();
  float part = p[0];
  part = max_nan(part, __shfl_xor_sync(0xffffffffu, part, 16));
  part = max_nan(part, __shfl_xor_sync(0xffffffffu, part, 8));
  part = max_nan(part, __shfl_xor_sync(0xffffffffu, part, 4));
  part = max_nan(part, __shfl_xor_sync(0xffffffffu, part, 2));
  part = max_nan(part, __shfl_xor_sync(0xffffffffu, part, 1));
  if ((t_ & 31) == 0) {
    passed[t_ >> 5] = part;
  }
  __syncthreads();
  part = passed[0];
  #pragma unroll
  for (int w = 1; w < 8; ++w) {
    part = max_nan(part, passed[w]);
  }
  // rows.loops:13: for t in 0:256 { m[0] = max(m[0], p[t]) }
  m[0] = max_nan(m[0], part);
  // rows.loops:15: q[t] = 0.0
  q[0] = 0.0f;
  #pragma unroll
  for (int c = 0; c < 2; ++c) {
    #pragma unroll
    for (int v = 0; v < 8; ++v) {
      // rows.loops:17: e[c*2048 + t*8 + v] = exp(e[c*2048 + t*8 + v] - m[0])
      e[c * 8 + v] = quick_exp(e[c * 8 + v] - m[0]);
      // rows.loops:18: q[t] = q[t] + e[c*2048 + t*8 + v] } } }
      q[0] = q[0] + e[c * 8 + v];
    }
  }
  // rows.loops:19: s[0] = 0.0
  s[0] = 0.0f;
  float part_2 = q[0];
  part_2 = part_2 + __shfl_xor_sync(0xffffffffu, part_2, 16);
  part_2 = part_2 + __shfl_xor_sync(0xffffffffu, part_2, 8);
  part_2 = part_2 + __shfl_xor_sync(0xffffffffu, part_2, 4);
  part_2 = part_2 + __shfl_xor_sync(0xffffffffu, part_2, 2);
  part_2 = part_2 + __shfl_xor_sync(0xffffffffu, part_2, 1);
  if ((t_ & 31) == 0) {
    passed[(t_ >> 5) + 8] = part_2;
  }
  __syncthreads();
  part_2 = passed[8];
  #pragma unroll
  for (int w_2 = 1; w_2 < 8; ++w_2) {
    part_2 = part_2 + passed[w_2 + 8];
  }
  // rows.loops:20: for t in 0:256 { s[0] = s[0] + q[t] }
  s[0] = s[0] + part_2;
  const float inverse = 1.0f / s[0];
  #pragma unroll
  for (int c = 0; c < 2; ++c) {
    float C_v[8];
    #pragma unroll
    for (int v = 0; v < 8; ++v) {
      C_v[v] = e[c * 8 + v] * inverse;
    }
    store<16>(C + (r * 4096 + c * 2048 + t_ * 8), C_v);
  }
}
