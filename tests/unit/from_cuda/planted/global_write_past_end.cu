// out of bounds
__global__ void k(float *x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (BUG || i < n) x[i] = 1.0f;
}
void run() {
  float *x;
  cudaMalloc(&x, 100 * sizeof(float));
  k<<<4, 32>>>(x, 100);
  cudaFree(x);
}
