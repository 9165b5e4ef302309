// out of bounds
__global__ void k(const int *x, int *y) { y[threadIdx.x] = x[threadIdx.x]; }
void run() {
  int *h = new int[32](), *d, *y;
  cudaMalloc(&d, 128), cudaMalloc(&y, 128), cudaMemcpy(d, h, 128, cudaMemcpyHostToDevice);
  k<<<1, 32>>>(BUG ? h : d, y);
  cudaFree(d), cudaFree(y);
  delete[] h;
}
