// The driver API in terms of the runtime API: error codes have the same numbers.
#include "cuda.h"
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
CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice device) {
  return (CUresult)cudaDeviceGetAttribute(value, (cudaDeviceAttr)attribute, device);
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
CUresult cuGetErrorString(CUresult error, const char **text) {
  *text = cudaGetErrorString((cudaError_t)error);
  return CUDA_SUCCESS;
}
CUresult cuGetErrorName(CUresult error, const char **text) {
  *text = cudaGetErrorName((cudaError_t)error);
  return CUDA_SUCCESS;
}
}
