// race
__global__ void k(int *bins) {
  if (BUG) bins[threadIdx.x % 8] += 1;
  else atomicAdd(&bins[threadIdx.x % 8], 1);
}
void run() {
  int *x;
  cudaMalloc(&x, 32), cudaMemset(x, 0, 32);
  k<<<1, 64>>>(x);
  cudaFree(x);
}
