// The runtime API's C++ forms: typed pointers, symbols by reference, kernels by their type.
#pragma once
#include "cuda_runtime_api.h"

// Without lines of its own, a call of these is where the program has it.
#define WEFT_TYPED static __inline__ __attribute__((nodebug))

template <typename T> WEFT_TYPED cudaError_t cudaMalloc(T **at, size_t bytes) {
  return ::cudaMalloc((void **)at, bytes);
}
template <typename T> WEFT_TYPED cudaError_t cudaMallocHost(T **at, size_t bytes, unsigned int flags = 0) {
  return ::cudaHostAlloc((void **)at, bytes, flags);
}
WEFT_TYPED cudaError_t cudaMallocHost(void **at, size_t bytes, unsigned int flags) {
  return ::cudaHostAlloc(at, bytes, flags);
}
template <typename T> WEFT_TYPED cudaError_t cudaHostAlloc(T **at, size_t bytes, unsigned int flags) {
  return ::cudaHostAlloc((void **)at, bytes, flags);
}
template <typename T>
WEFT_TYPED cudaError_t cudaMallocManaged(T **at, size_t bytes, unsigned int flags = cudaMemAttachGlobal) {
  return ::cudaMallocManaged((void **)at, bytes, flags);
}
template <typename T>
WEFT_TYPED cudaError_t cudaMallocPitch(T **at, size_t *pitch, size_t width, size_t height) {
  return ::cudaMallocPitch((void **)at, pitch, width, height);
}
template <typename T> WEFT_TYPED cudaError_t cudaMallocAsync(T **at, size_t bytes, cudaStream_t stream) {
  return ::cudaMallocAsync((void **)at, bytes, stream);
}
template <typename T>
WEFT_TYPED cudaError_t cudaMallocFromPoolAsync(T **at, size_t bytes, cudaMemPool_t pool, cudaStream_t stream) {
  return ::cudaMallocFromPoolAsync((void **)at, bytes, pool, stream);
}
template <typename T>
WEFT_TYPED cudaError_t cudaHostGetDevicePointer(T **device, void *host, unsigned int flags) {
  return ::cudaHostGetDevicePointer((void **)device, host, flags);
}
template <typename T>
WEFT_TYPED cudaError_t cudaMemcpyToSymbol(const T &symbol, const void *from, size_t bytes, size_t offset = 0,
                                                 enum cudaMemcpyKind kind = cudaMemcpyHostToDevice) {
  return ::cudaMemcpyToSymbol((const void *)&symbol, from, bytes, offset, kind);
}
template <typename T>
WEFT_TYPED cudaError_t cudaMemcpyFromSymbol(void *to, const T &symbol, size_t bytes, size_t offset = 0,
                                                   enum cudaMemcpyKind kind = cudaMemcpyDeviceToHost) {
  return ::cudaMemcpyFromSymbol(to, (const void *)&symbol, bytes, offset, kind);
}
template <typename T>
WEFT_TYPED cudaError_t cudaMemcpyToSymbolAsync(const T &symbol, const void *from, size_t bytes,
                                                      size_t offset = 0,
                                                      enum cudaMemcpyKind kind = cudaMemcpyHostToDevice,
                                                      cudaStream_t stream = 0) {
  return ::cudaMemcpyToSymbolAsync((const void *)&symbol, from, bytes, offset, kind, stream);
}
template <typename T>
WEFT_TYPED cudaError_t cudaMemcpyFromSymbolAsync(void *to, const T &symbol, size_t bytes, size_t offset = 0,
                                                        enum cudaMemcpyKind kind = cudaMemcpyDeviceToHost,
                                                        cudaStream_t stream = 0) {
  return ::cudaMemcpyFromSymbolAsync(to, (const void *)&symbol, bytes, offset, kind, stream);
}
template <typename T> WEFT_TYPED cudaError_t cudaGetSymbolAddress(void **at, const T &symbol) {
  return ::cudaGetSymbolAddress(at, (const void *)&symbol);
}
template <typename T> WEFT_TYPED cudaError_t cudaGetSymbolSize(size_t *bytes, const T &symbol) {
  return ::cudaGetSymbolSize(bytes, (const void *)&symbol);
}

template <typename T>
WEFT_TYPED cudaError_t cudaLaunchKernel(T *function, dim3 grid, dim3 block, void **arguments,
                                               size_t shared_bytes = 0, cudaStream_t stream = 0) {
  return ::cudaLaunchKernel((const void *)function, grid, block, arguments, shared_bytes, stream);
}
template <typename T>
WEFT_TYPED cudaError_t cudaLaunchCooperativeKernel(T *function, dim3 grid, dim3 block, void **arguments,
                                                          size_t shared_bytes = 0, cudaStream_t stream = 0) {
  return ::cudaLaunchCooperativeKernel((const void *)function, grid, block, arguments, shared_bytes, stream);
}
template <typename T> WEFT_TYPED cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *attributes, T *function) {
  return ::cudaFuncGetAttributes(attributes, (const void *)function);
}
template <typename T> WEFT_TYPED cudaError_t cudaFuncSetAttribute(T *function, cudaFuncAttribute which, int value) {
  return ::cudaFuncSetAttribute((const void *)function, which, value);
}
template <typename T> WEFT_TYPED cudaError_t cudaFuncSetCacheConfig(T *function, cudaFuncCache config) {
  return ::cudaFuncSetCacheConfig((const void *)function, config);
}
template <typename T>
WEFT_TYPED cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, T function, int block_size,
                                                                            size_t shared_bytes) {
  return ::cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, (const void *)function, block_size, shared_bytes);
}
template <typename T>
WEFT_TYPED cudaError_t cudaOccupancyMaxPotentialBlockSize(int *grid, int *block, T function,
                                                                 size_t shared_bytes = 0, int limit = 0) {
  return ::weft_occupancy(grid, block, (const void *)function, shared_bytes, limit);
}
template <typename T>
WEFT_TYPED cudaError_t cudaOccupancyMaxPotentialBlockSizeWithFlags(int *grid, int *block, T function,
                                                                          size_t shared_bytes = 0, int limit = 0,
                                                                          unsigned int = 0) {
  return ::weft_occupancy(grid, block, (const void *)function, shared_bytes, limit);
}
// The largest blocks whose shared memory, which depends on their size, there is.
template <typename T, typename Bytes>
WEFT_TYPED cudaError_t cudaOccupancyMaxPotentialBlockSizeVariableSMemWithFlags(int *grid, int *block, T function,
                                                                                      Bytes shared_bytes, int limit = 0,
                                                                                      unsigned int = 0) {
  cudaError_t error = ::weft_occupancy(grid, block, (const void *)function, 0, limit);
  while (!error && *block > 32 && shared_bytes(*block) > 48 << 10) *block = *block / 2 / 32 * 32;
  return error ? error : ::weft_occupancy(grid, block, (const void *)function, shared_bytes(*block), *block);
}
template <typename T, typename Bytes>
WEFT_TYPED cudaError_t cudaOccupancyMaxPotentialBlockSizeVariableSMem(int *grid, int *block, T function,
                                                                             Bytes shared_bytes, int limit = 0) {
  return cudaOccupancyMaxPotentialBlockSizeVariableSMemWithFlags(grid, block, function, shared_bytes, limit);
}
template <typename T>
WEFT_TYPED cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(size_t *bytes, T function, int blocks, int block) {
  return ::cudaOccupancyAvailableDynamicSMemPerBlock(bytes, (const void *)function, blocks, block);
}
template <typename... Parameters, typename... Arguments>
WEFT_TYPED cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t *config, void (*kernel)(Parameters...),
                                                 Arguments &&...arguments) {
  return [&](Parameters... converted) {
    void *places[] = {(void *)&converted..., nullptr};
    return ::cudaLaunchKernelExC(config, (const void *)kernel, places);
  }(static_cast<Arguments &&>(arguments)...);
}
WEFT_TYPED cudaError_t cudaEventCreate(cudaEvent_t *event, unsigned int flags) {
  return ::cudaEventCreateWithFlags(event, flags);
}

WEFT_TYPED cudaExtent make_cudaExtent(size_t width, size_t height, size_t depth) {
  return cudaExtent{width, height, depth};
}
WEFT_TYPED cudaPos make_cudaPos(size_t x, size_t y, size_t z) { return cudaPos{x, y, z}; }
WEFT_TYPED cudaPitchedPtr make_cudaPitchedPtr(void *at, size_t pitch, size_t width, size_t height) {
  return cudaPitchedPtr{at, pitch, width, height};
}
WEFT_TYPED cudaError_t cudaGraphInstantiate(cudaGraphExec_t *made, cudaGraph_t graph, unsigned long long flags = 0) {
  return cudaGraphInstantiateWithFlags(made, graph, flags);
}
WEFT_TYPED cudaError_t cudaGraphInstantiate(cudaGraphExec_t *made, cudaGraph_t graph, cudaGraphNode_t *, char *,
                                                   size_t) {
  return cudaGraphInstantiateWithFlags(made, graph, 0);
}
WEFT_TYPED cudaError_t cudaGraphExecUpdate(cudaGraphExec_t made, cudaGraph_t graph, cudaGraphNode_t *,
                                                  cudaGraphExecUpdateResult *result) {  // as before CUDA 12
  cudaGraphExecUpdateResultInfo info;
  cudaError_t error = ::cudaGraphExecUpdate(made, graph, &info);
  if (result) *result = info.result;
  return error;
}
WEFT_TYPED cudaError_t cudaMemPrefetchAsync(const void *at, size_t bytes, cudaMemLocation location, unsigned int,
                                                   cudaStream_t stream = 0) {  // as from CUDA 13 on
  return ::cudaMemPrefetchAsync(at, bytes, location.id, stream);
}
WEFT_TYPED cudaError_t cudaMemAdvise(const void *at, size_t bytes, cudaMemoryAdvise advice, cudaMemLocation location) {
  return ::cudaMemAdvise(at, bytes, advice, location.id);
}
