// transpose: made by Weft for sm_90, numerics fast

__device__ __forceinline__ void follow_grid() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

extern "C" __global__ void __launch_bounds__(256)
transpose_kernel(const float* __restrict__ A, long long M, long long N, float* __restrict__ B) {
  follow_grid();
  const int block = blockIdx.x;
  const int bj_count = (int)((N + 31) >> 5);
  const int bj = block % bj_count;
  const int bi = block / bj_count;
  __shared__ __align__(16) float T[1056];
  const int tx = threadIdx.x;
  const int ty = threadIdx.y;
  if (M >= (long long)bi * 32 + ty + 25 && (long long)bj * 32 + tx < N) {
    #pragma unroll
    for (int u = 0; u < 4; ++u) {
      // transpose.loops:5: if bi*32 + u*8 + ty < M && bj*32 + tx < N { T[u*8 + ty, tx] = A[bi*32 + u*8 + ty, bj*32 + tx] } } }
      T[u * 264 + ty * 33 + tx] = A[((long long)bi * 32 + u * 8 + ty) * N + ((long long)bj * 32 + tx)];
    }
  } else {
    #pragma unroll
    for (int u = 0; u < 4; ++u) {
      if ((long long)bi * 32 + u * 8 + ty < M && (long long)bj * 32 + tx < N) {
        T[u * 264 + ty * 33 + tx] = A[((long long)bi * 32 + u * 8 + ty) * N + ((long long)bj * 32 + tx)];
      }
    }
  }
  __syncthreads();
  #pragma unroll
  for (int u = 0; u < 4; ++u) {
    if ((long long)bj * 32 + u * 8 + ty < N && (long long)bi * 32 + tx < M) {
      // transpose.loops:7: if bj*32 + u*8 + ty < N && bi*32 + tx < M { B[bj*32 + u*8 + ty, bi*32 + tx] = T[tx, u*8 + ty] } } }
      B[((long long)bj * 32 + u * 8 + ty) * M + ((long long)bi * 32 + tx)] = T[tx * 33 + u * 8 + ty];
    }
  }
}
