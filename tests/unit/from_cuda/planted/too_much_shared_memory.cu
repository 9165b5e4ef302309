// API misuse
__global__ void k() {}
void run() { k<<<1, 32, BUG ? 300 << 10 : 1 << 10>>>(); }
