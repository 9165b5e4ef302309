// Calls of the runtime API: copies of two and three dimensions, arrays, textures, surfaces, mapped and managed memory,
// callbacks, peers, errors.
#include <cstdio>
#include <cstring>
#include <cufft.h>
const int w = 8, h = 6, d = 4;
__global__ void read_2d(cudaTextureObject_t t, float *out) {
  int x = threadIdx.x, y = blockIdx.x;
  out[y * w + x] = tex2D<float>(t, x + 0.5f, y + 0.5f);
}
__global__ void read_3d(cudaTextureObject_t t, float *out) {
  int x = threadIdx.x, y = blockIdx.x, z = blockIdx.y;
  out[(z * h + y) * w + x] = tex3D<float>(t, x + 0.5f, y + 0.5f, z + 0.5f);
}
__global__ void between(cudaTextureObject_t t, float *out) { out[threadIdx.x] = tex2D<float>(t, threadIdx.x + 1.0f, 2.5f); }
__global__ void turn(cudaSurfaceObject_t from, cudaSurfaceObject_t to) {
  int x = threadIdx.x, y = blockIdx.x;
  float value;
  surf2Dread(&value, from, x * 4, y);
  surf2Dwrite(value + 100, to, (w - 1 - x) * 4, y);
}
__global__ void twice(int *x) { x[threadIdx.x] *= 2; }
cudaTextureObject_t sampled(cudaArray_t array, cudaTextureFilterMode filter, cudaTextureAddressMode mode = cudaAddressModeClamp) {
  cudaResourceDesc resource = {};
  resource.resType = cudaResourceTypeArray, resource.res.array.array = array;
  cudaTextureDesc how = {};
  for (int i = 0; i < 3; i++) how.addressMode[i] = mode;
  how.filterMode = filter, how.readMode = cudaReadModeElementType;
  cudaTextureObject_t made;
  cudaCreateTextureObject(&made, &resource, &how, nullptr);
  return made;
}
void textures() {
  float host[h * w], *out;
  for (int i = 0; i < h * w; i++) host[i] = i * i % 31;
  cudaMallocManaged(&out, sizeof(float) * w * h * d);
  auto format = cudaCreateChannelDesc<float>();
  cudaArray_t array, other;
  cudaMallocArray(&array, &format, w, h, cudaArraySurfaceLoadStore), cudaMallocArray(&other, &format, w, h, cudaArraySurfaceLoadStore);
  cudaMemcpy2DToArray(array, 0, 0, host, w * 4, w * 4, h, cudaMemcpyHostToDevice);
  read_2d<<<h, w>>>(sampled(array, cudaFilterModePoint), out);
  int wrong = memcmp(out, host, sizeof host) != 0;
  between<<<1, w - 2>>>(sampled(array, cudaFilterModeLinear), out);
  for (int x = 0; x < w - 2; x++) wrong += out[x] != (host[2 * w + x] + host[2 * w + x + 1]) / 2;
  cudaResourceDesc resource = {};
  resource.resType = cudaResourceTypeArray;
  cudaSurfaceObject_t from, to;
  resource.res.array.array = array, cudaCreateSurfaceObject(&from, &resource);
  resource.res.array.array = other, cudaCreateSurfaceObject(&to, &resource);
  turn<<<h, w>>>(from, to);
  float back[h * w];
  cudaMemcpy2DFromArray(back, w * 4, other, 0, 0, w * 4, h, cudaMemcpyDeviceToHost);
  for (int y = 0; y < h; y++)
    for (int x = 0; x < w; x++) wrong += back[y * w + x] != host[y * w + w - 1 - x] + 100;
  // A box of a pitched block into an array of three dimensions, each at a place of its own, and all of it back.
  cudaPitchedPtr block;
  cudaMalloc3D(&block, make_cudaExtent(w * 4, h, d));
  float numbers[d * h * w];
  for (int i = 0; i < d * h * w; i++) numbers[i] = i / (h * w) * 100 + i / w % h * 10 + i % w;
  cudaMemcpy2D(block.ptr, block.pitch, numbers, w * 4, w * 4, h * d, cudaMemcpyHostToDevice);
  cudaArray_t deep;
  cudaMalloc3DArray(&deep, &format, make_cudaExtent(w, h, d));
  cudaMemcpy3DParms all = {}, box = {};
  float zeros[d * h * w] = {};
  all.srcPtr = make_cudaPitchedPtr(zeros, w * 4, w * 4, h), all.dstArray = deep;
  all.extent = make_cudaExtent(w, h, d), all.kind = cudaMemcpyHostToDevice;
  cudaMemcpy3D(&all);
  box.srcPtr = block, box.srcPos = make_cudaPos(2, 1, 1);   // elements too, where an array takes part
  box.dstArray = deep, box.dstPos = make_cudaPos(3, 2, 0);
  box.extent = make_cudaExtent(4, 3, 2), box.kind = cudaMemcpyDeviceToDevice;
  cudaMemcpy3D(&box);
  read_3d<<<dim3(h, d), w>>>(sampled(deep, cudaFilterModePoint), out);
  for (int z = 0; z < d; z++)
    for (int y = 0; y < h; y++)
      for (int x = 0; x < w; x++) {
        bool is_inside = x >= 3 && x < 7 && y >= 2 && y < 5 && z < 2;
        wrong += out[(z * h + y) * w + x] != (is_inside ? (z + 1) * 100 + (y - 1) * 10 + x - 1 : 0);
      }
  printf("%d wrong\n", wrong);
}
void told(cudaStream_t, cudaError_t status, void *data) { *(int *)data += status == cudaSuccess; }
void memory() {
  int *mapped, *seen, calls = 0, can = 1, local;
  cudaHostAlloc(&mapped, 64, cudaHostAllocMapped), cudaHostGetDevicePointer(&seen, mapped, 0);
  for (int i = 0; i < 16; i++) mapped[i] = i;
  twice<<<1, 16>>>(seen);
  cudaStreamAddCallback(0, told, &calls, 0), cudaStreamSynchronize(0);
  cudaDeviceCanAccessPeer(&can, 0, 0);
  cudaPointerAttributes of_mapped, of_local;
  cudaPointerGetAttributes(&of_mapped, seen), cudaPointerGetAttributes(&of_local, &local);
  printf("%d %d %d %d %d\n", mapped[15], calls, can, of_mapped.type == cudaMemoryTypeHost,
         of_local.type == cudaMemoryTypeUnregistered && !of_local.devicePointer);
}
void errors() {
  int *x;
  cudaMalloc(&x, 64);
  cudaError_t copied = cudaMemcpy(x, nullptr, 64, cudaMemcpyHostToDevice);
  cudaError_t waited = cudaDeviceSynchronize();  // no kernel failed
  cudaError_t last = cudaGetLastError();
  twice<<<dim3(1, 70000), 16>>>(x);
  cudaError_t launched = cudaGetLastError(), cleared = cudaGetLastError();
  printf("%s %s %s %s %s\n", cudaGetErrorName(copied), cudaGetErrorName(waited), cudaGetErrorName(last),
         cudaGetErrorName(launched), cudaGetErrorName(cleared));
}
void transforms() {
  cufftHandle plan, same;
  size_t bytes;
  cufftComplex *x, *y;
  cudaMallocManaged(&x, 16 * 8), cudaMallocManaged(&y, 16 * 8);
  for (int i = 0; i < 16; i++) x[i] = y[i] = {(float)(i * i % 7), (float)(i % 3)};
  cufftPlan1d(&plan, 8, CUFFT_C2C, 2), cufftExecC2C(plan, x, x, CUFFT_FORWARD);
  cufftCreate(&same), cufftMakePlan1d(same, 8, CUFFT_C2C, 2, &bytes), cufftExecC2C(same, y, y, CUFFT_FORWARD);
  printf("%d %d\n", memcmp(x, y, 16 * 8), cufftMakePlan1d(99, 8, CUFFT_C2C, 1, &bytes) == CUFFT_INVALID_PLAN);
}
int main() { textures(), memory(), errors(), transforms(); }
