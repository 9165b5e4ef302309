// race
__global__ void k(int *x) {
  __shared__ int all[64];
  volatile int *s = all;
  int t = threadIdx.x + 32;
  s[t - 32] = 0, s[t] = x[threadIdx.x];
  __syncwarp();
  for (int d = 1; d < 32; d *= 2) {
    int before = s[t - d];
    if (!BUG) __syncwarp();
    s[t] = s[t] + before;
    if (!BUG) __syncwarp();
  }
  x[threadIdx.x] = s[t];
}
void run() {
  int *x;
  cudaMalloc(&x, 128), cudaMemset(x, 1, 128);
  k<<<1, 32>>>(x);
  cudaFree(x);
}
