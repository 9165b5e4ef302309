// out of bounds
__global__ void k(int *bins, int n) { atomicAdd(&bins[threadIdx.x % (n + BUG)], 1); }
void run() {
  int *x;
  cudaMalloc(&x, 8 * sizeof(int)), cudaMemset(x, 0, 8 * sizeof(int));
  k<<<1, 32>>>(x, 8);
  cudaFree(x);
}
