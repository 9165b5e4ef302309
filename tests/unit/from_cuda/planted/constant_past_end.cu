// out of bounds
__constant__ float weights[9];
__global__ void k(float *out) { out[threadIdx.x] = weights[threadIdx.x % (9 + BUG)]; }
void run() {
  float *x;
  cudaMalloc(&x, 128);
  k<<<1, 32>>>(x);
  cudaFree(x);
}
