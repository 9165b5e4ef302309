// What the files of the runtime library share. It uses nothing of the C++ library, so that C programs can link it.
#pragma once
#include "cuda_runtime_api.h"
#include <stdint.h>

#define WEFT_HIDDEN __attribute__((visibility("hidden")))

extern "C" {
// A launch: sizes, shared memory, and where the arguments are.
struct weft_launch {
  uint32_t grid[3], block[3];
  uint64_t shared_bytes;
  uint32_t cooperative;
};

// A kernel as a function of one thread, as the compiler put it into the section weft_kernels.
struct weft_kernel {
  const char *unit, *source, *name;  // source: what tells the text it was made of from any other
  void (*thread)(void **arguments);
  uint64_t flags;  // see below
  const uint64_t *sizes;  // how many arguments it has, then the bytes of each
};
// A kernel has barriers or warp functions; it is of our own headers, whose threads take a piece each; its threads may
// wait in loops for those of other blocks.
enum { weft_waits = 1, weft_own = 2, weft_pauses = 4 };
// A variable of the device, in the section weft_variables.
struct weft_variable {
  const char *unit, *name;
  void *at;
  uint64_t bytes;
};

int64_t weft_parallel_for(int (*function)(void *context, int64_t begin, int64_t end), void *context, int64_t n);
void weft_set_threads(int64_t threads);
int weft_with_team(int (*function)(void *context), void *context);
void *weft_alloc(int64_t bytes);
void weft_free(void *block);
}

// Remembers `error` as the last one and gives it back.
WEFT_HIDDEN cudaError_t weft_fail(cudaError_t error);
// Tells, once, that `call` does not do `what` and answers with the error called `name`; gives back its number, `status`.
WEFT_HIDDEN int weft_unsupported(const char *call, const char *what, const char *name, int status);
// The same for a kernel that failed while it ran: who waits for the device is told so from then on, as on a GPU.
WEFT_HIDDEN cudaError_t weft_fail_running(cudaError_t error);
WEFT_HIDDEN cudaError_t weft_failure();
// Runs a kernel thread by thread; blocks on the pool, or one after the other in serial mode.
WEFT_HIDDEN cudaError_t weft_run_threads(const weft_kernel *kernel, const weft_launch *launch, void **arguments);
// The bytes from `at` to the end of the allocation it is in, or a very large number; its begin goes to `begin`.
WEFT_HIDDEN uint64_t weft_bytes_behind(const void *at, const void **begin);
// How far `at` is behind the end of the allocation before it, or a very large number; that one's size goes to `bytes`.
WEFT_HIDDEN uint64_t weft_bytes_past(const void *at, uint64_t *bytes);
// The kernel that was launched and is not done.
WEFT_HIDDEN extern const weft_kernel *volatile weft_running_kernel;
WEFT_HIDDEN const weft_variable *weft_find_variable(const char *unit, const char *name);
WEFT_HIDDEN int weft_setting(const char *name);
WEFT_HIDDEN double weft_now();
// Seconds that launches have waited for code to be made for them.
WEFT_HIDDEN double weft_made_for();
