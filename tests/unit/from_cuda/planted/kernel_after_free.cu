// use after free
__global__ void k(int *x) { x[threadIdx.x] = 1; }
void run() {
  int *x;
  cudaMalloc(&x, 128);
  if (BUG) cudaFree(x);
  k<<<1, 32>>>(x);
  if (!BUG) cudaFree(x);
}
