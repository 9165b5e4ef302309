// Code for whole grids, and what is known of it.
#pragma once
#include "weft_cuda.h"

// In the section weft_codes: code for launches whose key is this text, and the two texts that `grid_code.py` writes.
struct weft_code {
  const char *unit, *name, *key, *pointers, *slots;
  int (*entry)(uint64_t *slots);
};

const int most_pointers = 64;
struct where { int argument, offset; };
struct version {
  const char *key, *slots;
  int (*entry)(uint64_t *slots);
  version *next;
};
// Of a kernel: where its arguments have pointers, and numbers whose small values code is made for; its versions so far.
struct grid_code {
  bool is_asked, is_known;
  where pointers[most_pointers], numbers[most_pointers];
  int pointer_count, number_count;
  version *versions;
};

// Runs a launch where there is code for the grid, and says when that began: making code is not part of it.
WEFT_HIDDEN bool weft_run_grid(grid_code *codes, const weft_kernel *kernel, const weft_launch *launch, void **arguments,
                               cudaError_t *error, double *start);

// Asks the process that started this one a line; what it answers, to be freed, or null.
WEFT_HIDDEN char *weft_ask(const char *question);
// What the image of a module that was compiled at run time begins with; the name of its unit follows.
#define WEFT_MODULE "weft module "
// A kernel of a unit, by the address that its host code has for it; the name of a kernel or variable with an address.
WEFT_HIDDEN const void *weft_find_kernel(const char *unit, const char *name);
WEFT_HIDDEN const char *weft_device_name(const void *host);

// Memory for what the threads of a grid print, empty, and how it is printed with the table of texts of its slot.
WEFT_HIDDEN int64_t *weft_prints_begin(size_t *bytes);
WEFT_HIDDEN void weft_prints_end(const char *texts);
