// Branches that lanes of a warp part at, some of which meet inside.
#include <cstdio>
__global__ void stencil(const float *x, float *y, int n) {
  volatile __shared__ float s[34];
  int t = threadIdx.x, i = blockIdx.x * 32 + t;
  s[t + 1] = x[i];
  if (t < 1) { s[0] = i > 0 ? x[i - 1] : 0; s[33] = i + 32 < n ? x[i + 32] : 0; }
  __syncthreads();
  y[i] = s[t] + s[t + 1] + s[t + 2];
}
__global__ void halves(const float *x, float *y, float *z) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, l = threadIdx.x & 31;
  float v = x[i];
  if (l < 16) {
    for (int o = 8; o > 0; o >>= 1) v += __shfl_xor_sync(0xffffu, v, o);
    y[i] = v;
  } else {
    v *= 2;
    if (__any_sync(0xffff0000u, v > 1000)) z[i] = 1;
    y[i] = v;
  }
}
__global__ void tail(volatile float *x, float *y) {
  volatile __shared__ float s[64];
  int t = threadIdx.x;
  s[t] = x[t];
  __syncthreads();
  if (t < 16) {
    s[t] += s[t + 16];
    s[t] += s[t + 8];
    s[t] += s[t + 4];
    s[t] += s[t + 2];
    s[t] += s[t + 1];
  }
  if (t == 0) *y = s[0];
}
int main() {
  int n = 1024; float *x, *y, *z; cudaMallocManaged(&x, n*4); cudaMallocManaged(&y, n*4); cudaMallocManaged(&z, n*4);
  for (int i=0;i<n;i++) x[i]=i;
  stencil<<<n/32,32>>>(x,y,n); cudaDeviceSynchronize(); printf("%g %g %g\n", y[0], y[1], y[1000]);
  halves<<<n/64,64>>>(x,y,z); cudaDeviceSynchronize(); printf("%g %g %g %g %g\n", y[0], y[47], y[1008], z[495], z[511]);
  tail<<<1,64>>>(x,y); cudaDeviceSynchronize(); printf("%g\n", y[0]);
}
