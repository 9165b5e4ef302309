// uninitialized
__global__ void k(float *x) { x[threadIdx.x] += 1.0f; }
void run() {
  float *x;
  cudaMalloc(&x, 128);
  if (!BUG) cudaMemset(x, 0, 128);
  k<<<1, 32>>>(x);
  cudaFree(x);
}
