// uninitialized
__global__ void k(int *out, int n) {
  __shared__ int tile[32];
  if (!BUG || threadIdx.x < 16) tile[threadIdx.x] = threadIdx.x;
  __syncthreads();
  out[threadIdx.x] = tile[31 - threadIdx.x];
}
void run() {
  int *x;
  cudaMalloc(&x, 128);
  k<<<1, 32>>>(x, 32);
  cudaFree(x);
}
