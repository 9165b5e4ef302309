// misaligned
__global__ void k(float *x) {
  float4 v = *(float4 *)(x + BUG);
  x[threadIdx.x] = v.x;
}
void run() {
  float *x;
  cudaMalloc(&x, 64 * sizeof(float)), cudaMemset(x, 0, 64 * sizeof(float));
  k<<<1, 1>>>(x);
  cudaFree(x);
}
