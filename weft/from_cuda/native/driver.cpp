// The driver API in terms of the runtime API: error codes have the same numbers.
#include "codes.h"
#include "cuda.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern "C" {
CUresult cuInit(unsigned int) { return CUDA_SUCCESS; }
CUresult cuDriverGetVersion(int *version) { return (CUresult)cudaDriverGetVersion(version); }
CUresult cuDeviceGetCount(int *count) { return (CUresult)cudaGetDeviceCount(count); }
CUresult cuDeviceGet(CUdevice *device, int ordinal) {
  *device = ordinal;
  return ordinal == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}
CUresult cuDeviceGetName(char *name, int length, CUdevice device) {
  cudaDeviceProp properties;
  CUresult result = (CUresult)cudaGetDeviceProperties(&properties, device);
  if (result == CUDA_SUCCESS && length > 0) strncpy(name, properties.name, (size_t)length)[length - 1] = 0;
  return result;
}
CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice device) {
  cudaDeviceGetAttribute(major, cudaDevAttrComputeCapabilityMajor, device);
  return (CUresult)cudaDeviceGetAttribute(minor, cudaDevAttrComputeCapabilityMinor, device);
}
CUresult cuDeviceTotalMem(size_t *bytes, CUdevice) {
  size_t free_bytes;
  return (CUresult)cudaMemGetInfo(&free_bytes, bytes);
}
CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device) {
  return (CUresult)cudaDeviceGetAttribute(value, (cudaDeviceAttr)attribute, device);
}
CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice) { return memset(uuid, 0, sizeof *uuid), CUDA_SUCCESS; }
CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer) {
  return (CUresult)cudaDeviceCanAccessPeer(can, device, peer);
}
CUresult cuCtxCreate(CUcontext *context, unsigned int, CUdevice) {
  *context = (CUcontext)1;
  return CUDA_SUCCESS;
}
CUresult cuCtxDestroy(CUcontext) { return CUDA_SUCCESS; }
CUresult cuCtxSetCurrent(CUcontext) { return CUDA_SUCCESS; }
CUresult cuCtxGetCurrent(CUcontext *context) { return cuCtxCreate(context, 0, 0); }
CUresult cuCtxSynchronize() { return (CUresult)cudaDeviceSynchronize(); }
CUresult cuMemGetInfo(size_t *free_bytes, size_t *total) { return (CUresult)cudaMemGetInfo(free_bytes, total); }
CUresult cuMemAlloc(CUdeviceptr *at, size_t bytes) { return (CUresult)cudaMalloc((void **)at, bytes); }
CUresult cuMemFree(CUdeviceptr at) { return (CUresult)cudaFree((void *)at); }
CUresult cuMemcpyHtoD(CUdeviceptr to, const void *from, size_t bytes) {
  return (CUresult)cudaMemcpy((void *)to, from, bytes, cudaMemcpyHostToDevice);
}
CUresult cuMemcpyDtoH(void *to, CUdeviceptr from, size_t bytes) {
  return (CUresult)cudaMemcpy(to, (const void *)from, bytes, cudaMemcpyDeviceToHost);
}
CUresult cuMemcpyDtoD(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return (CUresult)cudaMemcpy((void *)to, (const void *)from, bytes, cudaMemcpyDeviceToDevice);
}
CUresult cuMemsetD8(CUdeviceptr at, unsigned char value, size_t number) {
  return (CUresult)cudaMemset((void *)at, value, number);
}
CUresult cuMemsetD32(CUdeviceptr at, unsigned int value, size_t number) {
  for (size_t i = 0; i < number; ++i) ((unsigned int *)at)[i] = value;
  return CUDA_SUCCESS;
}
CUresult cuStreamCreate(CUstream *stream, unsigned int flags) { return (CUresult)cudaStreamCreateWithFlags(stream, flags); }
CUresult cuStreamDestroy(CUstream stream) { return (CUresult)cudaStreamDestroy(stream); }
CUresult cuStreamSynchronize(CUstream stream) { return (CUresult)cudaStreamSynchronize(stream); }
CUresult cuStreamQuery(CUstream stream) { return (CUresult)cudaStreamQuery(stream); }
CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags) {
  return (CUresult)cudaStreamWaitEvent(stream, event, flags);
}
CUresult cuEventCreate(CUevent *event, unsigned int flags) { return (CUresult)cudaEventCreateWithFlags(event, flags); }
CUresult cuEventDestroy(CUevent event) { return (CUresult)cudaEventDestroy(event); }
CUresult cuEventRecord(CUevent event, CUstream stream) { return (CUresult)cudaEventRecord(event, stream); }
CUresult cuEventSynchronize(CUevent event) { return (CUresult)cudaEventSynchronize(event); }
CUresult cuEventQuery(CUevent event) { return (CUresult)cudaEventQuery(event); }
CUresult cuEventElapsedTime(float *milliseconds, CUevent begin, CUevent end) {
  return (CUresult)cudaEventElapsedTime(milliseconds, begin, end);
}
CUresult cuMemAllocManaged(CUdeviceptr *at, size_t bytes, unsigned int flags) {
  return (CUresult)cudaMallocManaged((void **)at, bytes, flags);
}
CUresult cuMemAllocHost(void **at, size_t bytes) { return (CUresult)cudaMallocHost(at, bytes); }
CUresult cuMemHostAlloc(void **at, size_t bytes, unsigned int flags) { return (CUresult)cudaHostAlloc(at, bytes, flags); }
CUresult cuMemFreeHost(void *at) { return (CUresult)cudaFreeHost(at); }
CUresult cuMemHostGetDevicePointer(CUdeviceptr *device, void *host, unsigned int flags) {
  return (CUresult)cudaHostGetDevicePointer((void **)device, host, flags);
}
CUresult cuMemHostRegister(void *at, size_t bytes, unsigned int flags) { return (CUresult)cudaHostRegister(at, bytes, flags); }
CUresult cuMemHostUnregister(void *at) { return (CUresult)cudaHostUnregister(at); }
CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return (CUresult)cudaMemcpy((void *)to, (const void *)from, bytes, cudaMemcpyDefault);
}
CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void *from, size_t bytes, CUstream stream) {
  return (CUresult)cudaMemcpyAsync((void *)to, from, bytes, cudaMemcpyHostToDevice, stream);
}
CUresult cuMemcpyDtoHAsync(void *to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return (CUresult)cudaMemcpyAsync(to, (const void *)from, bytes, cudaMemcpyDeviceToHost, stream);
}
CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return (CUresult)cudaMemcpyAsync((void *)to, (const void *)from, bytes, cudaMemcpyDeviceToDevice, stream);
}
CUresult cuMemsetD16(CUdeviceptr at, unsigned short value, size_t number) {
  for (size_t i = 0; i < number; ++i) ((unsigned short *)at)[i] = value;
  return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice) { return cuCtxCreate(context, 0, 0); }
CUresult cuDevicePrimaryCtxRelease(CUdevice) { return CUDA_SUCCESS; }
CUresult cuCtxPushCurrent(CUcontext) { return CUDA_SUCCESS; }
CUresult cuCtxPopCurrent(CUcontext *context) { return cuCtxCreate(context, 0, 0); }
CUresult cuCtxGetDevice(CUdevice *device) { return *device = 0, CUDA_SUCCESS; }

// A module is the name of its unit, which NVRTC gave out as its code.
CUresult cuModuleLoadData(CUmodule *module, const void *image) {
  size_t begin = strlen(WEFT_MODULE);
  if (image && strncmp((const char *)image, WEFT_MODULE, begin) == 0) {
    const char *unit = (const char *)image + begin;
    *module = (CUmodule)strndup(unit, strcspn(unit, "\n"));
    return CUDA_SUCCESS;
  }
  fprintf(stderr, "weft: a module cannot be loaded: it holds PTX or machine code of a GPU, and this device is a CPU; "
                  "build its CUDA source into the program, or compile it by NVRTC while it runs\n");
  return CUDA_ERROR_INVALID_IMAGE;
}
CUresult cuModuleLoad(CUmodule *module, const char *path) {
  char image[256] = "";
  if (FILE *file = fopen(path, "r")) {
    image[fread(image, 1, sizeof image - 1, file)] = 0;
    fclose(file);
  }
  return cuModuleLoadData(module, image);
}
CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int, int *, void **) {
  return cuModuleLoadData(module, image);
}
CUresult cuModuleUnload(CUmodule module) { return free((void *)module), CUDA_SUCCESS; }
CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
  *function = (CUfunction)weft_find_kernel((const char *)module, name);
  return *function ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
CUresult cuModuleGetGlobal(CUdeviceptr *at, size_t *bytes, CUmodule module, const char *name) {
  const weft_variable *found = weft_find_variable((const char *)module, name);
  if (!found) return CUDA_ERROR_NOT_FOUND;
  if (at) *at = (CUdeviceptr)found->at;
  if (bytes) *bytes = found->bytes;
  return CUDA_SUCCESS;
}
CUresult cuLaunchKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                        unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int shared_bytes,
                        CUstream stream, void **arguments, void **extra) {
  if (extra)
    return (CUresult)weft_unsupported("cuLaunchKernel", "arguments in one buffer (extra)", "CUDA_ERROR_NOT_SUPPORTED", CUDA_ERROR_NOT_SUPPORTED);
  return (CUresult)cudaLaunchKernel((const void *)function, dim3{grid_x, grid_y, grid_z}, dim3{block_x, block_y, block_z},
                                    arguments, shared_bytes, stream);
}
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction function, int block_size, size_t shared_bytes) {
  return (CUresult)cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, (const void *)function, block_size, shared_bytes);
}
cudaError_t cudaGetFuncBySymbol(CUfunction *function, const void *kernel) {
  return *function = (CUfunction)kernel, cudaSuccess;
}
CUresult cuGetErrorString(CUresult error, const char **text) {
  *text = cudaGetErrorString((cudaError_t)error);
  return CUDA_SUCCESS;
}
CUresult cuGetErrorName(CUresult error, const char **text) {
  *text = cudaGetErrorName((cudaError_t)error);
  return CUDA_SUCCESS;
}
}
