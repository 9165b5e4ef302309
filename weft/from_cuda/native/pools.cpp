// Pools of memory: what they are told is kept, and memory comes from where all of it comes from.
#include "weft_cuda.h"
#include <stdlib.h>

struct cudaMemPool { uint64_t attributes[9]; };

namespace {
cudaMemPool device_pool = {{0, 1, 1, 1}}, *current = &device_pool;
// Attributes up to here are ints, the others 64-bit numbers.
const int last_int = cudaMemPoolReuseAllowInternalDependencies;
bool is_attribute(cudaMemPoolAttr attribute) { return attribute > 0 && attribute < 9; }
}  // namespace

extern "C" {
cudaError_t cudaMallocFromPoolAsync(void **at, size_t bytes, cudaMemPool_t, cudaStream_t stream) {
  return cudaMallocAsync(at, bytes, stream);
}
cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *pool, int) { return *pool = &device_pool, cudaSuccess; }
cudaError_t cudaDeviceGetMemPool(cudaMemPool_t *pool, int) { return *pool = current, cudaSuccess; }
cudaError_t cudaDeviceSetMemPool(int, cudaMemPool_t pool) { return current = pool, cudaSuccess; }
cudaError_t cudaMemPoolCreate(cudaMemPool_t *pool, const cudaMemPoolProps *properties) {
  if (properties->handleTypes != cudaMemHandleTypeNone) {  // for other processes
    weft_unsupported("cudaMemPoolCreate", "memory of other processes", "cudaErrorNotSupported", cudaErrorNotSupported);
    return weft_fail(cudaErrorNotSupported);
  }
  *pool = (cudaMemPool_t)malloc(sizeof(cudaMemPool));
  if (!*pool) return weft_fail(cudaErrorMemoryAllocation);
  **pool = cudaMemPool{{0, 1, 1, 1}};
  return cudaSuccess;
}
cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) {
  if (current == pool) current = &device_pool;
  if (pool != &device_pool) free(pool);
  return cudaSuccess;
}
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void *value) {
  if (!is_attribute(attribute)) return weft_fail(cudaErrorInvalidValue);
  pool->attributes[attribute] = attribute <= last_int ? (uint64_t)*(int *)value : *(uint64_t *)value;
  return cudaSuccess;
}
cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void *value) {
  if (!is_attribute(attribute)) return weft_fail(cudaErrorInvalidValue);
  if (attribute <= last_int) *(int *)value = (int)pool->attributes[attribute];
  else *(uint64_t *)value = pool->attributes[attribute];
  return cudaSuccess;
}
cudaError_t cudaMemPoolSetAccess(cudaMemPool_t, const cudaMemAccessDesc *, size_t) { return cudaSuccess; }
cudaError_t cudaMemPoolTrimTo(cudaMemPool_t, size_t) { return cudaSuccess; }
}
