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
  const weft_step *origin;  // in a graph that is made ready: the node it was made of
  weft_step **after;        // what it depends on
  size_t after_count;
  bool is_placed;
};
struct CUgraph_st {
  weft_step *first, **last;
  size_t count;
};
struct CUgraphExec_st { CUgraph_st steps; };

namespace {
// A set of streams or events.
struct handles {
  void **all;
  size_t count;
  bool has(void *one) const {
    for (size_t i = 0; i < count; ++i)
      if (all[i] == one) return true;
    return false;
  }
  void add(void *one) {
    if (has(one)) return;
    all = (void **)realloc(all, (count + 1) * sizeof(void *));
    all[count++] = one;
  }
};
// What this thread records: from a stream, and from those that waited for an event of one that is recorded.
thread_local CUgraph_st *recording;
thread_local cudaStream_t recorder;
thread_local handles streams, events;

CUgraph_st *make_graph() {
  CUgraph_st *made = (CUgraph_st *)calloc(1, sizeof(CUgraph_st));
  made->last = &made->first;
  return made;
}
weft_step *add(CUgraph_st *graph, cudaError_t (*run)(void *), const void *data, size_t bytes) {
  weft_step *made = (weft_step *)calloc(1, sizeof(weft_step));
  made->run = run, made->data = malloc(bytes ? bytes : 1), made->bytes = bytes;
  memcpy(made->data, data, bytes);
  *graph->last = made;
  graph->last = &made->next;
  ++graph->count;
  return made;
}
void depend(weft_step *step, const cudaGraphNode_t *after, size_t count) {
  step->after = (weft_step **)realloc(step->after, (step->after_count + count + 1) * sizeof(weft_step *));
  for (size_t i = 0; i < count; ++i) step->after[step->after_count++] = (weft_step *)after[i];
}
void clear(CUgraph_st *graph) {
  for (weft_step *one = graph->first; one;) {
    weft_step *next = one->next;
    free(one->data), free(one->after), free(one);
    one = next;
  }
  graph->first = nullptr, graph->last = &graph->first, graph->count = 0;
}
bool is_ready(const weft_step *step) {
  for (size_t i = 0; i < step->after_count; ++i)
    if (!step->after[i]->is_placed) return false;
  return true;
}
// Copies the steps of `from` to the end of `to`: in the order they came, where what they depend on allows it.
cudaError_t copy_steps(CUgraph_st *to, CUgraph_st *from) {
  for (weft_step *one = from->first; one; one = one->next) one->is_placed = false;
  for (size_t placed = 0; placed < from->count; ++placed) {
    weft_step *next = from->first;
    while (next && (next->is_placed || !is_ready(next))) next = next->next;
    if (!next) return weft_fail(cudaErrorInvalidValue);  // they depend on one another
    next->is_placed = true;
    add(to, next->run, next->data, next->bytes)->origin = next;
  }
  return cudaSuccess;
}

struct setting { void *at; size_t pitch; unsigned int value, element; size_t width, height; };
cudaError_t run_set(void *data) {
  setting *s = (setting *)data;
  for (size_t row = 0; row < s->height; ++row)
    for (size_t i = 0; i < s->width; ++i) memcpy((char *)s->at + row * s->pitch + i * s->element, &s->value, s->element);
  return cudaSuccess;
}
cudaError_t run_nothing(void *) { return cudaSuccess; }
cudaError_t run_event(void *data) { return cudaEventRecord(*(cudaEvent_t *)data, nullptr); }
cudaError_t run_child(void *data) { return cudaGraphLaunch(*(cudaGraphExec_t *)data, nullptr); }

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

bool weft_is_recording(cudaStream_t stream) { return recording && streams.has(stream); }
bool weft_record(cudaError_t (*run)(void *data), const void *data, size_t bytes, cudaStream_t stream) {
  return weft_is_recording(stream) && add(recording, run, data, bytes);
}
bool weft_record_event(cudaEvent_t event, cudaStream_t stream) {
  if (!weft_record(run_event, &event, sizeof event, stream)) return false;
  events.add(event);
  return true;
}
void weft_record_wait(cudaStream_t stream, cudaEvent_t event) {
  if (recording && events.has(event)) streams.add(stream);
}
bool weft_record_launch(const void *host, dim3 grid, dim3 block, void **arguments, size_t shared_bytes,
                        uint32_t cooperative, cudaStream_t stream) {
  return weft_is_recording(stream) && add_launch(recording, host, grid, block, arguments, shared_bytes, cooperative);
}

extern "C" {
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  if (!stream) return weft_fail(cudaErrorStreamCaptureUnsupported);
  if (recording) return weft_fail(cudaErrorIllegalState);
  recording = make_graph(), recorder = stream;
  streams.count = events.count = 0;
  streams.add(stream);
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph) {
  if (!recording || stream != recorder) return weft_fail(cudaErrorIllegalState);
  *graph = recording, recording = nullptr;
  return cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus *status) {
  *status = weft_is_recording(stream) ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
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
  return copy_steps(&(*made)->steps, graph);
}
cudaError_t cudaGraphExecUpdate(cudaGraphExec_t made, cudaGraph_t graph, cudaGraphExecUpdateResultInfo *result) {
  clear(&made->steps);
  cudaError_t error = copy_steps(&made->steps, graph);
  *result = {error ? cudaGraphExecUpdateError : cudaGraphExecUpdateSuccess, nullptr, nullptr};
  return error;
}
cudaError_t cudaGraphClone(cudaGraph_t *made, cudaGraph_t graph) { return copy_steps(*made = make_graph(), graph); }
cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t) { return cudaSuccess; }
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
  if (weft_is_recording(stream)) {  // a copy: this one may be gone when the other is launched
    cudaGraphExec_t copy;
    cudaError_t error = cudaGraphInstantiateWithFlags(&copy, &graph->steps, 0);
    return weft_record(run_child, &copy, sizeof copy, stream) ? error : cudaErrorUnknown;
  }
  for (weft_step *one = graph->steps.first; one; one = one->next)
    if (cudaError_t error = one->run(one->data)) return error;
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) { return clear(&graph->steps), free(graph), cudaSuccess; }

// Nodes that are added one by one.
static cudaError_t added(cudaGraphNode_t *node, weft_step *step, const cudaGraphNode_t *after, size_t count) {
  if (!step) return weft_fail(cudaErrorInvalidDeviceFunction);
  depend(step, after, count);
  *node = (cudaGraphNode_t)step;
  return cudaSuccess;
}
cudaError_t cudaGraphAddDependencies(cudaGraph_t, const cudaGraphNode_t *from, const cudaGraphNode_t *to, size_t count) {
  for (size_t i = 0; i < count; ++i) depend((weft_step *)to[i], from + i, 1);
  return cudaSuccess;
}
cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after, size_t count,
                                   const cudaKernelNodeParams *p) {
  weft_step *step = add_launch(graph, p->func, p->gridDim, p->blockDim, p->kernelParams, p->sharedMemBytes, 0);
  return added(node, step, after, count);
}
cudaError_t cudaGraphExecKernelNodeSetParams(cudaGraphExec_t graph, cudaGraphNode_t node, const cudaKernelNodeParams *p) {
  for (weft_step *one = graph->steps.first; one; one = one->next) {
    if (one->origin != (weft_step *)node) continue;
    CUgraph_st other = {nullptr, &other.first, 0};
    weft_step *made = add_launch(&other, p->func, p->gridDim, p->blockDim, p->kernelParams, p->sharedMemBytes, 0);
    if (!made) return weft_fail(cudaErrorInvalidDeviceFunction);
    void *before = one->data;
    one->data = made->data, made->data = before, one->bytes = made->bytes;
    return clear(&other), cudaSuccess;
  }
  return weft_fail(cudaErrorInvalidValue);
}
cudaError_t cudaGraphAddMemcpyNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after, size_t count,
                                   const cudaMemcpy3DParms *p) {
  return added(node, add(graph, weft_run_copy_3d, p, sizeof *p), after, count);
}
cudaError_t cudaGraphAddMemcpyNode1D(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after, size_t count,
                                     void *to, const void *from, size_t bytes, cudaMemcpyKind kind) {
  weft_copy c = {to, from, bytes, kind};
  return added(node, add(graph, weft_run_copy, &c, sizeof c), after, count);
}
cudaError_t cudaGraphAddMemsetNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after, size_t count,
                                   const cudaMemsetParams *p) {
  setting s = {p->dst, p->pitch, p->value, p->elementSize, p->width, p->height};
  return added(node, add(graph, run_set, &s, sizeof s), after, count);
}
cudaError_t cudaGraphAddHostNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after, size_t count,
                                 const cudaHostNodeParams *p) {
  return added(node, add(graph, weft_run_call, p, sizeof *p), after, count);
}
cudaError_t cudaGraphAddEmptyNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after, size_t count) {
  return added(node, add(graph, run_nothing, "", 0), after, count);
}
// Memory of a graph is allocated once, and stays: every launch finds it at the same address.
cudaError_t cudaGraphAddMemAllocNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after, size_t count,
                                     cudaMemAllocNodeParams *p) {
  if (cudaError_t error = cudaMalloc(&p->dptr, p->bytesize)) return error;
  return cudaGraphAddEmptyNode(node, graph, after, count);
}
cudaError_t cudaGraphAddMemFreeNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after, size_t count,
                                    void *) {
  return cudaGraphAddEmptyNode(node, graph, after, count);
}
cudaError_t cudaDeviceGetGraphMemAttribute(int, cudaGraphMemAttributeType, void *value) {
  return *(uint64_t *)value = 0, cudaSuccess;
}
cudaError_t cudaDeviceGraphMemTrim(int) { return cudaSuccess; }
cudaError_t cudaGraphAddChildGraphNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after, size_t count,
                                       cudaGraph_t child) {
  cudaGraphExec_t made;
  if (cudaError_t error = cudaGraphInstantiateWithFlags(&made, child, 0)) return error;
  return added(node, add(graph, run_child, &made, sizeof made), after, count);
}
}
