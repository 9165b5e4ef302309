// API misuse
__global__ void k() {}
void run() { k<<<1, BUG ? 1025 : 1024>>>(); }
