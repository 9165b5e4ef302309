// uninitialized
__global__ void k(int *out) {
  __shared__ int total;
  if (!BUG && threadIdx.x == 0) total = 0;
  __syncthreads();
  atomicAdd(&total, 1);
  __syncthreads();
  if (threadIdx.x == 0) out[0] = total;
}
void run() {
  int *x;
  cudaMalloc(&x, 4);
  k<<<1, 64>>>(x);
  cudaFree(x);
}
