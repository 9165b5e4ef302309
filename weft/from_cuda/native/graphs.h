// What graphs record of streams.
#pragma once
#include "weft_cuda.h"

// Whether work for `stream` is to be recorded now, not done.
WEFT_HIDDEN bool weft_is_recording(cudaStream_t stream);
// Records that `run` is called with a copy of `data`; says whether it did.
WEFT_HIDDEN bool weft_record(cudaError_t (*run)(void *data), const void *data, size_t bytes, cudaStream_t stream);
WEFT_HIDDEN bool weft_record_event(cudaEvent_t event, cudaStream_t stream);
// A stream that waits for an event that is recorded is recorded from then on.
WEFT_HIDDEN void weft_record_wait(cudaStream_t stream, cudaEvent_t event);
WEFT_HIDDEN bool weft_record_launch(const void *host, dim3 grid, dim3 block, void **arguments, size_t shared_bytes,
                                    uint32_t cooperative, cudaStream_t stream);
// Launches now, or records; and how many arguments a kernel has, then the bytes of each.
WEFT_HIDDEN cudaError_t weft_launch_kernel(const void *host, dim3 grid, dim3 block, void **arguments, size_t shared_bytes,
                                           uint32_t cooperative, cudaStream_t stream);
WEFT_HIDDEN const uint64_t *weft_argument_sizes(const void *host);

// Steps that streams and nodes both make.
struct weft_copy {
  void *to;
  const void *from;
  size_t bytes;
  cudaMemcpyKind kind;
};
WEFT_HIDDEN cudaError_t weft_run_copy(void *data);
WEFT_HIDDEN cudaError_t weft_run_copy_3d(void *data);
WEFT_HIDDEN cudaError_t weft_run_call(void *data);
