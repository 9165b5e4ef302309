// What graphs record of streams: each function says whether the work was recorded, and so is not to be done now.
#pragma once
#include "weft_cuda.h"

WEFT_HIDDEN bool weft_record_copy(void *to, const void *from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream);
WEFT_HIDDEN bool weft_record_set(void *at, int value, size_t bytes, cudaStream_t stream);
WEFT_HIDDEN bool weft_record_call(cudaHostFn_t function, void *data, cudaStream_t stream);
WEFT_HIDDEN bool weft_record_event(cudaEvent_t event, cudaStream_t stream);
WEFT_HIDDEN bool weft_record_launch(const void *host, dim3 grid, dim3 block, void **arguments, size_t shared_bytes,
                                    uint32_t cooperative, cudaStream_t stream);
// Launches now, or records; and how many arguments a kernel has, then the bytes of each.
WEFT_HIDDEN cudaError_t weft_launch_kernel(const void *host, dim3 grid, dim3 block, void **arguments, size_t shared_bytes,
                                           uint32_t cooperative, cudaStream_t stream);
WEFT_HIDDEN const uint64_t *weft_argument_sizes(const void *host);
