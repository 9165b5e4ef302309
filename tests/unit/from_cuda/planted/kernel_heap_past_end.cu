// out of bounds
__global__ void k(int *out, int n) {
  int *mine = (int *)malloc(n * sizeof(int));
  for (int i = 0; i < n + BUG; ++i) mine[i] = i;
  out[threadIdx.x] = mine[n - 1];
  free(mine);
}
void run() {
  int *x;
  cudaMalloc(&x, 16);
  k<<<1, 4>>>(x, 8);
  cudaFree(x);
}
