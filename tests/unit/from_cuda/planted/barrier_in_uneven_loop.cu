// divergent barrier
__global__ void k(int *out) {
  int sum = 0;
  for (int i = 0; i < (BUG ? 1 + threadIdx.x / 32 : 2); ++i) {
    sum += i;
    __syncthreads();
  }
  out[threadIdx.x] = sum;
}
void run() {
  int *x;
  cudaMalloc(&x, 256);
  k<<<1, 64>>>(x);
  cudaFree(x);
}
