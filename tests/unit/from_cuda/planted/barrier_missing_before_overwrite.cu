// race
__global__ void k(int *out, int steps) {
  __shared__ int tile[64];
  int sum = 0;
  for (int s = 0; s < steps; ++s) {
    tile[threadIdx.x] = threadIdx.x + s;
    __syncthreads();
    sum += tile[63 - threadIdx.x];
    if (!BUG) __syncthreads();
  }
  out[threadIdx.x] = sum;
}
void run() {
  int *x;
  cudaMalloc(&x, 256);
  k<<<1, 64>>>(x, 3);
  cudaFree(x);
}
