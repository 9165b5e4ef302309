// divergent barrier
__global__ void k(int *out) {
  int v = threadIdx.x;
  if (threadIdx.x < 16) v += __shfl_down_sync(BUG ? 0xffffffffu : 0xffffu, v, 1);
  __syncthreads();
  out[threadIdx.x] = v;
}
void run() {
  int *x;
  cudaMalloc(&x, 128);
  k<<<1, 32>>>(x);
  cudaFree(x);
}
