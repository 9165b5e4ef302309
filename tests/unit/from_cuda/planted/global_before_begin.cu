// out of bounds
__global__ void k(const int *x, int *y) {
  int i = threadIdx.x;
  y[i] = BUG || i > 0 ? x[i - 1] : 0;
}
void run() {
  int *x, *y;
  cudaMalloc(&x, 128), cudaMalloc(&y, 128), cudaMemset(x, 0, 128);
  k<<<1, 32>>>(x, y);
  cudaFree(x), cudaFree(y);
}
