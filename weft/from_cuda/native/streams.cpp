// Streams and events. Work is done when it is asked for, so that every order a program may rely on holds.
#include "graphs.h"
#include <stdlib.h>

struct CUstream_st { unsigned int flags; };
struct CUevent_st {
  double time;
  bool is_recorded;
  unsigned int flags;
};

cudaError_t weft_run_call(void *data) {
  const cudaHostNodeParams *call = (const cudaHostNodeParams *)data;
  call->fn(call->userData);
  return cudaSuccess;
}

extern "C" {
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned int flags) {
  *stream = (cudaStream_t)calloc(1, sizeof(CUstream_st));
  if (!*stream) return weft_fail(cudaErrorMemoryAllocation);
  (*stream)->flags = flags;
  return cudaSuccess;
}
cudaError_t cudaStreamCreate(cudaStream_t *stream) { return cudaStreamCreateWithFlags(stream, cudaStreamDefault); }
cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned int flags, int) {
  return cudaStreamCreateWithFlags(stream, flags);
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  if ((uintptr_t)stream > 2) free(stream);
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t) { return weft_failure(); }
cudaError_t cudaStreamQuery(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int) {
  return weft_record_wait(stream, event), cudaSuccess;
}
cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback, void *data, unsigned int) {
  if (weft_is_recording(stream)) return weft_fail(cudaErrorStreamCaptureUnsupported);
  callback(stream, cudaSuccess, data);
  return cudaSuccess;
}
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *data) {
  cudaHostNodeParams call = {function, data};
  return weft_record(weft_run_call, &call, sizeof call, stream) ? cudaSuccess : weft_run_call(&call);
}
cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned int *flags) {
  *flags = (uintptr_t)stream > 2 ? stream->flags : cudaStreamDefault;
  return cudaSuccess;
}
cudaError_t cudaStreamGetPriority(cudaStream_t, int *priority) { return *priority = 0, cudaSuccess; }
// Hints on caches: there is nothing to set.
cudaError_t cudaStreamSetAttribute(cudaStream_t, cudaStreamAttrID, const cudaStreamAttrValue *) { return cudaSuccess; }
cudaError_t cudaCtxResetPersistingL2Cache() { return cudaSuccess; }
cudaError_t cudaStreamAttachMemAsync(cudaStream_t, void *, size_t, unsigned int) { return cudaSuccess; }

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned int flags) {
  *event = (cudaEvent_t)calloc(1, sizeof(CUevent_st));
  if (!*event) return weft_fail(cudaErrorMemoryAllocation);
  (*event)->flags = flags;
  return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t *event) { return cudaEventCreateWithFlags(event, cudaEventDefault); }
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  free(event);
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  if (!event) return weft_fail(cudaErrorInvalidResourceHandle);
  if (weft_record_event(event, stream)) return cudaSuccess;
  event->time = weft_now() - weft_made_for();  // what a program measures are its kernels, not their making
  event->is_recorded = true;
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return event ? weft_failure() : weft_fail(cudaErrorInvalidResourceHandle);
}
cudaError_t cudaEventQuery(cudaEvent_t event) { return cudaEventSynchronize(event); }
cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  if (!begin || !end || !begin->is_recorded || !end->is_recorded) return weft_fail(cudaErrorInvalidResourceHandle);
  *milliseconds = (float)(1e3 * (end->time - begin->time));
  return cudaSuccess;
}
}
