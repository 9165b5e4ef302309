// CUDA's error codes: one list, of which the enumeration and the texts are made.
#pragma once

#define WEFT_CUDA_ERRORS(error) \
  error(cudaSuccess, 0, "no error") \
  error(cudaErrorInvalidValue, 1, "invalid argument") \
  error(cudaErrorMemoryAllocation, 2, "out of memory") \
  error(cudaErrorInitializationError, 3, "initialization error") \
  error(cudaErrorCudartUnloading, 4, "driver shutting down") \
  error(cudaErrorProfilerDisabled, 5, "profiler disabled while using external profiling tool") \
  error(cudaErrorProfilerNotInitialized, 6, "profiler not initialized: call cudaProfilerInitialize()") \
  error(cudaErrorProfilerAlreadyStarted, 7, "profiler already started") \
  error(cudaErrorProfilerAlreadyStopped, 8, "profiler already stopped") \
  error(cudaErrorInvalidConfiguration, 9, "invalid configuration argument") \
  error(cudaErrorInvalidPitchValue, 12, "invalid pitch argument") \
  error(cudaErrorInvalidSymbol, 13, "invalid device symbol") \
  error(cudaErrorInvalidHostPointer, 16, "invalid host pointer") \
  error(cudaErrorInvalidDevicePointer, 17, "invalid device pointer") \
  error(cudaErrorInvalidTexture, 18, "invalid texture reference") \
  error(cudaErrorInvalidTextureBinding, 19, "texture is not bound to a pointer") \
  error(cudaErrorInvalidChannelDescriptor, 20, "invalid channel descriptor") \
  error(cudaErrorInvalidMemcpyDirection, 21, "invalid copy direction for memcpy") \
  error(cudaErrorAddressOfConstant, 22, "invalid address of constant") \
  error(cudaErrorTextureFetchFailed, 23, "fetch from texture failed") \
  error(cudaErrorTextureNotBound, 24, "cannot fetch from a texture that is not bound") \
  error(cudaErrorSynchronizationError, 25, "incorrect use of __syncthreads()") \
  error(cudaErrorInvalidFilterSetting, 26, "linear filtering not supported for non-float type") \
  error(cudaErrorInvalidNormSetting, 27, "read as normalized float not supported for 32-bit non float type") \
  error(cudaErrorMixedDeviceExecution, 28, "device emulation mode and device execution mode cannot be mixed") \
  error(cudaErrorNotYetImplemented, 31, "feature not yet implemented") \
  error(cudaErrorMemoryValueTooLarge, 32, "memory size or pointer value too large to fit in 32 bit") \
  error(cudaErrorInsufficientDriver, 35, "CUDA driver version is insufficient for CUDA runtime version") \
  error(cudaErrorInvalidSurface, 37, "invalid surface reference") \
  error(cudaErrorDuplicateVariableName, 43, "duplicate global variable looked up by string name") \
  error(cudaErrorDuplicateTextureName, 44, "duplicate texture looked up by string name") \
  error(cudaErrorDuplicateSurfaceName, 45, "duplicate surface looked up by string name") \
  error(cudaErrorDevicesUnavailable, 46, "all CUDA-capable devices are busy or unavailable") \
  error(cudaErrorIncompatibleDriverContext, 49, "incompatible driver context") \
  error(cudaErrorMissingConfiguration, 52, "__global__ function call is not configured") \
  error(cudaErrorPriorLaunchFailure, 53, "unspecified launch failure in prior launch") \
  error(cudaErrorInvalidDeviceFunction, 98, "invalid device function") \
  error(cudaErrorNoDevice, 100, "no CUDA-capable device is detected") \
  error(cudaErrorInvalidDevice, 101, "invalid device ordinal") \
  error(cudaErrorStartupFailure, 127, "startup failure in cuda runtime") \
  error(cudaErrorInvalidKernelImage, 200, "device kernel image is invalid") \
  error(cudaErrorMapBufferObjectFailed, 205, "mapping of buffer object failed") \
  error(cudaErrorUnmapBufferObjectFailed, 206, "unmapping of buffer object failed") \
  error(cudaErrorNoKernelImageForDevice, 209, "no kernel image is available for execution on the device") \
  error(cudaErrorECCUncorrectable, 214, "uncorrectable ECC error encountered") \
  error(cudaErrorUnsupportedLimit, 215, "limit is not supported on this architecture") \
  error(cudaErrorDeviceAlreadyInUse, 216, "exclusive-thread device already in use by a different thread") \
  error(cudaErrorSharedObjectSymbolNotFound, 302, "shared object symbol not found") \
  error(cudaErrorSharedObjectInitFailed, 303, "shared object initialization failed") \
  error(cudaErrorInvalidResourceHandle, 400, "invalid resource handle") \
  error(cudaErrorSymbolNotFound, 500, "named symbol not found") \
  error(cudaErrorNotReady, 600, "device not ready") \
  error(cudaErrorIllegalAddress, 700, "an illegal memory access was encountered") \
  error(cudaErrorLaunchOutOfResources, 701, "too many resources requested for launch") \
  error(cudaErrorLaunchTimeout, 702, "the launch timed out and was terminated") \
  error(cudaErrorPeerAccessAlreadyEnabled, 704, "peer access is already enabled") \
  error(cudaErrorIllegalState, 401, "the operation cannot be performed in the present state") \
  error(cudaErrorPeerAccessNotEnabled, 705, "peer access has not been enabled") \
  error(cudaErrorSetOnActiveProcess, 708, "cannot set while device is active in this process") \
  error(cudaErrorAssert, 710, "device-side assert triggered") \
  error(cudaErrorTooManyPeers, 711, "peer mapping resources exhausted") \
  error(cudaErrorHostMemoryAlreadyRegistered, 712, "part or all of the requested memory range is already mapped") \
  error(cudaErrorHostMemoryNotRegistered, 713, "pointer does not correspond to a registered memory region") \
  error(cudaErrorLaunchFailure, 719, "unspecified launch failure") \
  error(cudaErrorCooperativeLaunchTooLarge, 720, "too many blocks in cooperative launch") \
  error(cudaErrorNotPermitted, 800, "operation not permitted") \
  error(cudaErrorNotSupported, 801, "operation not supported") \
  error(cudaErrorStreamCaptureUnsupported, 900, "operation not permitted when stream is capturing") \
  error(cudaErrorUnknown, 999, "unknown error") \
  error(cudaErrorApiFailureBase, 10000, "api failure base")
