// out of bounds
__global__ void k(int *x) { if (x || BUG) x[threadIdx.x] = 1; }
void run() { k<<<1, 4>>>(nullptr); }
