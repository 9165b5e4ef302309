// divergent barrier
__global__ void k(int *out) {
  __shared__ int tile[64];
  tile[threadIdx.x] = threadIdx.x;
  if (!BUG || threadIdx.x < 32) __syncthreads();
  out[threadIdx.x] = tile[threadIdx.x];
}
void run() {
  int *x;
  cudaMalloc(&x, 256);
  k<<<1, 64>>>(x);
  cudaFree(x);
}
