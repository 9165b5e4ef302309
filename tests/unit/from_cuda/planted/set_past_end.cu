// API misuse
void run() {
  int *x;
  cudaMalloc(&x, 32);
  cudaMemset(x, 0, BUG ? 128 : 32);
  cudaFree(x);
}
