// Sums, products, quotients and roots rounded in every direction against the host's own rounding; groups of any kind,
// shuffles of records, parts by label.
#include <cfenv>
#include <cmath>
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cstdio>
#include <curand_kernel.h>
#include <vector>
namespace cg = cooperative_groups;
template <typename T> struct Rounded { T down[5], up[5], zero[5]; };
#define ALL(letter, type, mode, to) \
  to[0] = __##letter##add_##mode(x, y), to[1] = __##letter##sub_##mode(x, y), to[2] = __##letter##mul_##mode(x, y), \
  to[3] = __##letter##div_##mode(x, y), to[4] = __##letter##sqrt_##mode(x < 0 ? -x : x);
#define KERNEL(letter, type) \
  __global__ void rounded(const type *xs, const type *ys, Rounded<type> *out, int n) { \
    int i = blockIdx.x * blockDim.x + threadIdx.x; \
    if (i >= n) return; \
    type x = xs[i], y = ys[i]; \
    ALL(letter, type, rd, out[i].down) ALL(letter, type, ru, out[i].up) ALL(letter, type, rz, out[i].zero) \
  }
KERNEL(f, float)
KERNEL(d, double)
template <typename T> int wrong(const T *got, T x, T y, int mode) {
  volatile T a = x, b = y;
  std::fesetround(mode);
  volatile T expected[5] = {a + b, a - b, a * b, a / b, std::sqrt(a < 0 ? -a : a)};
  std::fesetround(FE_TONEAREST);
  int count = 0;
  for (int i = 0; i < 5; i++) count += got[i] != expected[i];
  return count;
}
template <typename T> int rounding() {
  const int n = 4000;
  T *x, *y;
  Rounded<T> *out;
  cudaMallocManaged(&x, n * sizeof(T)), cudaMallocManaged(&y, n * sizeof(T)), cudaMallocManaged(&out, n * sizeof *out);
  unsigned state = 1;
  auto draw = [&] { return state = state * 1664525u + 1013904223u, (T)(int)state * (T)std::ldexp(1.0, (int)(state >> 9) % 30 - 40); };
  for (int i = 0; i < n; i++) x[i] = i % 7 ? draw() : (T)(i / 7), y[i] = i % 5 ? draw() : (T)(1 + i / 5);
  rounded<<<(n + 127) / 128, 128>>>(x, y, out, n);
  cudaDeviceSynchronize();
  int count = 0;
  for (int i = 0; i < n; i++)
    count += wrong(out[i].down, x[i], y[i], FE_DOWNWARD) + wrong(out[i].up, x[i], y[i], FE_UPWARD) +
             wrong(out[i].zero, x[i], y[i], FE_TOWARDZERO);
  return count;
}
struct Large { uint4 a; double b; char c; };
__device__ int sum(cg::thread_group group, int *scratch, int value) {
  unsigned rank = group.thread_rank();
  for (unsigned i = group.size() / 2; i > 0; i /= 2) {
    scratch[rank] = value;
    group.sync();
    if (rank < i) value += scratch[rank + i];
    group.sync();
  }
  return value;
}
__global__ void groups(int *out) {
  __shared__ int scratch[64];
  cg::thread_block block = cg::this_thread_block();
  int all = sum(block, scratch, threadIdx.x);
  cg::thread_group eight = cg::tiled_partition(block, 8), two = cg::tiled_partition(eight, 2);
  int few = sum(eight, scratch + threadIdx.x / 8 * 8, threadIdx.x), pair = sum(two, scratch + threadIdx.x / 2 * 2, threadIdx.x);
  auto tile = cg::tiled_partition<32>(block);
  Large mine = {make_uint4(threadIdx.x, 1, 2, threadIdx.x * 3), threadIdx.x + 0.5, (char)threadIdx.x};
  Large theirs = tile.shfl(mine, 5);
  cg::coalesced_group same = cg::labeled_partition(tile, threadIdx.x % 3);
  int most = cg::reduce(same, (int)threadIdx.x, cg::greater<int>());
  if (threadIdx.x == 40) out[0] = few, out[1] = theirs.a.w + (int)(2 * theirs.b) + theirs.c, out[2] = most, out[3] = same.size();
  if (threadIdx.x == 0) out[4] = all;
  if (threadIdx.x == 6) out[5] = pair;
}
__global__ void normals(double *out) {
  curandState state;
  curand_init(7, blockIdx.x * blockDim.x + threadIdx.x, 0, &state);
  for (int k = 0; k < 4; k++) out[(blockIdx.x * blockDim.x + threadIdx.x) * 4 + k] = curand_normal_double(&state);
}
int main() {
  printf("%d %d\n", rounding<float>(), rounding<double>());
  int *out;
  cudaMallocManaged(&out, 64);
  groups<<<1, 64>>>(out);
  cudaDeviceSynchronize();
  printf("%d %d %d %d %d %d\n", out[0], out[1], out[2], out[3], out[4], out[5]);
  double *drawn, mean = 0, square = 0;
  cudaMallocManaged(&drawn, 4096 * 8);
  normals<<<8, 128>>>(drawn);
  cudaDeviceSynchronize();
  for (int i = 0; i < 4096; i++) mean += drawn[i] / 4096, square += drawn[i] * drawn[i] / 4096;
  printf("%d\n", fabs(mean) < 0.05 && fabs(square - 1) < 0.08 && drawn[0] != drawn[1]);
}
