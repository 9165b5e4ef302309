// CUDA graphs: what is asked of streams while one of them records is kept, and done in that order when the graph is
// launched. Work that libraries do in calls of the host (cuBLAS, cuFFT, Thrust) is not asked of streams here.
#include "graphs.h"
#include <stdlib.h>
#include <string.h>

struct weft_step {
  cudaError_t (*run)(void *data);
  void *data;
  size_t bytes;
  weft_step *next;
};
struct CUgraph_st {
  weft_step *first, **last;
  size_t count;
};
struct CUgraphExec_st { CUgraph_st steps; };

namespace {
thread_local CUgraph_st *recording;
thread_local cudaStream_t recorder;

CUgraph_st *make_graph() {
  CUgraph_st *made = (CUgraph_st *)calloc(1, sizeof(CUgraph_st));
  made->last = &made->first;
  return made;
}
weft_step *add(CUgraph_st *graph, cudaError_t (*run)(void *), const void *data, size_t bytes) {
  weft_step *made = (weft_step *)calloc(1, sizeof(weft_step));
  *made = weft_step{run, malloc(bytes ? bytes : 1), bytes, nullptr};
  memcpy(made->data, data, bytes);
  *graph->last = made;
  graph->last = &made->next;
  ++graph->count;
  return made;
}
void clear(CUgraph_st *graph) {
  for (weft_step *one = graph->first; one;) {
    weft_step *next = one->next;
    free(one->data), free(one);
    one = next;
  }
  graph->first = nullptr, graph->last = &graph->first, graph->count = 0;
}

struct copy { void *to; const void *from; size_t bytes; cudaMemcpyKind kind; };
cudaError_t run_copy(void *data) {
  copy *c = (copy *)data;
  return cudaMemcpy(c->to, c->from, c->bytes, c->kind);
}
struct setting { void *at; size_t pitch; unsigned int value, element; size_t width, height; };
cudaError_t run_set(void *data) {
  setting *s = (setting *)data;
  for (size_t row = 0; row < s->height; ++row)
    for (size_t i = 0; i < s->width; ++i) memcpy((char *)s->at + row * s->pitch + i * s->element, &s->value, s->element);
  return cudaSuccess;
}
struct call { cudaHostFn_t function; void *data; };
cudaError_t run_call(void *data) {
  ((call *)data)->function(((call *)data)->data);
  return cudaSuccess;
}
cudaError_t run_nothing(void *) { return cudaSuccess; }
cudaError_t run_event(void *data) { return cudaEventRecord(*(cudaEvent_t *)data, nullptr); }

// A launch, followed by the bytes of its arguments.
struct launch { const void *host; dim3 grid, block; size_t shared_bytes; uint32_t cooperative; int count; };
cudaError_t run_launch(void *data) {
  launch *l = (launch *)data;
  void *arguments[256];
  uint64_t *offsets = (uint64_t *)(l + 1);
  for (int i = 0; i < l->count; ++i) arguments[i] = (char *)data + offsets[i];
  return weft_launch_kernel(l->host, l->grid, l->block, arguments, l->shared_bytes, l->cooperative, nullptr);
}
weft_step *add_launch(CUgraph_st *graph, const void *host, dim3 grid, dim3 block, void **arguments, size_t shared_bytes,
                      uint32_t cooperative) {
  const uint64_t *sizes = weft_argument_sizes(host);
  if (!sizes || sizes[0] > 255) return nullptr;
  int count = (int)sizes[0];
  size_t total = sizeof(launch) + (size_t)count * 8;
  uint64_t offsets[256];
  for (int i = 0; i < count; ++i) total = (total + 15) / 16 * 16, offsets[i] = total, total += sizes[i + 1];
  char *data = (char *)calloc(1, total);
  *(launch *)data = launch{host, grid, block, shared_bytes, cooperative, count};
  memcpy(data + sizeof(launch), offsets, (size_t)count * 8);
  for (int i = 0; i < count; ++i) memcpy(data + offsets[i], arguments[i], sizes[i + 1]);
  weft_step *made = add(graph, run_launch, data, total);
  free(data);
  return made;
}
}  // namespace

bool weft_record_copy(void *to, const void *from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  copy c = {to, from, bytes, kind};
  return recording && stream && add(recording, run_copy, &c, sizeof c);
}
bool weft_record_set(void *at, int value, size_t bytes, cudaStream_t stream) {
  setting s = {at, bytes, (unsigned int)value, 1, bytes, 1};
  return recording && stream && add(recording, run_set, &s, sizeof s);
}
bool weft_record_call(cudaHostFn_t function, void *data, cudaStream_t stream) {
  call c = {function, data};
  return recording && stream && add(recording, run_call, &c, sizeof c);
}
bool weft_record_event(cudaEvent_t event, cudaStream_t stream) {
  return recording && stream && add(recording, run_event, &event, sizeof event);
}
bool weft_record_launch(const void *host, dim3 grid, dim3 block, void **arguments, size_t shared_bytes,
                        uint32_t cooperative, cudaStream_t stream) {
  return recording && stream && add_launch(recording, host, grid, block, arguments, shared_bytes, cooperative);
}

extern "C" {
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  if (!stream) return weft_fail(cudaErrorStreamCaptureUnsupported);
  if (recording) return weft_fail(cudaErrorIllegalState);
  recording = make_graph(), recorder = stream;
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph) {
  if (!recording || stream != recorder) return weft_fail(cudaErrorIllegalState);
  *graph = recording, recording = nullptr;
  return cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus *status) {
  *status = recording && stream ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
cudaError_t cudaGraphCreate(cudaGraph_t *graph, unsigned int) { return *graph = make_graph(), cudaSuccess; }
cudaError_t cudaGraphDestroy(cudaGraph_t graph) { return clear(graph), free(graph), cudaSuccess; }
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count) {
  size_t number = 0;
  for (weft_step *one = graph->first; one && nodes && number < *count; one = one->next) nodes[number++] = (cudaGraphNode_t)one;
  *count = nodes ? number : graph->count;
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *made, cudaGraph_t graph, unsigned long long) {
  *made = (cudaGraphExec_t)calloc(1, sizeof(CUgraphExec_st));
  (*made)->steps.last = &(*made)->steps.first;
  for (weft_step *one = graph->first; one; one = one->next) add(&(*made)->steps, one->run, one->data, one->bytes);
  return cudaSuccess;
}
cudaError_t cudaGraphExecUpdate(cudaGraphExec_t made, cudaGraph_t graph, void *, void *) {
  clear(&made->steps);
  for (weft_step *one = graph->first; one; one = one->next) add(&made->steps, one->run, one->data, one->bytes);
  return cudaSuccess;
}
cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t) { return cudaSuccess; }
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t) {
  for (weft_step *one = graph->steps.first; one; one = one->next)
    if (cudaError_t error = one->run(one->data)) return error;
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) { return clear(&graph->steps), free(graph), cudaSuccess; }

// Nodes that are added one by one run in the order they came: what a node depends on was there before it.
cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *, size_t,
                                   const cudaKernelNodeParams *p) {
  *node = (cudaGraphNode_t)add_launch(graph, p->func, p->gridDim, p->blockDim, p->kernelParams, p->sharedMemBytes, 0);
  return *node ? cudaSuccess : weft_fail(cudaErrorInvalidDeviceFunction);
}
cudaError_t cudaGraphAddMemcpyNode1D(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *, size_t, void *to,
                                     const void *from, size_t bytes, cudaMemcpyKind kind) {
  copy c = {to, from, bytes, kind};
  return *node = (cudaGraphNode_t)add(graph, run_copy, &c, sizeof c), cudaSuccess;
}
cudaError_t cudaGraphAddMemsetNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *, size_t,
                                   const cudaMemsetParams *p) {
  setting s = {p->dst, p->pitch, p->value, p->elementSize, p->width, p->height};
  return *node = (cudaGraphNode_t)add(graph, run_set, &s, sizeof s), cudaSuccess;
}
cudaError_t cudaGraphAddHostNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *, size_t,
                                 const cudaHostNodeParams *p) {
  call c = {p->fn, p->userData};
  return *node = (cudaGraphNode_t)add(graph, run_call, &c, sizeof c), cudaSuccess;
}
cudaError_t cudaGraphAddEmptyNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *, size_t) {
  return *node = (cudaGraphNode_t)add(graph, run_nothing, "", 0), cudaSuccess;
}
}
