// race
__global__ void k(int *out) {
  if (threadIdx.x == 0) out[BUG ? 0 : blockIdx.x] = blockIdx.x;
}
void run() {
  int *x;
  cudaMalloc(&x, 64);
  k<<<4, 32>>>(x);
  cudaFree(x);
}
