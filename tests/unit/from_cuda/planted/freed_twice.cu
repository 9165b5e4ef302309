// API misuse
void run() {
  int *x;
  cudaMalloc(&x, 128);
  cudaFree(x);
  if (BUG) cudaFree(x);
}
