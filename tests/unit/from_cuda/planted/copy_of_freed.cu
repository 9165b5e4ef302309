// API misuse
void run() {
  int h[32], *x;
  cudaMalloc(&x, 128), cudaMemset(x, 0, 128);
  if (BUG) cudaFree(x);
  cudaMemcpy(h, x, 128, cudaMemcpyDeviceToHost);
  if (!BUG) cudaFree(x);
}
