// Kernels and variables as the program registers them, and launches.
#include "codes.h"
#include "graphs.h"
#include "watch.h"
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

extern "C" {
extern weft_kernel __start_weft_kernels[] __attribute__((weak)), __stop_weft_kernels[] __attribute__((weak));
extern weft_variable __start_weft_variables[] __attribute__((weak)), __stop_weft_variables[] __attribute__((weak));
}

namespace {
// What a launch knows of a kernel: by the address that the host's code has for it.
struct function {
  const void *host;
  const weft_kernel *kernel;
  grid_code codes;
  double seconds;
  uint64_t launches, threads_launches;  // of these, launches thread by thread
  function *next;
};
function *functions;

// Kernels and variables as compilers put them down: of the program, and of modules that were loaded since.
struct tables {
  weft_kernel *kernels, *kernels_end;
  weft_variable *variables, *variables_end;
  tables *next;
};
tables all_tables = {__start_weft_kernels, __stop_weft_kernels, __start_weft_variables, __stop_weft_variables, nullptr};

struct symbol {
  const void *host;
  const char *name;
  void *at;
  size_t bytes;
  symbol *next;
};
symbol *symbols;

struct configuration {
  dim3 grid, block;
  size_t shared_bytes;
  void *stream;
};
thread_local configuration pending[16];
thread_local int depth;

function *find_function(const void *host) {
  for (function *one = functions; one; one = one->next)
    if (one->host == host) return one;
  return nullptr;
}

// A variable by the host's address of it or, as old programs do, by its name.
symbol *find_symbol(const void *host) {
  for (symbol *one = symbols; one; one = one->next)
    if (one->host == host || one->at == host) return one;
  for (symbol *one = symbols; one; one = one->next)
    if (strcmp(one->name, (const char *)host) == 0) return one;
  return nullptr;
}

void write_times() {
  FILE *file = fopen(getenv("WEFT_CUDA_TIMES"), "w");
  if (!file) return;
  for (function *one = functions; one; one = one->next)
    if (one->launches)
      fprintf(file, "%s %lu %lu %.9f\n", one->kernel->name, (unsigned long)one->launches,
              (unsigned long)one->threads_launches, one->seconds);
  fclose(file);
}

__attribute__((constructor)) void begin() {
  const char *set = getenv("WEFT_NUM_THREADS");
  if (!set || atoi(set) < 1) set = getenv("OMP_NUM_THREADS");
  cpu_set_t allowed;
  int cores = sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? CPU_COUNT(&allowed) : 1;
  weft_set_threads(weft_setting("WEFT_CUDA_SERIAL") ? 1 : set && atoi(set) > 0 ? atoi(set) : cores);
  if (getenv("WEFT_CUDA_TIMES")) atexit(write_times);
  // `weft cuda run` and `check` wait for it: where they are killed, it would compute on and nobody would know.
  if (getenv("WEFT_CUDA_SERVER") || getenv("WEFT_CUDA_CHECK")) prctl(PR_SET_PDEATHSIG, SIGKILL);
}

// What CUDA answers a launch that no device takes: too many blocks are a wrong value, all else a wrong configuration.
cudaError_t check_launch(const weft_launch &launch) {
  uint64_t threads = (uint64_t)launch.block[0] * launch.block[1] * launch.block[2];
  if (!launch.grid[0] || !launch.grid[1] || !launch.grid[2]) return cudaErrorInvalidConfiguration;
  if (threads == 0 || threads > 1024 || launch.block[2] > 64) return cudaErrorInvalidConfiguration;
  bool is_grid = launch.grid[0] <= 0x7fffffff && launch.grid[1] <= 65535 && launch.grid[2] <= 65535;
  return is_grid ? cudaSuccess : cudaErrorInvalidValue;
}

}  // namespace

static double made_for;  // as seconds, of launches from all threads: one more or less is no matter
double weft_made_for() { return made_for; }

const uint64_t *weft_argument_sizes(const void *host) {
  function *found = find_function(host);
  return found ? found->kernel->sizes : nullptr;
}

cudaError_t weft_launch_kernel(const void *host, dim3 grid, dim3 block, void **arguments, size_t shared_bytes,
                               uint32_t cooperative, cudaStream_t stream) {
  if (weft_record_launch(host, grid, block, arguments, shared_bytes, cooperative, stream)) return cudaSuccess;
  function *found = find_function(host);
  if (!found) return weft_fail(cudaErrorInvalidDeviceFunction);
  weft_launch launch = {{grid.x, grid.y, grid.z}, {block.x, block.y, block.z}, shared_bytes, cooperative};
  if (cudaError_t error = check_launch(launch)) return weft_fail(error);
  if (shared_bytes > 164 << 10) return weft_fail(cudaErrorInvalidValue);
  double asked = weft_now(), start = asked;
  cudaError_t error;
  weft_running_kernel = found->kernel;
  if (weft_run_grid(&found->codes, found->kernel, &launch, arguments, &error, &start)) {
    made_for += start - asked;
  } else {
    start = weft_now();
    made_for += start - asked;
    if (weft_watching) weft_watch_launch(found->kernel, &launch);
    error = weft_run_threads(found->kernel, &launch, arguments);
    if (weft_watching) weft_watch_launch(nullptr, nullptr);
    ++found->threads_launches;
  }
  weft_running_kernel = nullptr;
  found->seconds += weft_now() - start;
  ++found->launches;
  return weft_fail_running(error);
}

const weft_variable *weft_find_variable(const char *unit, const char *name) {
  for (const tables *some = &all_tables; some; some = some->next)
    for (weft_variable *one = some->variables; one < some->variables_end; ++one)
      if (strcmp(one->name, name) == 0 && strcmp(one->unit, unit) == 0) return one;
  return nullptr;
}
const void *weft_find_kernel(const char *unit, const char *name) {
  for (function *one = functions; one; one = one->next)
    if (strcmp(one->kernel->name, name) == 0 && strcmp(one->kernel->unit, unit) == 0) return one->host;
  return nullptr;
}
const char *weft_device_name(const void *host) {
  if (function *found = find_function(host)) return found->kernel->name;
  for (symbol *one = symbols; one; one = one->next)
    if (one->host == host || one->at == host) return one->name;
  return nullptr;
}

extern "C" {
// A module that was loaded tells so before its units register what they have.
void weft_add_tables(weft_kernel *kernels, weft_kernel *kernels_end, weft_variable *variables,
                     weft_variable *variables_end) {
  tables *made = (tables *)calloc(1, sizeof(tables));
  *made = tables{kernels, kernels_end, variables, variables_end, all_tables.next};
  all_tables.next = made;
}
// A unit's handle is its name, which the compiler put where nvcc puts the machine code.
void **__cudaRegisterFatBinary(void *binary) {
  struct wrapper { int magic, version; const char *data; void *unused; };
  return (void **)((wrapper *)binary)->data;
}
void __cudaRegisterFatBinaryEnd(void **) {}
void __cudaUnregisterFatBinary(void **) {}

void __cudaRegisterFunction(void **unit, const char *host, char *, const char *name, int, uint3 *, uint3 *, dim3 *, dim3 *,
                            int *) {
  for (const tables *some = &all_tables; some; some = some->next)
    for (weft_kernel *one = some->kernels; one < some->kernels_end; ++one)
      if (strcmp(one->name, name) == 0 && strcmp(one->unit, (const char *)unit) == 0) {
        function *made = (function *)calloc(1, sizeof(function));
        *made = function{host, one, {}, 0.0, 0, 0, functions};
        functions = made;
        return;
      }
}
void __cudaRegisterVar(void **unit, char *host, char *, const char *name, int, size_t bytes, int, int) {
  const weft_variable *variable = weft_find_variable((const char *)unit, name);
  symbol *made = (symbol *)calloc(1, sizeof(symbol));
  *made = symbol{host, name, variable ? variable->at : host, bytes, symbols};
  symbols = made;
}

unsigned int __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes, void *stream) {
  if (depth == 16) return 1;
  pending[depth++] = configuration{grid, block, shared_bytes, stream};
  if (weft_watching) weft_watch_launching(true);
  return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared_bytes, void *stream) {
  if (depth == 0) return weft_fail(cudaErrorMissingConfiguration);
  configuration &last = pending[--depth];
  *grid = last.grid, *block = last.block, *shared_bytes = last.shared_bytes, *(void **)stream = last.stream;
  return cudaSuccess;
}
cudaError_t cudaLaunchKernel(const void *function, dim3 grid, dim3 block, void **arguments, size_t shared_bytes,
                             cudaStream_t stream) {
  cudaError_t error = weft_launch_kernel(function, grid, block, arguments, shared_bytes, 0, stream);
  if (weft_watching) weft_watch_launching(false);
  return error;
}
cudaError_t cudaLaunchCooperativeKernel(const void *function, dim3 grid, dim3 block, void **arguments,
                                        size_t shared_bytes, cudaStream_t stream) {
  return weft_launch_kernel(function, grid, block, arguments, shared_bytes, 1, stream);
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *function, void **arguments) {
  bool waits = false;  // blocks for each other
  for (unsigned int i = 0; i < config->numAttrs; ++i) {
    const cudaLaunchAttribute &one = config->attrs[i];
    waits |= one.id == cudaLaunchAttributeCooperative && one.val.cooperative;
    bool is_cluster = one.id == cudaLaunchAttributeClusterDimension;
    if (is_cluster && one.val.clusterDim.x * one.val.clusterDim.y * one.val.clusterDim.z > 1)
      return weft_fail((cudaError_t)weft_unsupported("cudaLaunchKernelExC", "clusters of several blocks", "cudaErrorNotSupported", cudaErrorNotSupported));
  }
  return (waits ? cudaLaunchCooperativeKernel : cudaLaunchKernel)(function, config->gridDim, config->blockDim, arguments,
                                                                  config->dynamicSmemBytes, config->stream);
}

cudaError_t cudaGetSymbolAddress(void **at, const void *host) {
  symbol *found = find_symbol(host);
  if (!found) return weft_fail(cudaErrorInvalidSymbol);
  *at = found->at;
  return cudaSuccess;
}
cudaError_t cudaGetSymbolSize(size_t *bytes, const void *host) {
  symbol *found = find_symbol(host);
  if (!found) return weft_fail(cudaErrorInvalidSymbol);
  *bytes = found->bytes;
  return cudaSuccess;
}
cudaError_t cudaMemcpyToSymbol(const void *host, const void *from, size_t bytes, size_t offset, cudaMemcpyKind) {
  symbol *found = find_symbol(host);
  if (!found) return weft_fail(cudaErrorInvalidSymbol);
  if (offset + bytes > found->bytes) return weft_fail(cudaErrorInvalidValue);
  memmove((char *)found->at + offset, from, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemcpyFromSymbol(void *to, const void *host, size_t bytes, size_t offset, cudaMemcpyKind) {
  symbol *found = find_symbol(host);
  if (!found) return weft_fail(cudaErrorInvalidSymbol);
  if (offset + bytes > found->bytes) return weft_fail(cudaErrorInvalidValue);
  memmove(to, (char *)found->at + offset, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemcpyToSymbolAsync(const void *host, const void *from, size_t bytes, size_t offset,
                                    cudaMemcpyKind kind, cudaStream_t stream) {
  symbol *found = find_symbol(host);
  if (!found || !weft_is_recording(stream)) return cudaMemcpyToSymbol(host, from, bytes, offset, kind);
  return cudaMemcpyAsync((char *)found->at + offset, from, bytes, kind, stream);
}
cudaError_t cudaMemcpyFromSymbolAsync(void *to, const void *host, size_t bytes, size_t offset, cudaMemcpyKind kind,
                                      cudaStream_t stream) {
  symbol *found = find_symbol(host);
  if (!found || !weft_is_recording(stream)) return cudaMemcpyFromSymbol(to, host, bytes, offset, kind);
  return cudaMemcpyAsync(to, (char *)found->at + offset, bytes, kind, stream);
}
}
