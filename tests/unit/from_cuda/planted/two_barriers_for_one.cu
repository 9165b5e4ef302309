// divergent barrier
__global__ void k(int *out) {
  __shared__ int tile[64];
  if (!BUG || threadIdx.x % 2) {
    tile[threadIdx.x] = 1;
    __syncthreads();
  } else {
    tile[threadIdx.x] = 2;
    __syncthreads();
  }
  out[threadIdx.x] = tile[63 - threadIdx.x];
}
void run() {
  int *x;
  cudaMalloc(&x, 256);
  k<<<1, 64>>>(x);
  cudaFree(x);
}
