// What streams are asked to do while one of them records, and nodes by hand: all of it happens when a graph is launched.
#include <cstdio>
__device__ int variable;
void depend(cudaGraph_t graph, cudaGraphNode_t *from, cudaGraphNode_t *to, size_t count) {
#if CUDART_VERSION >= 13000
  cudaGraphAddDependencies(graph, from, to, nullptr, count);
#else
  cudaGraphAddDependencies(graph, from, to, count);
#endif
}
__global__ void add(int *x, int by, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] = x[i] * 2 + by;
}
int *device(int n) {
  int *made;
  cudaMalloc(&made, n * 4), cudaMemset(made, 0, n * 4);
  return made;
}
int value(const int *at) {
  int got;
  cudaMemcpy(&got, at, 4, cudaMemcpyDeviceToHost);
  return got;
}
void recorded() {
  const int n = 64;
  int *x = device(n), *y = device(n), *z = device(n), *t, host[n], six = 6;
  for (int i = 0; i < n; i++) host[i] = i;
  cudaStream_t first, second, apart;
  cudaEvent_t fork, join;
  cudaStreamCreate(&first), cudaStreamCreate(&second), cudaStreamCreate(&apart);
  cudaEventCreate(&fork), cudaEventCreate(&join);
  cudaGraph_t graph;
  cudaGraphExec_t ready;
  cudaStreamBeginCapture(first, cudaStreamCaptureModeRelaxed);
  cudaMemcpy2DAsync(x, 32, host, 32, 32, 8, cudaMemcpyHostToDevice, first);
  cudaEventRecord(fork, first), cudaStreamWaitEvent(second, fork, 0);
  cudaMemcpyToSymbolAsync(variable, &six, 4, 0, cudaMemcpyHostToDevice, second);
  cudaMemset2DAsync(y, 4, 1, 4, n, second);
  cudaMallocAsync(&t, n * 4, first);
  cudaMemcpyAsync(t, x, n * 4, cudaMemcpyDeviceToDevice, first);
  add<<<1, n, 0, first>>>(t, 1, n);
  cudaEventRecord(join, second), cudaStreamWaitEvent(first, join, 0);
  cudaMemcpyAsync(x, t, n * 4, cudaMemcpyDeviceToDevice, first), cudaFreeAsync(t, first);
  add<<<1, n, 0, apart>>>(z, 5, n);  // of a stream that is not recorded: done at once
  cudaStreamCaptureStatus status[3];
  cudaStreamIsCapturing(first, status), cudaStreamIsCapturing(second, status + 1), cudaStreamIsCapturing(apart, status + 2);
  cudaStreamEndCapture(first, &graph);
  int before;
  cudaMemcpyFromSymbol(&before, variable, 4);
  printf("%d %d %d  %d %d %d %d\n", status[0], status[1], status[2], value(x + 3), value(y), value(z), before);
  cudaGraphInstantiate(&ready, graph, 0);
  cudaGraphLaunch(ready, first), cudaGraphLaunch(ready, first);
  cudaMemcpyFromSymbol(&before, variable, 4);
  printf("%d %d %d %d\n", value(x + 3), value(y) == 0x01010101, value(z), before);
}
cudaKernelNodeParams launch(int *&x, int &by, int &n, void **arguments) {
  arguments[0] = &x, arguments[1] = &by, arguments[2] = &n;
  cudaKernelNodeParams p = {(void *)add, dim3(1), dim3(64), 0, arguments, nullptr};
  return p;
}
void by_hand() {
  int n = 64, one = 1, three = 3;
  int *x = device(n);
  void *arguments[3];
  cudaGraph_t graph, copy;
  cudaGraphExec_t ready;
  cudaGraphNode_t last, first, set, child;
  cudaGraphCreate(&graph, 0);
  cudaKernelNodeParams p = launch(x, one, n, arguments);
  cudaGraphAddKernelNode(&last, graph, nullptr, 0, &p);  // behind the other two, as is said later
  p = launch(x, three, n, arguments);
  cudaGraphAddKernelNode(&first, graph, nullptr, 0, &p);
  cudaMemsetParams m = {x, 0, 0, 4, (size_t)n, 1};
  cudaGraphAddMemsetNode(&set, graph, nullptr, 0, &m);
  cudaGraphNode_t from[] = {first, set}, to[] = {last, first};
  depend(graph, from, to, 2);
  cudaGraphInstantiate(&ready, graph, 0);
  cudaGraphLaunch(ready, 0);
  printf("%d ", value(x));  // (0 * 2 + 3) * 2 + 1
  int five = 5;
  p = launch(x, five, n, arguments);
  cudaGraphExecKernelNodeSetParams(ready, first, &p);
  cudaGraphLaunch(ready, 0);
  printf("%d ", value(x));  // (0 * 2 + 5) * 2 + 1
  cudaGraphClone(&copy, graph), cudaGraphAddChildGraphNode(&child, copy, nullptr, 0, graph);
  cudaGraphInstantiate(&ready, copy, 0), cudaGraphLaunch(ready, 0);
  printf("%d\n", value(x));
  cudaStream_t stream;
  cudaGraph_t outer;
  cudaGraphExec_t again;
  cudaStreamCreate(&stream), cudaMemset(x, 0, n * 4);
  cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
  cudaGraphLaunch(ready, stream);  // part of what is recorded
  add<<<1, 64, 0, stream>>>(x, 1, n);
  cudaStreamEndCapture(stream, &outer), cudaGraphExecDestroy(ready);
  int before = value(x);
  cudaGraphInstantiate(&again, outer, 0), cudaGraphLaunch(again, stream);
  printf("%d %d\n", before, value(x));
  cudaGraphNode_t around[] = {last}, back[] = {set};
  depend(graph, around, back, 1);
  printf("%d\n", cudaGraphInstantiate(&ready, graph, 0) == cudaErrorInvalidValue);
}
int main() { recorded(), by_hand(); }
