// race
__global__ void k(int *out) {
  __shared__ int tile[64];
  tile[threadIdx.x] = threadIdx.x;
  if (!BUG) __syncthreads();
  out[threadIdx.x] = tile[63 - threadIdx.x];
  __syncthreads();
}
void run() {
  int *x;
  cudaMalloc(&x, 256);
  k<<<1, 64>>>(x);
  cudaFree(x);
}
