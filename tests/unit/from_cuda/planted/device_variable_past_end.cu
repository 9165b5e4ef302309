// out of bounds
__device__ int table[16];
__global__ void k() { table[threadIdx.x] = threadIdx.x; }
void run() { k<<<1, 16 + BUG>>>(); }
