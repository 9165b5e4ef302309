// Preloaded into programs: the same random numbers in every run, how many OpenMP regions there are and the time they take.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double seconds;
static long regions;

static double now(void) {
  struct timespec at;
  clock_gettime(CLOCK_MONOTONIC, &at);
  return at.tv_sec + 1e-9 * at.tv_nsec;
}

// Programs seed their random numbers with it.
time_t time(time_t *to) {
  if (to) *to = 7;
  return 7;
}

// How many threads there are is said from outside.
void omp_set_num_threads(int number) { (void)number; }

void GOMP_parallel(void (*function)(void *), void *data, unsigned int threads, unsigned int flags) {
  static void (*run)(void (*)(void *), void *, unsigned int, unsigned int);
  static int depth;
  if (!run) *(void **)&run = dlsym(RTLD_NEXT, "GOMP_parallel");
  double start = now();
  ++depth;
  run(function, data, (unsigned int)atoi(getenv("OMP_NUM_THREADS")), flags);
  if (--depth == 0) seconds += now() - start, ++regions;
}

__attribute__((destructor)) static void end(void) {
  const char *name = getenv("RODINIA_TIMES");
  FILE *file = name ? fopen(name, "w") : NULL;
  if (!file) return;
  fprintf(file, "regions %ld 0 %.9f\n", regions, seconds);
  fclose(file);
}
