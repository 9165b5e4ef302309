// Lambdas of the host as arguments of kernels: copies, an object around, variables of their own, two types.
#include <cstdio>

template <typename F> __global__ void each(int n, F f) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) f(i);
}
template <typename F> __device__ float twice(const F &f, int i) { return f(i) + f(i); }
template <typename F> __global__ void sums(float *y, int n, F f) {
  int i = threadIdx.x;
  if (i < n) y[i] += twice(f, i);
}

struct Scaled {
  float *p, by;
  void own(int n) { each<<<1, 32>>>(n, [=, *this] __device__(int i) { p[i] *= by + n; }); }
};

template <typename T> void add(T *x, int n, T a) {
  each<<<2, 16>>>(n, [x, b = a + 1, n] __device__(int i) { x[i] += b * n; });
}

int main() {
  const int n = 20;
  float *x, host[n];
  double *d, hosts[n];
  cudaMalloc(&x, sizeof host), cudaMalloc(&d, sizeof hosts);
  float a = 2.5f;
  each<<<1, 32>>>(n, [=] __device__(int i) { x[i] = a * i, d[i] = i; });
  auto more = [x, n] __host__ __device__(int i) { return i + 1 < n ? x[i + 1] : 1.0f; };
  sums<<<1, 32>>>(x + 10, 5, [more] __device__(int i) { return more(i) / 2; });
  Scaled{x, 3}.own(n);
  add(x, n, 0.5f), add(d, n, 0.25);
  cudaMemcpy(host, x, sizeof host, cudaMemcpyDeviceToHost), cudaMemcpy(hosts, d, sizeof hosts, cudaMemcpyDeviceToHost);
  for (int i = 0; i < n; i++) printf("%g %g\n", host[i], hosts[i]);
  cudaFree(x), cudaFree(d);
}
