#include <cstdio>
#include <cstdint>
#include <cub/cub.cuh>
__managed__ int total;
struct Most {
  template <typename T, typename U> __device__ typename std::common_type<T, U>::type operator()(T &&t, U &&u) const {
    return t > u ? t : u;
  }
};
__global__ void add() { atomicAdd(&total, (int)threadIdx.x); }
__global__ void reduce(const float *x, float *y) {
  typedef cub::BlockReduce<float, 256> R;
  __shared__ typename R::TempStorage t;
  float most = R(t).Reduce(x[threadIdx.x], Most());
  if (threadIdx.x == 0) *y = most;
}
__global__ void ticks(clock_t *t) {
  clock_t a = clock();
  t[threadIdx.x] = clock() - a + 3;
}
template <class T> __device__ bool is_aligned(T *p) { return (uint64_t)p % 16 == 0; }
__global__ void align(float *x, float *y) {
  int i = threadIdx.x;
  y[i] = is_aligned(x) ? x[i] + 1 : x[i] + 2;
}
__global__ void table(float *x) {
  const float primes[] = {2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59};
  x[threadIdx.x] = primes[(threadIdx.x * 5) % 17];
}
template <class T> struct Is { static constexpr bool large = sizeof(T) > 4; };
template <class T> struct Kinds { enum { large = Is<T>::large, two = 2 }; };
template <int N, bool B> struct Box {
  int x;
  __device__ int get() { return x + N + B; }
};
__device__ double2 conjugate(double2 a) { return (double2){a.x, -a.y}; }
__global__ void literals(double2 *x, int *y) {
  x[threadIdx.x] = conjugate(x[threadIdx.x]);
  Box<Kinds<float>::two, Kinds<float>::large> box{3};
  y[threadIdx.x] = Box<Kinds<double>::two, Kinds<double>::large>{4}.get() + box.get();
}
int main() {
  double2 *z;
  int *n;
  cudaMallocManaged(&z, 128);
  cudaMallocManaged(&n, 32);
  z[1] = make_double2(1, 2);
  literals<<<1, 8>>>(z, n);
  cudaDeviceSynchronize();
  printf("%g %d\n", z[1].y, n[0]);
  float *x, *y;
  clock_t *t;
  cudaMallocManaged(&x, 1024);
  cudaMallocManaged(&y, 1024);
  cudaMallocManaged(&t, 64 * sizeof(clock_t));
  for (int i = 0; i < 256; i++) x[i] = i * 37 % 256;
  add<<<1, 32>>>();
  reduce<<<1, 256>>>(x, y);
  ticks<<<1, 64>>>(t);
  cudaDeviceSynchronize();
  printf("%d %g %d\n", total, *y, t[63] >= 3);
  align<<<1, 8>>>(x, y);
  cudaDeviceSynchronize();
  printf("%g %g\n", y[0], y[1]);
  align<<<1, 8>>>(x + 1, y);
  cudaDeviceSynchronize();
  printf("%g\n", y[0]);
  table<<<1, 17>>>(x);
  cudaDeviceSynchronize();
  printf("%g %g %g\n", x[0], x[1], x[16]);
}
