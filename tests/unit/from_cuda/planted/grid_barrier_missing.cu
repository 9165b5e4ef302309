// race
__global__ void k(int *part, int *sum) {
  cooperative_groups::grid_group grid = cooperative_groups::this_grid();
  if (threadIdx.x == 0) part[blockIdx.x] = blockIdx.x + 1;
  if (!BUG) grid.sync();
  if (blockIdx.x == 0 && threadIdx.x == 0) *sum = part[0] + part[1] + part[2];
}
void run() {
  int *x, *y;
  cudaMalloc(&x, 16), cudaMalloc(&y, 4), cudaMemset(x, 0, 16);
  void *arguments[] = {&x, &y};
  cudaLaunchCooperativeKernel((void *)k, dim3(3), dim3(32), arguments, 0, 0);
  cudaFree(x), cudaFree(y);
}
