// failed assert
__global__ void k(int n) { assert(threadIdx.x < n); }
void run() { k<<<1, 33>>>(33 - BUG); }
