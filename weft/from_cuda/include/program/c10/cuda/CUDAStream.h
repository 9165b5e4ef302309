// What extensions of PyTorch use of its CUDA part, where the device is this processor: one device, streams in order.
#pragma once
#include <c10/core/Device.h>
#include <c10/util/Exception.h>
#include "cuda_runtime.h"

namespace c10::cuda {
class CUDAStream {
 public:
  operator cudaStream_t() const { return nullptr; }
  cudaStream_t stream() const { return nullptr; }
  void synchronize() const { cudaDeviceSynchronize(); }
};
inline CUDAStream getCurrentCUDAStream(signed char = -1) { return {}; }
inline CUDAStream getDefaultCUDAStream(signed char = -1) { return {}; }
inline CUDAStream getStreamFromPool(bool = false, signed char = -1) { return {}; }
inline int device_count() { return 1; }
inline int current_device() { return 0; }
struct CUDAGuard {
  template <typename Device> explicit CUDAGuard(const Device &) {}
};
struct OptionalCUDAGuard {
  template <typename... Device> explicit OptionalCUDAGuard(const Device &...) {}
};
struct CUDAStreamGuard {
  template <typename Stream> explicit CUDAStreamGuard(const Stream &) {}
};
}  // namespace c10::cuda
namespace at::cuda {
using namespace c10::cuda;
inline cudaDeviceProp *getCurrentDeviceProperties() {
  static cudaDeviceProp properties;
  cudaGetDeviceProperties(&properties, 0);
  return &properties;
}
template <typename T> T ATenCeilDiv(T a, T b) { return (a + b - 1) / b; }
}  // namespace at::cuda
#define C10_CUDA_CHECK(call) \
  do { \
    cudaError_t error = (call); \
    TORCH_CHECK(error == cudaSuccess, "CUDA error: ", cudaGetErrorString(error)); \
  } while (0)
#define C10_CUDA_KERNEL_LAUNCH_CHECK() C10_CUDA_CHECK(cudaGetLastError())
#define AT_CUDA_CHECK(call) C10_CUDA_CHECK(call)
