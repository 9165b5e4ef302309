// race
__global__ void k(const float *in, float *out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i > 0) out[i] = 0.5f * (in[i - 1] + in[i]) + i;
}
void run() {
  float *x, *y;
  cudaMalloc(&x, 256), cudaMalloc(&y, 256), cudaMemset(x, 0, 256);
  k<<<2, 32>>>(x, BUG ? x : y);
  cudaFree(x), cudaFree(y);
}
