// race
__global__ void k(int *out) {
  __shared__ int tile[32];
  if (!BUG || threadIdx.x < 64) tile[BUG ? threadIdx.x / 2 : threadIdx.x % 32] = BUG ? threadIdx.x : threadIdx.x % 32;
  __syncthreads();
  out[threadIdx.x] = tile[threadIdx.x / 2];
}
void run() {
  int *x;
  cudaMalloc(&x, 256);
  k<<<1, 64>>>(x);
  cudaFree(x);
}
