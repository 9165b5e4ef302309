// race
__device__ unsigned int done;
__global__ void k(int *part, int *sum) {
  part[blockIdx.x] = blockIdx.x + 1;
  if (!BUG) __threadfence();
  if (atomicInc(&done, gridDim.x - 1) == gridDim.x - 1) {
    int total = 0;
    for (int i = 0; i < gridDim.x; ++i) total += part[i];
    *sum = total;
  }
}
void run() {
  int *x, *y;
  cudaMalloc(&x, 16), cudaMalloc(&y, 4);
  k<<<4, 1>>>(x, y);
  cudaFree(x), cudaFree(y);
}
