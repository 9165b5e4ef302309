// race
__global__ void k(int *count, int *out) {
  atomicAdd(count, 1);
  if (!BUG) __syncthreads();
  out[threadIdx.x] = *count;
}
void run() {
  int *x, *y;
  cudaMalloc(&x, 4), cudaMalloc(&y, 256), cudaMemset(x, 0, 4);
  k<<<1, 64>>>(x, y);
  cudaFree(x), cudaFree(y);
}
