// What watches a program: `weft cuda check` builds device code in which every access asks `weft_watch` first.
#pragma once
#include "weft_cuda.h"

// A line of a source, in the section weft_sites.
struct weft_site {
  const char *file;
  uint64_t line;
};
// As watched_text.py has them; the alignment that an access needs is above them.
enum { watch_volatile = 1, watch_atomic = 2, watch_copied = 4, watch_valued = 8, watch_writes = 16 };

// Who accessed four bytes, when: `epoch` changes at barriers, `time` where warps meet and where fences release.
struct access_record {
  uint32_t block, epoch, time;
  uint32_t thread : 10, mask : 4, is_atomic : 1, is_volatile : 1, is_silent : 1, site : 15;
};
// Of four bytes: the last that changed them, and two threads that read them since.
struct access_records { access_record wrote, read, read_too; };

// Memory that kernels may use. `state` has a byte for each four: which of them are written, which are there at all.
struct watched_region {
  char *begin;
  size_t bytes;
  uint8_t *state;
  access_records *records;
  const char *name;  // of a variable; none for what is allocated
  bool is_shared;
};

// The allocation that is at an address, or the last one before it.
struct watched_piece {
  char *at;
  size_t bytes;
  int type;  // a cudaMemoryType, or -1: made by a kernel's malloc
  bool is_freed;
  void *made[12], *freed[12];  // the host's calls
};

const uint32_t poison = 0x7fb3a5c9;  // what memory holds that nobody wrote: a float that is not a number

extern WEFT_HIDDEN bool weft_watching;
extern WEFT_HIDDEN char *weft_stacks_begin, *weft_stacks_end;  // of a block's threads
extern "C" const weft_site *weft_caller_site;

// Memory (watch_memory.cpp).
WEFT_HIDDEN void *weft_watch_place(size_t bytes, int type);
// Says whether `at` may be freed, and reports where it may not.
WEFT_HIDDEN bool weft_watch_release(void *at, bool is_known, int type);
WEFT_HIDDEN void weft_watch_reset();
WEFT_HIDDEN void weft_watch_register(char *at, size_t bytes);  // memory of the host that kernels may use
WEFT_HIDDEN bool weft_watch_copy(void *to, size_t to_bytes, const void *from, size_t from_bytes, int kind);
WEFT_HIDDEN watched_region *weft_watch_region(const char *at);
// A variable that ends shortly before `at`, or begins shortly behind it.
WEFT_HIDDEN watched_region *weft_watch_near(const char *at);
WEFT_HIDDEN const watched_piece *weft_watch_piece(const char *at);
WEFT_HIDDEN const watched_piece *weft_watch_piece_behind(const watched_piece *piece);  // the first one for none
WEFT_HIDDEN bool weft_is_watched_memory(const void *at);
WEFT_HIDDEN void weft_watch_forget_shared();
WEFT_HIDDEN void weft_watch_shared_region(char *at, size_t bytes, const char *name);
WEFT_HIDDEN void weft_watch_unit(const char *unit, size_t dynamic_bytes);

// Threads (watch.cpp), as threads.cpp runs them.
WEFT_HIDDEN void weft_watch_launch(const weft_kernel *kernel, const weft_launch *launch);
WEFT_HIDDEN void weft_watch_block(uint32_t block, uint32_t epoch);  // goes on with `block`; 0: it begins
WEFT_HIDDEN uint32_t weft_watch_epoch();
WEFT_HIDDEN void weft_watch_barrier();
WEFT_HIDDEN void weft_watch_thread(uint32_t thread);
WEFT_HIDDEN void weft_watch_warp(uint32_t warp, uint32_t lanes);
WEFT_HIDDEN void weft_watch_grid();
WEFT_HIDDEN void weft_watch_assert(const char *text);  // one that fails: its thread ends
WEFT_HIDDEN bool weft_watch_has_returned(uint32_t thread);
WEFT_HIDDEN void weft_watch_divergence(uint32_t waiting, const weft_site *site, uint32_t other, const weft_site *other_site);
WEFT_HIDDEN void weft_watch_absent(uint32_t thread, const weft_site *site, uint32_t missing);

// The program, or the library that this code is in: where it was loaded, and what it takes there.
struct watched_image {
  uintptr_t base;
  char *begin, *end;
};
WEFT_HIDDEN const watched_image &weft_own_image();

// Reports (watch_report.cpp). A finding has parties: a thread at a line, or a call of the host.
struct watched_party {
  const char *action;
  uint32_t block, thread;
  const weft_site *site;
  void *const *stack;  // instead of a thread
};
// The same of the host's call that is under way.
WEFT_HIDDEN void weft_report_call(const char *kind, const char *what, const char *help);
WEFT_HIDDEN void weft_report(const char *kind, const char *what, const watched_party *parties, int count, const char *help);
WEFT_HIDDEN void weft_watch_stack(void **stack);
WEFT_HIDDEN void weft_watch_launching(bool begins);
WEFT_HIDDEN void weft_report_error(cudaError_t error);
WEFT_HIDDEN const weft_launch *weft_watched_launch();
WEFT_HIDDEN void *const *weft_watched_launch_stack();
WEFT_HIDDEN const char *weft_watched_kernel();
