// Threads that wait in loops for what other threads, of other blocks too, write while they wait.
#include <cstdio>
// Blocks hand a number on, forwards and backwards.
__global__ void chain(volatile int *flag, int *out) {
  if (threadIdx.x == 0) {
    while (flag[blockIdx.x] == 0) {}
    out[blockIdx.x] = flag[blockIdx.x];
    __threadfence();
    flag[blockIdx.x + 1] = flag[blockIdx.x] + 1;
  }
  __syncthreads();  // the others wait here while the first asks
  if (threadIdx.x == 1) out[blockIdx.x] += 100;
}
__global__ void backwards(volatile int *flag, int *out) {
  int b = gridDim.x - 1 - blockIdx.x;
  if (threadIdx.x == 0) {
    while (flag[b] == 0) {}
    out[b] = flag[b];
    __threadfence();
    flag[b + 1] = flag[b] + 1;
  }
}
__global__ void in_a_block(volatile int *x) {
  int t = threadIdx.x;
  if (t < 63)
    while (x[t + 1] == 0) {}
  x[t] = t < 63 ? x[t + 1] + 1 : 1;
}
__global__ void locked(int *lock, int *sum) {
  for (bool done = false; !done;)
    if (atomicCAS(lock, 0, 1) == 0) {
      *(volatile int *)sum = *(volatile int *)sum + 1;
      __threadfence();
      atomicExch(lock, 0);
      done = true;
    }
}
__global__ void one_of_a_block(int *lock, volatile int *sum) {
  if (threadIdx.x == 0) {
    while (atomicCAS(lock, 0, 1) != 0) {}
    *sum = *sum + 1;
    __threadfence();
    atomicExch(lock, 0);
  }
}
// A barrier of the grid by hand.
__global__ void meet(unsigned *count, int *x, int *y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, n = gridDim.x * blockDim.x;
  x[i] = i;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    atomicAdd(count, 1);
    while (atomicAdd(count, 0) < gridDim.x) {}
  }
  __syncthreads();
  y[i] = x[n - 1 - i];
}
// What counts its steps, or asks shared memory, waits for nobody.
__global__ void counted(volatile float *x) {
  volatile __shared__ float s[64];
  s[threadIdx.x] = 0;
  for (int i = 0; i < 4; ++i) s[threadIdx.x] += x[4 * threadIdx.x + i];
  int i = 32;
  while (i > 0) {
    __syncthreads();
    float other = threadIdx.x < i ? s[threadIdx.x + i] : 0;
    __syncthreads();
    s[threadIdx.x] += other;
    i /= 2;
  }
  if (threadIdx.x == 0) x[0] = s[0];
}
int main() {
  int *f, *o, *x, *s;
  unsigned *c;
  float *y;
  cudaMallocManaged(&f, 4096), cudaMallocManaged(&o, 4096), cudaMallocManaged(&x, 4096), cudaMallocManaged(&s, 16);
  cudaMallocManaged(&c, 4), cudaMallocManaged(&y, 1024);
  f[0] = 1;
  chain<<<16, 32>>>(f, o);
  cudaDeviceSynchronize();
  printf("%d %d\n", o[15], f[16]);
  for (int i = 1; i < 20; i++) f[i] = 0;
  backwards<<<16, 32>>>(f, o);
  cudaDeviceSynchronize();
  printf("%d %d\n", o[15], f[16]);
  in_a_block<<<1, 64>>>(x);
  cudaDeviceSynchronize();
  printf("%d\n", x[0]);
  locked<<<8, 64>>>(s, s + 1);
  one_of_a_block<<<8, 64>>>(s + 2, s + 3);
  cudaDeviceSynchronize();
  printf("%d %d\n", s[1], s[3]);
  meet<<<8, 32>>>(c, x, o);
  cudaDeviceSynchronize();
  printf("%d %d\n", o[0], o[255]);
  for (int i = 0; i < 256; i++) y[i] = i;
  counted<<<1, 64>>>(y);
  cudaDeviceSynchronize();
  printf("%g\n", y[0]);
}
