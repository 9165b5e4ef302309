// out of bounds
__global__ void k(int *out, int n) {
  int best[4];
  for (int i = 0; i < n + BUG; ++i) best[i] = i;
  out[threadIdx.x] = best[threadIdx.x % 4];
}
void run() {
  int *x;
  cudaMalloc(&x, 128);
  k<<<1, 32>>>(x, 4);
  cudaFree(x);
}
