// API misuse
void run() {
  int *x;
  cudaMalloc(&x, 128);
  if (BUG) cudaFree(x + 1);
  cudaFree(x);
}
