// API misuse
__constant__ float weights[4];
__global__ void k(float *out) { out[threadIdx.x] = weights[threadIdx.x]; }
void run() {
  float h[8] = {}, *x;
  cudaMalloc(&x, 16);
  cudaMemcpyToSymbol(weights, h, BUG ? 32 : 16);
  k<<<1, 4>>>(x);
  cudaFree(x);
}
