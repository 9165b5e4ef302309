// race
__global__ void k(unsigned char *x) {
  if (BUG) *(unsigned short *)(x + threadIdx.x / 2 * 2) = 256 + threadIdx.x;
  else x[threadIdx.x] = threadIdx.x;
}
void run() {
  unsigned char *x;
  cudaMalloc(&x, 64);
  k<<<1, 64>>>(x);
  cudaFree(x);
}
