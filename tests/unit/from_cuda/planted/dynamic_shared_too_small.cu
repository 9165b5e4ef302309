// out of bounds
__global__ void k(int *out) {
  extern __shared__ int part[];
  part[threadIdx.x] = threadIdx.x;
  __syncthreads();
  out[threadIdx.x] = part[31 - threadIdx.x];
}
void run() {
  int *x;
  cudaMalloc(&x, 128);
  k<<<1, 32, BUG ? 64 : 128>>>(x);
  cudaFree(x);
}
