// matmul: made by Weft for sm_90, numerics fast

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
template <int BYTES, int N, class T> __device__ __forceinline__ void store(T* p, const T (&x)[N]) {
  using Unit = typename access_unit<BYTES>::type;
  constexpr int count = N * sizeof(T) / BYTES;
  Unit units[count];
  memcpy(units, x, sizeof(x));
#pragma unroll
  for (int i = 0; i < count; ++i) reinterpret_cast<Unit*>(p)[i] = units[i];
}

extern "C" __global__ void __launch_bounds__(256)
matmul_kernel(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C) {
  follow_grid();
  const int bj = blockIdx.x;
  const int bi = blockIdx.y;
  __shared__ __align__(16) float As[2080];
  __shared__ __align__(16) float Bs[2048];
  const int tx = threadIdx.x;
  const int ty = threadIdx.y;
  float Cl[64];
  #pragma unroll
  for (int i = 0; i < 8; ++i) {
    #pragma unroll
    for (int j = 0; j < 8; ++j) {
      // matmul.loops:5: unroll i in 0:8 { unroll j in 0:8 { Cl[ty*8 + i, tx*8 + j] = 0.0 } } } }
      Cl[i * 8 + j] = 0.0f;
    }
  }
  for (int ko = 0; ko < 32; ++ko) {
    __syncthreads();
    #pragma unroll
    for (int u = 0; u < 8; ++u) {
      // matmul.loops:10: As[t % 16, u*16 + t // 16] = A[bi*128 + u*16 + t // 16, ko*16 + t % 16] } }
      As[tx * 130 + u * 16 + ty] = A[bi * 65536 + u * 8192 + ty * 512 + ko * 16 + tx];
    }
    #pragma unroll
    for (int u = 0; u < 2; ++u) {
      float B_v[4];
      load<16>(B_v, B + (ko * 16384 + u * 8192 + (ty >> 1) * 1024 + bj * 128 + (ty & 1) * 64 + tx * 4));
      store<16>(Bs + (u * 1024 + ty * 64 + tx * 4), B_v);
    }
    __syncthreads();
    for (int ki = 0; ki < 16; ++ki) {
      #pragma unroll
      for (int i = 0; i < 8; ++i) {
        #pragma unroll
        for (int j = 0; j < 8; ++j) {
          // matmul.loops:14: Cl[ty*8 + i, tx*8 + j] = Cl[ty*8 + i, tx*8 + j] + As[ki, ty*8 + i] * Bs[ki, tx*8 + j] } } } } } }
          Cl[i * 8 + j] = Cl[i * 8 + j] + As[ki * 130 + ty * 8 + i] * Bs[ki * 128 + tx * 8 + j];
        }
      }
    }
  }
  #pragma unroll
  for (int i = 0; i < 8; ++i) {
    float C_v[8];
    #pragma unroll
    for (int j = 0; j < 8; ++j) {
      C_v[j] = Cl[i * 8 + j];
    }
    store<16>(C + (bi * 131072 + ty * 8192 + i * 1024 + bj * 128 + tx * 8), C_v);
  }
}
