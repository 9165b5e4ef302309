// API misuse
void run() {
  int h[32] = {}, *x;
  cudaMalloc(&x, 128);
  cudaMemcpy(x, h, 128, BUG ? cudaMemcpyDeviceToHost : cudaMemcpyHostToDevice);
  cudaFree(x);
}
