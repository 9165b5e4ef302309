// out of bounds
__global__ void k(int *out) {
  __shared__ int tile[32];
  __shared__ int other[32];
  other[threadIdx.x] = 1;
  tile[threadIdx.x + BUG] = threadIdx.x;
  __syncthreads();
  out[threadIdx.x] = tile[BUG ? 1 : threadIdx.x] + other[0];
}
void run() {
  int *x;
  cudaMalloc(&x, 128);
  k<<<1, 32>>>(x);
  cudaFree(x);
}
