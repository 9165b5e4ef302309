// The device that a program sees: one, of compute capability 8.0, with this machine's cores as multiprocessors.
#include "watch.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

namespace {
const int major_version = 8, minor_version = 0, threads_per_block = 1024, registers = 65536;
const size_t shared_bytes = 48 << 10, most_shared_bytes = 164 << 10;
size_t limits[8] = {256 << 10, 1 << 20, 8 << 20, 2, 2048, 64, 0, 0};
unsigned int device_flags;

int cores() {
  long number = sysconf(_SC_NPROCESSORS_ONLN);
  return number < 1 ? 1 : (int)number;
}

void describe(cudaDeviceProp *p) {
  memset(p, 0, sizeof *p);
  snprintf(p->name, sizeof p->name, "Weft: %d cores of this machine", cores());
  size_t free_bytes;
  cudaMemGetInfo(&free_bytes, &p->totalGlobalMem);
  p->sharedMemPerBlock = shared_bytes, p->sharedMemPerBlockOptin = p->sharedMemPerMultiprocessor = most_shared_bytes;
  p->regsPerBlock = p->regsPerMultiprocessor = registers;
  p->warpSize = 32;
  p->memPitch = 0x7fffffff;
  p->maxThreadsPerBlock = threads_per_block, p->maxThreadsPerMultiProcessor = 2048, p->maxBlocksPerMultiProcessor = 32;
  p->maxThreadsDim[0] = p->maxThreadsDim[1] = 1024, p->maxThreadsDim[2] = 64;
  p->maxGridSize[0] = 0x7fffffff, p->maxGridSize[1] = p->maxGridSize[2] = 65535;
  p->clockRate = 2000000, p->memoryClockRate = 1600000, p->memoryBusWidth = 128;
  p->totalConstMem = 64 << 10;
  p->major = major_version, p->minor = minor_version;
  p->textureAlignment = 512, p->texturePitchAlignment = 32, p->surfaceAlignment = 512;
  p->multiProcessorCount = cores();
  p->integrated = p->canMapHostMemory = p->unifiedAddressing = p->managedMemory = p->concurrentManagedAccess = 1;
  p->pageableMemoryAccess = p->concurrentKernels = p->deviceOverlap = p->asyncEngineCount = p->cooperativeLaunch = 1;
  p->maxTexture1D = p->maxTexture1DLinear = 1 << 27;
  p->maxTexture2D[0] = p->maxTexture2D[1] = 1 << 16;
  p->maxTexture3D[0] = p->maxTexture3D[1] = p->maxTexture3D[2] = 1 << 14;
  p->l2CacheSize = 4 << 20;
  p->memoryPoolsSupported = p->canUseHostPointerForRegisteredMem = p->pageableMemoryAccessUsesHostPageTables = 1;
  p->directManagedMemAccessFromHost = p->hostNativeAtomicSupported = 1;
  p->singleToDoublePrecisionPerfRatio = 2;
  p->maxTexture1DLayered[0] = 1 << 15, p->maxTexture1DLayered[1] = 2048;
  p->maxTexture2DLayered[0] = p->maxTexture2DLayered[1] = 1 << 15, p->maxTexture2DLayered[2] = 2048;
}
}  // namespace

extern "C" {
cudaError_t cudaGetDeviceCount(int *count) {
  *count = 1;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int *device) {
  *device = 0;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) { return device == 0 ? cudaSuccess : weft_fail(cudaErrorInvalidDevice); }
cudaError_t cudaSetValidDevices(int *, int) { return cudaSuccess; }
cudaError_t cudaGetDeviceProperties(cudaDeviceProp *properties, int device) {
  if (device != 0) return weft_fail(cudaErrorInvalidDevice);
  describe(properties);
  return cudaSuccess;
}
cudaError_t cudaChooseDevice(int *device, const cudaDeviceProp *) { return cudaGetDevice(device); }
cudaError_t cudaDeviceGetByPCIBusId(int *device, const char *) { return cudaGetDevice(device); }
cudaError_t cudaDeviceGetPCIBusId(char *id, int size, int) {
  snprintf(id, (size_t)size, "0000:00:00.0");
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int device) {
  cudaDeviceProp p;
  if (cudaGetDeviceProperties(&p, device) != cudaSuccess) return cudaErrorInvalidDevice;
  switch (attribute) {
#define WEFT_VALUE(name, driver_name, number, given) case cudaDevAttr##name: *value = given; break;
    WEFT_DEVICE_ATTRIBUTES(WEFT_VALUE)
#undef WEFT_VALUE
    default: return weft_fail(cudaErrorInvalidValue);
  }
  return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize() { return weft_failure(); }
cudaError_t cudaThreadSynchronize() { return weft_failure(); }
cudaError_t cudaDeviceReset() {
  if (weft_watching) weft_watch_reset();
  return cudaSuccess;
}
cudaError_t cudaThreadExit() { return cudaSuccess; }
cudaError_t cudaSetDeviceFlags(unsigned int flags) {
  device_flags = flags;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceFlags(unsigned int *flags) {
  *flags = device_flags;
  return cudaSuccess;
}
cudaError_t cudaDeviceSetLimit(cudaLimit limit, size_t value) {
  if ((unsigned int)limit > 7) return weft_fail(cudaErrorUnsupportedLimit);
  limits[limit] = value;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetLimit(size_t *value, cudaLimit limit) {
  if ((unsigned int)limit > 7) return weft_fail(cudaErrorUnsupportedLimit);
  *value = limits[limit];
  return cudaSuccess;
}
cudaError_t cudaDeviceSetCacheConfig(cudaFuncCache) { return cudaSuccess; }
cudaError_t cudaDeviceGetCacheConfig(cudaFuncCache *config) {
  *config = cudaFuncCachePreferNone;
  return cudaSuccess;
}
cudaError_t cudaThreadSetCacheConfig(cudaFuncCache) { return cudaSuccess; }
cudaError_t cudaDeviceSetSharedMemConfig(cudaSharedMemConfig) { return cudaSuccess; }
cudaError_t cudaDeviceGetSharedMemConfig(cudaSharedMemConfig *config) {
  *config = cudaSharedMemBankSizeFourByte;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
  *least = *greatest = 0;
  return cudaSuccess;
}
cudaError_t cudaDeviceCanAccessPeer(int *can, int, int) {
  *can = 0;
  return cudaSuccess;
}
cudaError_t cudaDeviceEnablePeerAccess(int, unsigned int) { return weft_fail(cudaErrorInvalidDevice); }
cudaError_t cudaDeviceDisablePeerAccess(int) { return weft_fail(cudaErrorPeerAccessNotEnabled); }
cudaError_t cudaDeviceGetP2PAttribute(int *, cudaDeviceP2PAttr, int, int) { return weft_fail(cudaErrorInvalidDevice); }
cudaError_t cudaDriverGetVersion(int *version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int *version) { return cudaDriverGetVersion(version); }
cudaError_t cudaProfilerStart() { return cudaSuccess; }
cudaError_t cudaProfilerStop() { return cudaSuccess; }

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *attributes, const void *) {
  *attributes = cudaFuncAttributes{0, 0, 0, threads_per_block, 32, 80, 80, 0, (int)shared_bytes, -1};
  return cudaSuccess;
}
cudaError_t cudaFuncSetAttribute(const void *, cudaFuncAttribute attribute, int value) {
  bool is_too_much = attribute == cudaFuncAttributeMaxDynamicSharedMemorySize && value > (int)most_shared_bytes;
  return is_too_much ? weft_fail(cudaErrorInvalidValue) : cudaSuccess;
}
cudaError_t cudaFuncSetCacheConfig(const void *, cudaFuncCache) { return cudaSuccess; }
cudaError_t cudaFuncSetSharedMemConfig(const void *, cudaSharedMemConfig) { return cudaSuccess; }
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *, int block, size_t dynamic_bytes) {
  int by_threads = block > 0 ? 2048 / block : 0;
  int by_shared = dynamic_bytes ? (int)(most_shared_bytes / dynamic_bytes) : 32;
  *blocks = by_threads < by_shared ? by_threads : by_shared;
  if (*blocks > 32) *blocks = 32;
  return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, const void *function, int block,
                                                                   size_t dynamic_bytes, unsigned int) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, function, block, dynamic_bytes);
}
cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(size_t *bytes, const void *, int blocks, int) {
  if (blocks < 1) return weft_fail(cudaErrorInvalidValue);
  *bytes = most_shared_bytes / blocks;
  return cudaSuccess;
}
cudaError_t weft_occupancy(int *grid, int *block, const void *function, size_t dynamic_bytes, int limit) {
  *block = limit > 0 && limit < threads_per_block ? limit : threads_per_block;
  int blocks;
  cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, function, *block, dynamic_bytes);
  *grid = blocks * cores();
  return cudaSuccess;
}
}
