// API misuse
void run() {
  int h[33] = {}, *x;
  cudaMalloc(&x, 128);
  cudaMemcpy(x, h, 128 + 4 * BUG, cudaMemcpyHostToDevice);
  cudaFree(x);
}
