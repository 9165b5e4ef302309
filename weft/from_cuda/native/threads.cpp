// A kernel thread by thread. Where it has barriers, each thread of a block has a stack of its own (a fiber) and runs
// until it must wait; then the next one runs. Threads run in order, so that what they print and what a debugger shows
// makes sense. A block runs on one thread of the system: its shared memory is that thread's own.
#include "watch.h"
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

extern "C" {
thread_local uint3 threadIdx, blockIdx;
thread_local uint3 blockDim, gridDim;
alignas(128) thread_local char weft_dynamic_shared[164 << 10];
}
char *weft_stacks_begin, *weft_stacks_end;

namespace {
const size_t stack_bytes = 256 << 10;
enum state { ready, yielding, at_barrier, at_warp, at_active, at_grid, done };

struct fiber {
  void *stack_pointer;
  uint3 index;
  state now;
  // What it waits for in its warp: the lanes, its own value, and the lane whose value it gets (or 32: everybody's bits).
  uint32_t mask, from;
  uint64_t value, result;
  const weft_site *site;  // where it waits
  const void *asked;      // the code that asked for the active lanes
};

struct block {
  fiber fibers[1024];
  uint32_t number, live, counted, count_result, index;
  uint32_t next;  // the fiber that is asked next whether it can run: after lanes have met, the first of their warp
  fiber *current;
  void *scheduler;
  char *stacks;
  const weft_kernel *kernel;
  void **arguments;
};
thread_local block *running;

#if defined(__x86_64__)
// Saves what a call must keep, stores the stack pointer at *from and goes on where `to` was saved.
extern "C" void weft_switch(void **from, void *to);
asm(R"(
  .text
  .globl weft_switch
  .hidden weft_switch
weft_switch:
  push %rbp
  push %rbx
  push %r12
  push %r13
  push %r14
  push %r15
  mov %rsp, (%rdi)
  mov %rsi, %rsp
  pop %r15
  pop %r14
  pop %r13
  pop %r12
  pop %rbx
  pop %rbp
  ret
)");

void *first_frame(char *top, void (*entry)()) {
  void **at = (void **)((uintptr_t)top & ~(uintptr_t)15);
  *--at = nullptr;  // where a caller's address would be: the stack is aligned as after a call
  *--at = (void *)entry;
  for (int i = 0; i < 6; ++i) *--at = nullptr;
  return at;
}
#elif defined(__aarch64__)
extern "C" void weft_switch(void **from, void *to);
asm(R"(
  .text
  .globl weft_switch
  .hidden weft_switch
weft_switch:
  sub sp, sp, #160
  stp x19, x20, [sp]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x9, sp
  str x9, [x0]
  mov sp, x1
  ldp x19, x20, [sp]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #160
  ret
)");

void *first_frame(char *top, void (*entry)()) {
  void **at = (void **)((uintptr_t)top & ~(uintptr_t)15) - 20;
  memset(at, 0, 160);
  at[11] = (void *)entry;
  return at;
}
#else
#error "threads of a block are switched on x86-64 and aarch64"
#endif

void leave(state why) {
  block *b = running;
  const weft_site *site = weft_caller_site;
  b->current->now = why;
  b->current->site = site;
  weft_switch(&b->current->stack_pointer, b->scheduler);
  if (weft_watching) weft_caller_site = site;  // threads of the system share it
}

void enter() {
  block *b = running;
  b->kernel->thread(b->arguments);
  --b->live;
  leave(done);
}

block *own_block() {
  if (running) return running;
  block *made = (block *)calloc(1, sizeof(block));
  made->stacks = (char *)mmap(nullptr, 1024 * stack_bytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (made->stacks == MAP_FAILED) {
    fprintf(stderr, "weft: no memory for the stacks of a block's threads\n");
    abort();
  }
  return running = made;
}

// Answers the lanes that wait in the warp that begins at `first`, all of `lanes` or those that are there.
void answer_warp(block *b, uint32_t first, uint32_t lanes) {
  fiber *warp = b->fibers + first;
  uint32_t bits = 0;
  for (uint32_t i = 0; i < 32; ++i)
    if (lanes >> i & 1) bits |= (uint32_t)(warp[i].value != 0) << i;
  for (uint32_t i = 0; i < 32; ++i)
    if (lanes >> i & 1) {
      uint32_t from = warp[i].from;
      // From a lane that is not there it is undefined in CUDA; sums over less than a warp, NVIDIA's samples' too, rely on 0.
      warp[i].result = from == 32 ? bits : lanes >> from & 1 ? warp[from].value : 0;
    }
  for (uint32_t i = 0; i < 32; ++i)
    if (lanes >> i & 1) warp[i].now = ready;
  if (weft_watching) weft_watch_warp(first / 32, lanes);
}

uint32_t lanes_in(block *b, uint32_t first, bool (*is)(const fiber &)) {
  uint32_t lanes = 0;
  for (uint32_t i = 0; i < 32 && first + i < b->number; ++i) lanes |= (uint32_t)is(b->fibers[first + i]) << i;
  return lanes;
}
bool is_live(const fiber &f) { return f.now != done; }
bool is_at_warp(const fiber &f) { return f.now == at_warp; }

uint64_t meet_warp(uint32_t mask, uint64_t value, uint32_t from) {
  block *b = running;
  fiber *self = b->current;
  uint32_t first = (uint32_t)(self - b->fibers) & ~31u;
  self->mask = mask, self->value = value, self->from = from, self->now = at_warp;
  uint32_t expected = mask & lanes_in(b, first, is_live);
  if ((expected & ~lanes_in(b, first, is_at_warp)) == 0) {
    answer_warp(b, first, expected);
    b->next = first;
  }
  leave(self->now);
  return self->result;
}

// Reports where threads of a block wait for others that wait elsewhere or came to the kernel's end.
void watch_barrier(block *b) {
  const fiber *first = nullptr;
  for (uint32_t i = 0; i < b->number; ++i)
    if (b->fibers[i].now == at_barrier && !first) first = b->fibers + i;
  uint32_t waiting = (uint32_t)(first - b->fibers);
  for (uint32_t i = 0; i < b->number; ++i) {
    const fiber &one = b->fibers[i];
    if (one.now == done && !weft_watch_has_returned(i)) return weft_watch_divergence(waiting, first->site, i, nullptr);
    if (one.now != done && one.site != first->site) return weft_watch_divergence(waiting, first->site, i, one.site);
  }
}
void watch_lanes(block *b, uint32_t first, uint32_t lanes) {
  for (uint32_t i = 0; i < 32; ++i) {
    const fiber &one = b->fibers[first + i];
    uint32_t missing = lanes >> i & 1 ? one.mask & lanes_in(b, first, is_live) & ~lanes : 0;
    if (missing) return weft_watch_absent(first + i, one.site, first + (uint32_t)__builtin_ctz(missing));
  }
}

void release(block *b, state from) {
  b->count_result = b->counted;
  b->counted = 0;
  for (uint32_t i = 0; i < b->number; ++i)
    if (b->fibers[i].now == from) b->fibers[i].now = ready;
}

bool has_failed;  // whether a thread's assertion did

struct grid_run {
  const weft_kernel *kernel;
  const weft_launch *launch;
  void **arguments;
  pthread_barrier_t barrier;
};
thread_local grid_run *cooperating;
pthread_mutex_t watched_turn = PTHREAD_MUTEX_INITIALIZER;  // blocks that are watched run one at a time

// Answers lanes that ask which are active: those that ask at the same place are together there.
bool answer_active(block *b, uint32_t first) {
  bool is_answered = false;
  for (uint32_t i = first; i < first + 32 && i < b->number; ++i) {
    if (b->fibers[i].now != at_active) continue;
    const void *place = b->fibers[i].asked;
    uint32_t lanes = 0;
    for (uint32_t j = i; j < first + 32 && j < b->number; ++j)
      lanes |= (uint32_t)(b->fibers[j].now == at_active && b->fibers[j].asked == place) << (j - first);
    for (uint32_t j = i; j < first + 32 && j < b->number; ++j)
      if (lanes >> (j - first) & 1) b->fibers[j].result = lanes, b->fibers[j].now = ready;
    is_answered = true;
  }
  return is_answered;
}

// Nobody can run on: lanes that ask which are active are answered first; then lanes that wait for others of their warp that wait elsewhere are answered with those that are
// there, as a GPU does for threads that have parted; then the block's barrier opens, then the grid's.
void unblock(block *b) {
  bool is_answered = false;
  for (uint32_t first = 0; first < b->number; first += 32) is_answered |= answer_active(b, first);
  if (is_answered) return;
  for (uint32_t first = 0; first < b->number; first += 32)
    if (uint32_t lanes = lanes_in(b, first, is_at_warp)) {
      if (weft_watching) watch_lanes(b, first, lanes);
      answer_warp(b, first, lanes);
      is_answered = true;
    }
  if (is_answered) return;
  for (uint32_t i = 0; i < b->number; ++i)
    if (b->fibers[i].now == at_barrier) {
      if (weft_watching) watch_barrier(b), weft_watch_barrier();
      return release(b, at_barrier);
    }
  if (weft_watching) pthread_mutex_unlock(&watched_turn);
  bool is_last = pthread_barrier_wait(&cooperating->barrier) == PTHREAD_BARRIER_SERIAL_THREAD;
  if (weft_watching) {
    if (is_last) weft_watch_grid();
    pthread_barrier_wait(&cooperating->barrier);
    pthread_mutex_lock(&watched_turn);
    weft_watch_barrier();
    weft_watch_block(b->index, weft_watch_epoch());
  }
  release(b, at_grid);
}

// Threads that ask again and again whether something has happened may ask once more.
bool wake_yielding(block *b) {
  bool is_any = false;
  for (uint32_t i = 0; i < b->number; ++i)
    if (b->fibers[i].now == yielding) b->fibers[i].now = ready, is_any = true;
  return is_any;
}
bool is_waiting(const block *b) {
  for (uint32_t i = 0; i < b->number; ++i)
    if (b->fibers[i].now != yielding && b->fibers[i].now != done) return true;
  return false;
}

void run_fibers(block *b) {
  for (uint32_t i = 0; i < b->number; ++i) {
    b->fibers[i].stack_pointer = first_frame(b->stacks + (i + 1) * stack_bytes, enter);
    b->fibers[i].now = ready;
  }
  b->live = b->number;
  bool has_asked = false;  // since anything else happened
  bool pauses = b->kernel->flags & weft_pauses;
  while (b->live) {
    bool has_run = false;
    for (b->next = 0; b->next < b->number;)
      if (uint32_t i = b->next++; b->fibers[i].now == ready) {
        has_run = true;
        b->current = b->fibers + i;
        threadIdx = b->current->index;
        if (weft_watching) weft_watch_thread(i);
        weft_switch(&b->scheduler, b->current->stack_pointer);
        if (b->current->now != yielding) has_asked = false;
      }
    if (has_run) continue;
    if (pauses && wake_yielding(b)) {  // what they ask for may come from another block
      if (has_asked) sched_yield();
      has_asked = true;
    } else if (has_asked && is_waiting(b)) {
      unblock(b);
      has_asked = false;
    } else if (wake_yielding(b)) {
      has_asked = true;
    } else {
      unblock(b);
    }
  }
}

void run_block(grid_run *run, int64_t index) {
  const weft_launch *launch = run->launch;
  block *b = own_block();
  b->kernel = run->kernel, b->arguments = run->arguments;
  gridDim = uint3{launch->grid[0], launch->grid[1], launch->grid[2]};
  blockDim = uint3{launch->block[0], launch->block[1], launch->block[2]};
  uint64_t rest = (uint64_t)index / gridDim.x;
  blockIdx = uint3{(uint32_t)(index % gridDim.x), (uint32_t)(rest % gridDim.y), (uint32_t)(rest / gridDim.y)};
  b->number = 0;
  b->index = (uint32_t)index;
  if (weft_watching) {
    pthread_mutex_lock(&watched_turn);
    weft_stacks_begin = b->stacks, weft_stacks_end = b->stacks + 1024 * stack_bytes;
    weft_watch_block(b->index, 0);
  }
  uint32_t thread = 0;
  for (uint32_t z = 0; z < blockDim.z; ++z)
    for (uint32_t y = 0; y < blockDim.y; ++y)
      for (uint32_t x = 0; x < blockDim.x; ++x) {
        if (run->kernel->flags & weft_waits) {
          b->fibers[b->number++].index = uint3{x, y, z};
        } else {
          threadIdx = uint3{x, y, z};
          if (weft_watching) weft_watch_thread(thread++);
          run->kernel->thread(run->arguments);
        }
      }
  if (b->number) run_fibers(b);
  if (weft_watching) pthread_mutex_unlock(&watched_turn);
}

int run_blocks(void *context, int64_t begin, int64_t end) {
  for (int64_t index = begin; index < end; ++index) run_block((grid_run *)context, index);
  return 0;
}

struct cooperative_block {
  grid_run *run;
  int64_t index;
};
void *run_cooperative_block(void *context) {
  cooperative_block *one = (cooperative_block *)context;
  cooperating = one->run;
  run_block(one->run, one->index);
  return nullptr;
}

const int64_t most_cooperating = 256;

// Blocks that wait for one another: each on a thread of the system.
cudaError_t run_cooperative(grid_run *run, int64_t blocks) {
  if (blocks > most_cooperating) return cudaErrorCooperativeLaunchTooLarge;
  pthread_t threads[most_cooperating];
  cooperative_block all[most_cooperating];
  pthread_barrier_init(&run->barrier, nullptr, (unsigned int)blocks);
  for (int64_t i = 0; i < blocks; ++i) {
    all[i] = cooperative_block{run, i};
    if (pthread_create(&threads[i], nullptr, run_cooperative_block, &all[i])) return cudaErrorLaunchOutOfResources;
  }
  for (int64_t i = 0; i < blocks; ++i) pthread_join(threads[i], nullptr);
  pthread_barrier_destroy(&run->barrier);
  return cudaSuccess;
}
}  // namespace

cudaError_t weft_run_threads(const weft_kernel *kernel, const weft_launch *launch, void **arguments) {
  grid_run run = {kernel, launch, arguments, {}};
  int64_t blocks = (int64_t)launch->grid[0] * launch->grid[1] * launch->grid[2];
  cudaError_t error = cudaSuccess;
  __atomic_store_n(&has_failed, false, __ATOMIC_RELAXED);
  bool waits_for_blocks = kernel->flags & weft_pauses && blocks > 1 && blocks <= most_cooperating && !weft_watching;
  if (launch->cooperative || waits_for_blocks) error = run_cooperative(&run, blocks);
  else weft_parallel_for(run_blocks, &run, blocks);
  return __atomic_load_n(&has_failed, __ATOMIC_RELAXED) ? cudaErrorAssert : error;
}

// What device code calls.
extern "C" {
// The thread ends there; the launch gives an error. Kernels that assert something run as fibers.
void weft_assert_fail(const char *text, const char *file, unsigned int line, const char *function) {
  if (weft_watching) {
    weft_watch_assert(text);
  } else {
    fprintf(stderr, "%s:%u: %s: block: [%u,%u,%u], thread: [%u,%u,%u] Assertion `%s` failed.\n", file, line, function,
            blockIdx.x, blockIdx.y, blockIdx.z, threadIdx.x, threadIdx.y, threadIdx.z, text);
  }
  __atomic_store_n(&has_failed, true, __ATOMIC_RELAXED);
  --running->live;
  leave(done);
}
void weft_yield() { leave(yielding); }
void weft_pause() { leave(yielding); }
void weft_pause_unless(bool done) {
  if (!done) leave(yielding);
}
void weft_sync_threads() { leave(at_barrier); }
int weft_sync_threads_count(int predicate) {
  running->counted += predicate != 0;
  leave(at_barrier);
  return (int)running->count_result;
}
void weft_sync_grid() { leave(cooperating ? at_grid : at_barrier); }
void weft_sync_warp(unsigned int mask) { meet_warp(mask, 0, 32); }
unsigned int weft_ballot(unsigned int mask, int predicate) { return (unsigned int)meet_warp(mask, predicate != 0, 32); }
unsigned long long weft_exchange(unsigned int mask, unsigned long long value, unsigned int from) {
  return meet_warp(mask, value, from & 31);
}
unsigned int weft_active_mask() {
  fiber *self = running->current;
  self->asked = __builtin_return_address(0);
  leave(at_active);
  return (unsigned int)self->result;
}
long long weft_clock64() { return (long long)(weft_now() * 2e9); }
// Shared memory is one piece of the thread's own: within it, 32 bits of an address tell the others.
void *weft_shared_at(unsigned int address) {
  return weft_dynamic_shared + (int)(address - (unsigned int)(uintptr_t)weft_dynamic_shared);
}
unsigned long long weft_globaltimer() { return (unsigned long long)(weft_now() * 1e9); }
}
