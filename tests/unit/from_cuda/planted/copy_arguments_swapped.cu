// API misuse
void run() {
  int h[32] = {}, *x;
  cudaMalloc(&x, 128);
  if (BUG) cudaMemcpy(h, x, 128, cudaMemcpyHostToDevice);
  else cudaMemcpy(x, h, 128, cudaMemcpyHostToDevice);
  cudaFree(x);
}
