// out of bounds
__global__ void k(const float *x, float *y) {
  int i = threadIdx.x;
  y[i] = x[i] + (i + 1 < 32 + BUG ? x[i + 1] : 0.0f);
}
void run() {
  float *x, *y;
  cudaMalloc(&x, 32 * sizeof(float)), cudaMalloc(&y, 32 * sizeof(float)), cudaMemset(x, 0, 32 * sizeof(float));
  k<<<1, 32>>>(x, y);
  cudaFree(x), cudaFree(y);
}
