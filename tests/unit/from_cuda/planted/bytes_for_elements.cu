// out of bounds
__global__ void k(double *x) { x[threadIdx.x] = 1.0; }
void run() {
  double *x;
  cudaMalloc(&x, BUG ? 32 : 32 * sizeof(double));
  k<<<1, 32>>>(x);
  cudaFree(x);
}
