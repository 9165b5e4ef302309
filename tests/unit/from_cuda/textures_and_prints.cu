// Textures and surfaces of all modes, and printf: whole grids and threads one by one must say the same.
#include <cstdio>
#include <cmath>
#include <cuda_runtime.h>
texture<float, 2, cudaReadModeElementType> ref;
texture<uint4, 2, cudaReadModeElementType> nodes;
__global__ void by_ref(float *out, int w, int h, float a) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x < w && y < h) out[y * w + x] = tex2D(ref, x * a - 3.0f, y * a + 1.5f);
}
__global__ void by_object(cudaTextureObject_t t, float *out, int w, int h, float a) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x < w && y < h) out[y * w + x] = tex2D<float>(t, x * a - 0.3f, y * a + 0.1f);
}
__global__ void vectors(cudaTextureObject_t t, float4 *out, int n) {
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  if (x < n) out[x] = tex3D<float4>(t, x * 0.3f, x * 0.7f - 2, x * 0.1f);
}
__global__ void whole(unsigned *out, int w) {
  int x = threadIdx.x;
  uint4 v = tex2D(nodes, x % w, x / w);
  out[x] = v.x + 2 * v.y + 3 * v.z + 5 * v.w;
}
__global__ void surfaces(cudaSurfaceObject_t in, cudaSurfaceObject_t to, int w, int h) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= w || y >= h) return;
  float v; surf2Dread(&v, in, x * 4, y);
  surf2Dwrite(v * 2 + x, to, x * 4, y);
}
__global__ void bytes(cudaTextureObject_t t, float *out) { out[threadIdx.x] = tex1D<float>(t, threadIdx.x * 0.5f); }
__global__ void says(const float *x, int n, long long big) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  if (x[i] > 2.5f) printf("thread %d of block %3u: %8.3f %s|%5s|%-5s| %c %lld %x %e %%\n", i, blockIdx.x, x[i], "text", "ab", "cd", 'a' + i % 26, big + i, i, (double)x[i] / 3);
  for (int k = 0; k < i % 3; k++) printf("  %d: %*d %.*f\n", i, 5, k, 2, x[i]);
  __syncthreads();
  if (i == 0) printf("done \033[1m %g \"%s\"\n", 1e30, "\tq\\");
}
__global__ void hello() { printf("hello from %d\n", threadIdx.x); }
static float host[4096];
static float4 host4[1024];
static double sum(const float *v, int n) { double s = 0; for (int i = 0; i < n; i++) s += v[i] * (i % 7 + 1); return s; }
static void prints() {
  float h[100], *d; for (int i = 0; i < 100; i++) h[i] = i % 7 - 1.5f;
  cudaMalloc(&d, 400); cudaMemcpy(d, h, 400, cudaMemcpyHostToDevice);
  printf("before\n");
  says<<<4, 32>>>(d, 100, 1ll << 40);
  hello<<<1, 5>>>();
  cudaDeviceSynchronize();
  printf("after\n");
}
int main() {
  prints();
  const int W = 37, H = 23;
  cudaArray_t array; cudaChannelFormatDesc d = cudaCreateChannelDesc<float>();
  cudaMallocArray(&array, &d, W, H, cudaArraySurfaceLoadStore);
  for (int i = 0; i < W * H; i++) host[i] = sinf(i) * 10;
  cudaMemcpy2DToArray(array, 0, 0, host, W * 4, W * 4, H, cudaMemcpyHostToDevice);
  float *out; cudaMalloc(&out, 64 * 64 * 16);
  dim3 b(16, 8), g(4, 8);
  for (int mode = 0; mode < 4; mode++) for (int linear = 0; linear < 2; linear++) for (int unit = 0; unit < 2; unit++) {
    ref.addressMode[0] = ref.addressMode[1] = (cudaTextureAddressMode)mode;
    ref.filterMode = linear ? cudaFilterModeLinear : cudaFilterModePoint; ref.normalized = unit;
    cudaBindTextureToArray(ref, array, d);
    by_ref<<<g, b>>>(out, 64, 64, unit ? 0.11f : 0.8f);
    cudaMemcpy(host, out, 64 * 64 * 4, cudaMemcpyDeviceToHost);
    printf("ref %d %d %d %.4f\n", mode, linear, unit, sum(host, 4096));
    cudaResourceDesc r = {}; r.resType = cudaResourceTypeArray; r.res.array.array = array;
    cudaTextureDesc td = {}; td.addressMode[0] = td.addressMode[1] = (cudaTextureAddressMode)mode;
    td.filterMode = linear ? cudaFilterModeLinear : cudaFilterModePoint; td.normalizedCoords = unit;
    cudaTextureObject_t t; cudaCreateTextureObject(&t, &r, &td, nullptr);
    by_object<<<g, b>>>(t, out, 64, 64, unit ? 0.03f : 0.6f);
    cudaMemcpy(host, out, 64 * 64 * 4, cudaMemcpyDeviceToHost);
    printf("object %d %d %d %.4f\n", mode, linear, unit, sum(host, 4096));
    cudaDestroyTextureObject(t);
  }
  cudaArray_t box; cudaChannelFormatDesc d4 = cudaCreateChannelDesc<float4>();
  cudaMalloc3DArray(&box, &d4, make_cudaExtent(8, 8, 8));
  for (int i = 0; i < 512; i++) host4[i] = make_float4(i, -i, i * 0.5f, cosf(i));
  cudaMemcpy3DParms p = {}; p.srcPtr = make_cudaPitchedPtr(host4, 8 * 16, 8, 8); p.dstArray = box;
  p.extent = make_cudaExtent(8, 8, 8); p.kind = cudaMemcpyHostToDevice; cudaMemcpy3D(&p);
  for (int linear = 0; linear < 2; linear++) {
    cudaResourceDesc r = {}; r.resType = cudaResourceTypeArray; r.res.array.array = box;
    cudaTextureDesc td = {}; td.addressMode[0] = cudaAddressModeWrap; td.addressMode[1] = cudaAddressModeClamp; td.addressMode[2] = cudaAddressModeMirror;
    td.filterMode = linear ? cudaFilterModeLinear : cudaFilterModePoint;
    cudaTextureObject_t t; cudaCreateTextureObject(&t, &r, &td, nullptr);
    vectors<<<4, 32>>>(t, (float4 *)out, 100);
    cudaMemcpy(host, out, 1600, cudaMemcpyDeviceToHost);
    printf("vectors %d %.4f\n", linear, sum(host, 400));
  }
  cudaArray_t table; cudaChannelFormatDesc du = cudaCreateChannelDesc<uint4>();
  cudaMallocArray(&table, &du, 8, 4);
  cudaMemcpy2DToArray(table, 0, 0, host4, 128, 128, 4, cudaMemcpyHostToDevice);
  nodes.filterMode = cudaFilterModePoint; cudaBindTextureToArray(nodes, table, du);
  whole<<<1, 32>>>((unsigned *)out, 8);
  unsigned u[32]; cudaMemcpy(u, out, 128, cudaMemcpyDeviceToHost);
  unsigned total = 0; for (int i = 0; i < 32; i++) total = total * 3 + u[i]; printf("whole %u\n", total);
  cudaArray_t other; cudaMallocArray(&other, &d, W, H, cudaArraySurfaceLoadStore);
  cudaResourceDesc r = {}; r.resType = cudaResourceTypeArray; r.res.array.array = array;
  cudaSurfaceObject_t s, s2; cudaCreateSurfaceObject(&s, &r); r.res.array.array = other; cudaCreateSurfaceObject(&s2, &r);
  surfaces<<<g, b>>>(s, s2, W, H); surfaces<<<g, b>>>(s2, s2, W, H);
  cudaMemcpy2DFromArray(host, W * 4, other, 0, 0, W * 4, H, cudaMemcpyDeviceToHost);
  printf("surfaces %.4f\n", sum(host, W * H));
  unsigned char c[64]; for (int i = 0; i < 64; i++) c[i] = i * 4; unsigned char *dc; cudaMalloc(&dc, 64); cudaMemcpy(dc, c, 64, cudaMemcpyHostToDevice);
  cudaArray_t ca; cudaChannelFormatDesc dd = cudaCreateChannelDesc<unsigned char>(); cudaMallocArray(&ca, &dd, 64); cudaMemcpyToArray(ca, 0, 0, c, 64, cudaMemcpyHostToDevice);
  cudaResourceDesc rc = {}; rc.resType = cudaResourceTypeArray; rc.res.array.array = ca;
  cudaTextureDesc td = {}; td.addressMode[0] = cudaAddressModeClamp; td.filterMode = cudaFilterModeLinear; td.readMode = cudaReadModeNormalizedFloat;
  cudaTextureObject_t t; cudaCreateTextureObject(&t, &rc, &td, nullptr);
  bytes<<<1, 64>>>(t, out); cudaMemcpy(host, out, 256, cudaMemcpyDeviceToHost); printf("bytes %.4f\n", sum(host, 64));
  printf("%s\n", cudaGetErrorString(cudaGetLastError()));
}
