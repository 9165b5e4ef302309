// race
__global__ void k(int *out) {
  __shared__ int tile[32];
  tile[threadIdx.x] = threadIdx.x * threadIdx.x;
  if (!BUG) __syncwarp();
  out[threadIdx.x] = tile[threadIdx.x ^ 1];
}
void run() {
  int *x;
  cudaMalloc(&x, 128);
  k<<<1, 32>>>(x);
  cudaFree(x);
}
