// Errors, settings and the clock.
#include "watch.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static thread_local cudaError_t last_error = cudaSuccess;
static cudaError_t failure = cudaSuccess;  // of a kernel that ran

cudaError_t weft_fail(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  if (error != cudaSuccess && weft_watching) weft_report_error(error);
  return error;
}

int weft_unsupported(const char *call, const char *what, const char *name, int status) {
  static const char *told[64][2];
  static int count;  // two threads may tell the same twice
  for (int i = 0; i < count; ++i)
    if (strcmp(told[i][0], call) == 0 && strcmp(told[i][1], what) == 0) return status;
  if (count < 64) told[count][0] = call, told[count++][1] = what;
  fprintf(stderr, "weft: %s does not support %s here: it does nothing and gives %s (%d)\n", call, what, name, status);
  if (weft_watching) {
    char text[512];
    snprintf(text, sizeof text, "%s does not support %s here, and gives %s", call, what, name);
    weft_report_call("API misuse", text, "this is a limit of this CPU's library, not of the program");
  }
  return status;
}

cudaError_t weft_fail_running(cudaError_t error) {
  if (error != cudaSuccess) __atomic_store_n(&failure, error, __ATOMIC_RELAXED);
  return weft_fail(error);
}
cudaError_t weft_failure() { return __atomic_load_n(&failure, __ATOMIC_RELAXED); }

int weft_setting(const char *name) {
  const char *value = getenv(name);
  return value && value[0] && !(value[0] == '0' && !value[1]);
}

double weft_now() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec + 1e-9 * now.tv_nsec;
}

extern "C" {
cudaError_t cudaGetLastError() {
  cudaError_t error = last_error;
  last_error = cudaSuccess;
  return error;
}
cudaError_t cudaPeekAtLastError() { return last_error; }

const char *cudaGetErrorName(cudaError_t error) {
  switch (error) {
#define WEFT_NAME(name, code, text) case name: return #name;
    WEFT_CUDA_ERRORS(WEFT_NAME)
#undef WEFT_NAME
  }
  return "unrecognized error code";
}
const char *cudaGetErrorString(cudaError_t error) {
  switch (error) {
#define WEFT_TEXT(name, code, text) case name: return text;
    WEFT_CUDA_ERRORS(WEFT_TEXT)
#undef WEFT_TEXT
  }
  return "unrecognized error code";
}
}
