// The CUDA samples' helpers for checking calls and finding a device.
#pragma once
#include <stdio.h>
#include <stdlib.h>
#include "cuda_runtime.h"
#include "helper_string.h"

#ifndef MAX
#define MAX(a, b) ((a) > (b) ? (a) : (b))
#endif
#ifndef EXIT_WAIVED
#define EXIT_WAIVED 2
#endif

static inline const char *_cudaGetErrorEnum(cudaError_t error) { return cudaGetErrorName(error); }

template <typename T> inline void weft_check(T result, const char *call, const char *file, int line) {
  if (!result) return;
  fprintf(stderr, "CUDA error at %s:%d code=%u \"%s\"\n", file, line, (unsigned int)result, call);
  exit(EXIT_FAILURE);
}
inline void weft_check_last(const char *message, const char *file, int line, bool is_fatal) {
  cudaError_t error = cudaGetLastError();
  if (error == cudaSuccess) return;
  fprintf(stderr, "%s(%i) : CUDA error : %s : (%d) %s.\n", file, line, message, (int)error, cudaGetErrorString(error));
  if (is_fatal) exit(EXIT_FAILURE);
}
#define checkCudaErrors(call) weft_check((call), #call, __FILE__, __LINE__)
#define getLastCudaError(message) weft_check_last(message, __FILE__, __LINE__, true)
#define printLastCudaError(message) weft_check_last(message, __FILE__, __LINE__, false)

inline int ftoi(float value) { return value >= 0 ? (int)(value + 0.5f) : (int)(value - 0.5f); }
inline int _ConvertSMVer2Cores(int, int) { return 64; }
inline const char *_ConvertSMVer2ArchName(int, int) { return "CPU"; }
inline int gpuDeviceInit(int device) {
  checkCudaErrors(cudaSetDevice(device));
  return device;
}
inline int gpuGetMaxGflopsDeviceId() { return 0; }
inline int findCudaDevice(int, const char **) { return gpuDeviceInit(0); }
inline int findIntegratedGPU() { return 0; }
inline bool checkCudaCapabilities(int major, int minor) {
  cudaDeviceProp properties;
  checkCudaErrors(cudaGetDeviceProperties(&properties, 0));
  return properties.major > major || (properties.major == major && properties.minor >= minor);
}
