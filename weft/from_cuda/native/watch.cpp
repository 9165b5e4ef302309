// Accesses of a kernel's threads: whether the memory is there, was written, and whether another thread's access to it
// is ordered with this one. Blocks run one after the other here, and threads in order: what is found does not depend on
// luck. Two accesses are ordered by a barrier or a meeting of a warp between them, and between blocks by the launch, by
// the grid's barrier, or by a fence with an atomic access behind it that the other block has seen.
#include "watch.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern "C" weft_site __start_weft_sites[] __attribute__((weak));

namespace {
weft_launch launch;
const weft_kernel *kernel;
void *launch_stack[12];
uint32_t epochs, launch_epoch, clock_now;
struct { uint32_t block, thread, epoch; } now;
bool has_fenced[1024], has_returned[1024];
// Where a warp met: the lanes, and when.
const uint32_t kept_meetings = 64;
struct meeting { uint32_t time, lanes; };
meeting meetings[32][kept_meetings];
uint32_t meeting_count[32];
// Of each block, when it last released what it wrote, and when it last could have seen what others released.
struct exchange { uint32_t released, acquired; };
exchange *exchanges;
size_t exchange_count;
const weft_site *last_site;
alignas(64) char spare[4096];  // where wrong accesses go

bool has_met(const access_record &other) {
  uint32_t warp = now.thread >> 5, count = meeting_count[warp];
  uint32_t kept = count < kept_meetings ? count : kept_meetings;
  uint32_t reached = 1u << (other.thread & 31);
  for (uint32_t i = count - kept; i < count; ++i) {
    const meeting &one = meetings[warp][i % kept_meetings];
    if (one.time > other.time && one.lanes & reached) reached |= one.lanes;
  }
  bool is_forgotten = count > kept_meetings && meetings[warp][count % kept_meetings].time > other.time;
  return is_forgotten || reached >> (now.thread & 31) & 1;
}

bool is_released(const access_record &other) {
  return exchanges[other.block].released > other.time && exchanges[now.block].acquired > other.time;
}

// Whether what `other` did comes before what the thread does now, whatever the order in which threads run.
bool is_ordered(const access_record &other, bool is_shared) {
  if (other.epoch < launch_epoch) return true;
  if (other.block != now.block) return is_shared || is_released(other);
  if (other.epoch != now.epoch || other.thread == now.thread) return true;
  return other.thread >> 5 == now.thread >> 5 && has_met(other);
}

const weft_site *site_of(const access_record &one) { return one.site ? __start_weft_sites + (one.site - 1) : nullptr; }

void describe(char *to, size_t room, const watched_region *region, const char *at, watched_party *party, int *count) {
  const watched_piece *piece = region->name ? nullptr : weft_watch_piece(at);
  if (piece) {
    snprintf(to, room, "byte %zu of an allocation of %zu bytes", (size_t)(at - piece->at), piece->bytes);
    party[(*count)++] = {"allocated it", 0, 0, nullptr, piece->made};
  } else {
    snprintf(to, room, "byte %zu of `%s` (%zu bytes%s)", (size_t)(at - region->begin), region->name, region->bytes,
             region->is_shared ? ", shared" : "");
  }
}

const char *verb(uint32_t flags) {
  return flags & watch_atomic ? "changes it atomically" : flags & watch_writes ? "writes it" : "reads it";
}

bool is_in_own_warp(const access_record &one) { return one.block == now.block && one.thread >> 5 == now.thread >> 5; }

void report_race(const watched_region *region, const char *at, const access_record &other, bool other_writes,
                 uint32_t flags, const weft_site *site) {
  char place[320], what[400];
  watched_party parties[4] = {{verb(flags), now.block, now.thread, site, nullptr},
                              {verb((other_writes ? watch_writes : 0) | (other.is_atomic && !other.is_volatile && other_writes ? watch_atomic : 0)),
                               other.block, other.thread, site_of(other), nullptr}};
  int count = 2;
  describe(place, sizeof place, region, at, parties, &count);
  snprintf(what, sizeof what, "two threads access %s, and nothing orders them", place);
  weft_report("race", what, parties, count,
              other.block != now.block ? "blocks run in any order: use atomic functions, or another launch"
              : flags & watch_volatile && other.is_volatile && is_in_own_warp(other)
                  ? "threads of a warp do not run in step, volatile or not: put __syncwarp() between them"
              : is_in_own_warp(other) ? "put __syncwarp() or __syncthreads() between them"
                                      : "put __syncthreads() between them");
}

// Volatile accesses are taken as the memory model takes them, as relaxed atomic ones; but not those of one warp to
// shared memory: they hand values on as if the warp ran in step, which nothing promises since Volta.
bool meets(const access_record &one, const access_record &self, bool is_shared) {
  bool counts_on_step = is_shared && one.is_volatile && self.is_volatile && is_in_own_warp(one);
  return one.mask & self.mask && (counts_on_step || !(one.is_atomic && self.is_atomic)) && one.epoch >= launch_epoch;
}

// The race of an access with those before it; then it is one of those.
void check_order(watched_region *region, access_records &kept, const char *at, uint32_t mask, uint32_t flags, bool is_silent,
                 const weft_site *site) {
  bool is_volatile = flags & watch_volatile && !(flags & watch_atomic), writes = flags & watch_writes;
  bool is_atomic = flags & watch_atomic || is_volatile;
  uint32_t number = site ? (uint32_t)(site - __start_weft_sites) + 1 : 0;
  access_record self = {now.block, now.epoch, clock_now, now.thread, mask, is_atomic, is_volatile, is_silent,
                        number < 32768 ? number : 0};
  // A store of what is there already changes nothing that another such store or a reader could see.
  bool ignores = is_silent || (kept.wrote.is_silent && !writes);
  if (meets(kept.wrote, self, region->is_shared) && !ignores && !is_ordered(kept.wrote, region->is_shared))
    report_race(region, at, kept.wrote, true, flags, site);
  if (writes && !is_silent)
    for (const access_record *one = &kept.read; one <= &kept.read_too; ++one)
      if (meets(*one, self, region->is_shared) && !is_ordered(*one, region->is_shared)) {
        report_race(region, at, *one, false, flags, site);
        break;
      }
  if (writes) {
    if (!is_silent || kept.wrote.epoch < launch_epoch || is_ordered(kept.wrote, region->is_shared)) kept.wrote = self;
    return;
  }
  bool is_own = kept.read.block == now.block && kept.read.thread == now.thread;
  if (is_own || kept.read.epoch < launch_epoch || is_ordered(kept.read, region->is_shared)) kept.read = self;
  else kept.read_too = self;
}

void report_unwritten(watched_region *region, const char *at, const weft_site *site) {
  char place[320], what[400];
  watched_party parties[3] = {{"reads it", now.block, now.thread, site, nullptr}};
  int count = 1;
  describe(place, sizeof place, region, at, parties, &count);
  snprintf(what, sizeof what, "%s is read, and nothing was written there", place);
  weft_report("uninitialized", what, parties, count, region->is_shared ? "each block's shared memory begins with no values" : "");
}

void *report_outside(const char *at, size_t bytes, uint32_t flags, const weft_site *site) {
  char what[400];
  const char *kind = "out of bounds";
  watched_party parties[4] = {{verb(flags), now.block, now.thread, site, nullptr}};
  int count = 1;
  bool is_ours = weft_is_watched_memory(at);
  const watched_piece *piece = is_ours ? weft_watch_piece(at) : nullptr;
  const watched_piece *next = is_ours ? weft_watch_piece_behind(piece) : nullptr;
  watched_region *near = is_ours ? nullptr : weft_watch_near(at);
  if (piece && piece->is_freed && at < piece->at + piece->bytes) {
    kind = "use after free";
    snprintf(what, sizeof what, "byte %zu of an allocation of %zu bytes, which was freed", (size_t)(at - piece->at), piece->bytes);
    parties[count++] = {"freed it", 0, 0, nullptr, piece->freed};
  } else if (piece || next) {
    if (!piece || (next && next->at - at < at - (piece->at + (long)piece->bytes))) {
      piece = next;
      snprintf(what, sizeof what, "%zu bytes before an allocation of %zu bytes", (size_t)(piece->at - at), piece->bytes);
    } else {
      snprintf(what, sizeof what, "%zu bytes at byte %zu of an allocation of %zu bytes", bytes, (size_t)(at - piece->at), piece->bytes);
    }
    parties[count++] = {"allocated it", 0, 0, nullptr, piece->made};
  } else if (near) {
    snprintf(what, sizeof what, "%zu bytes at byte %ld of `%s`, which has %zu", bytes, (long)(at - near->begin), near->name, near->bytes);
  } else if ((uintptr_t)at < 4096) {
    snprintf(what, sizeof what, "a null pointer is followed, to byte %zu behind it", (size_t)at);
  } else {
    snprintf(what, sizeof what, "%zu bytes that are not in memory of the device", bytes);
  }
  parties[count++] = {"launched it", 0, 0, nullptr, launch_stack};
  weft_report(kind, what, parties, count, (uintptr_t)at >= 4096 && !piece && !near ? "a pointer of the host, or one that was never set?" : "");
  memset(spare, 0, sizeof spare);
  return bytes <= sizeof spare ? spare : (void *)at;
}

// Variables of a thread that a pointer leads to, and what a compiler put into the program to be read.
bool is_own(const char *at, uint32_t flags) {
  const char *here = (const char *)__builtin_frame_address(0);
  if (at >= weft_stacks_begin && at < weft_stacks_end) return true;
  if (at > here - 65536 && at < here + (8 << 20)) return true;
  const watched_image &image = weft_own_image();
  return !(flags & watch_writes) && at >= image.begin && at < image.end && !weft_watch_near(at);
}

// An atomic function's value is only told where zero leaves memory as it is.
bool changes_nothing(const char *at, uint64_t bytes, uint32_t flags, uint64_t value) {
  return flags & watch_atomic ? value == 0 : memcmp(at, &value, bytes) == 0;
}

// Whether the thread has read these bytes of a word since the last barrier or meeting: what changed them since was
// compared with that read.
bool is_read_again(const access_record &read, uint32_t mask) {
  return read.epoch == now.epoch && read.thread == now.thread && read.time == clock_now && read.block == now.block &&
         (read.mask & mask) == mask && !read.is_atomic;
}

void exchange_order(uint32_t flags) {
  if (!(flags & (watch_atomic | watch_volatile))) return;
  exchange &own = exchanges[now.block];
  own.acquired = ++clock_now;
  if (flags & watch_writes && has_fenced[now.thread]) own.released = ++clock_now;
}
}  // namespace

const weft_launch *weft_watched_launch() { return &launch; }
void *const *weft_watched_launch_stack() { return launch_stack; }
const char *weft_watched_kernel() { return kernel ? kernel->name : nullptr; }

void weft_watch_launch(const weft_kernel *started, const weft_launch *with) {
  kernel = started;
  if (!started) return;
  launch = *with;
  clock_now = 1;
  launch_epoch = ++epochs;
  size_t blocks = (size_t)launch.grid[0] * launch.grid[1] * launch.grid[2];
  if (blocks > exchange_count) {
    exchanges = (exchange *)realloc(exchanges, blocks * sizeof(exchange));
    exchange_count = blocks;
  }
  memset(exchanges, 0, blocks * sizeof(exchange));
  weft_watch_stack(launch_stack);
  if (launch.cooperative) weft_watch_forget_shared();
}

void weft_watch_block(uint32_t block, uint32_t epoch) {
  now.block = block;
  now.epoch = epoch ? epoch : ++epochs;
  memset(meeting_count, 0, sizeof meeting_count);
  memset(has_fenced, 0, sizeof has_fenced);
  if (epoch) return;
  memset(has_returned, 0, sizeof has_returned);
  weft_watch_unit(kernel->unit, launch.shared_bytes);
}

uint32_t weft_watch_epoch() { return now.epoch; }
void weft_watch_barrier() { now.epoch = ++epochs; }
void weft_watch_thread(uint32_t thread) { now.thread = thread; }
bool weft_watch_has_returned(uint32_t thread) { return has_returned[thread]; }
void weft_watch_grid() { launch_epoch = ++epochs; }

void weft_watch_warp(uint32_t warp, uint32_t lanes) {
  meetings[warp][meeting_count[warp]++ % kept_meetings] = {++clock_now, lanes};
}

void weft_watch_divergence(uint32_t waiting, const weft_site *site, uint32_t other, const weft_site *other_site) {
  watched_party parties[3] = {{"waits at this barrier", now.block, waiting, site, nullptr},
                              {other_site ? "waits at another" : "ends without it", now.block, other, other_site, nullptr},
                              {"launched it", 0, 0, nullptr, launch_stack}};
  weft_report("divergent barrier", "some threads of a block wait at a barrier that others do not reach", parties, 3,
              "every thread of a block that has not returned must come to the same __syncthreads()");
}

void weft_watch_absent(uint32_t thread, const weft_site *site, uint32_t missing) {
  watched_party parties[2] = {{"calls it", now.block, thread, site, nullptr}, {"is named in the mask and elsewhere", now.block, missing, nullptr, nullptr}};
  weft_report("divergent barrier", "a function of a warp names lanes that do not call it", parties, 2,
              "the mask must be the lanes that come there: __ballot_sync before the branch gives it");
}

void weft_watch_assert(const char *text) {
  char what[400];
  snprintf(what, sizeof what, "`%s` does not hold", text);
  watched_party party = {"asserts it", now.block, now.thread, weft_caller_site, nullptr};
  weft_report("failed assert", what, &party, 1, "");
  has_returned[now.thread] = true;
}

// A program that takes longer than it may: what runs then is told, and the program ends. Another signal may have been
// handled halfway: what is written is little, and the command that waits ends the program a little later anyway.
static void end_program(int) {
  char what[400];
  if (kernel) {
    snprintf(what, sizeof what, "the kernel does not end: this is where one of its threads was after %s s", getenv("WEFT_CUDA_CHECK_SECONDS"));
    watched_party parties[2] = {{"accessed memory last", now.block, now.thread, last_site, nullptr},
                                {"launched it", 0, 0, nullptr, launch_stack}};
    weft_report("endless loop", what, parties, 2, "does another thread have to change what it waits for? --timeout says how long");
  } else {
    snprintf(what, sizeof what, "the program has not ended after %s s, and no kernel was running", getenv("WEFT_CUDA_CHECK_SECONDS"));
    weft_report("endless loop", what, nullptr, 0, "--timeout says how long");
  }
  _exit(124);
}

__attribute__((constructor)) static void limit_time() {
  const char *seconds = getenv("WEFT_CUDA_CHECK_SECONDS");
  if (!seconds) return;
  static char stack[65536];
  stack_t other = {};
  other.ss_sp = stack, other.ss_size = sizeof stack;
  sigaltstack(&other, nullptr);
  struct sigaction action = {};
  action.sa_handler = end_program;
  action.sa_flags = SA_ONSTACK;
  sigaction(SIGALRM, &action, nullptr);
  alarm((unsigned)atoi(seconds));
}

extern "C" {
void *weft_watch(char *at, uint64_t bytes, uint64_t packed, const weft_site *site, uint64_t value) {
  uint32_t flags = (uint32_t)packed & 255;
  watched_region *region = weft_watch_region(at);
  // Functions of our headers read descriptions of textures, which are the runtime library's.
  if (!site && !region && !(flags & watch_writes) && (uintptr_t)at >= 4096) return at;
  if (!site) site = weft_caller_site;
  last_site = site;
  if (!region) return is_own(at, flags) ? at : report_outside(at, bytes, flags, site);
  uint64_t align = packed >> 8;
  if (align > 1 && (uintptr_t)at & (align - 1)) {
    char what[200];
    snprintf(what, sizeof what, "%lu bytes are accessed at an address that is not a multiple of %lu", (unsigned long)bytes, (unsigned long)align);
    watched_party party = {verb(flags), now.block, now.thread, site, nullptr};
    weft_report("misaligned", what, &party, 1, "a GPU stops there: vector types need pointers that are aligned to them");
  }
  size_t from = (size_t)(at - region->begin), last = from + bytes;
  if (!flags && from / 4 == (last - 1) / 4) {
    uint32_t mask = (15u >> (4 - bytes)) << (from & 3), state = region->state[from / 4];
    if ((state & state >> 4 & mask) == mask && is_read_again(region->records[from / 4].read, mask)) return at;
  }
  if (last > region->bytes + 3) return report_outside(at, bytes, flags, site);
  bool is_written = true, writes = flags & watch_writes;
  for (size_t g = from / 4; g * 4 < last; ++g) {
    uint32_t mask = 15;
    if (g * 4 < from) mask &= 15u << (from - g * 4);
    if (g * 4 + 4 > last) mask &= 15u >> (g * 4 + 4 - last);
    uint8_t state = region->state[g];
    if ((state >> 4 & mask) != mask) return report_outside(at, bytes, flags, site);
    if ((state & mask) != mask) is_written = is_written && memcmp(region->begin + g * 4, &poison, 4) != 0;
  }
  if (!is_written && (!writes || flags & watch_atomic) && !(flags & watch_copied)) report_unwritten(region, at, site);
  bool is_silent = writes && is_written && flags & watch_valued && changes_nothing(at, bytes, flags, value);
  exchange_order(flags);
  if (is_silent && flags & watch_atomic) return at;  // whenever it runs, it changes nothing
  for (size_t g = from / 4; g * 4 < last; ++g) {
    uint32_t mask = 15;
    if (g * 4 < from) mask &= 15u << (from - g * 4);
    if (g * 4 + 4 > last) mask &= 15u >> (g * 4 + 4 - last);
    if (writes) region->state[g] |= (uint8_t)mask;
    check_order(region, region->records[g], region->begin + g * 4, mask, flags, is_silent, site);
  }
  return at;
}

void *weft_watch_local(char *at, uint64_t bytes, char *begin, uint64_t size, const weft_site *site) {
  if (at >= begin && at + bytes <= begin + size) return at;
  char what[200];
  snprintf(what, sizeof what, "%lu bytes at byte %ld of a local variable of %lu bytes", (unsigned long)bytes, (long)(at - begin), (unsigned long)size);
  watched_party party = {"accesses it", now.block, now.thread, site ? site : weft_caller_site, nullptr};
  weft_report("out of bounds", what, &party, 1, "");
  memset(spare, 0, sizeof spare);
  return spare;
}

void weft_watch_fence() { has_fenced[now.thread] = true; }
void weft_watch_return() { has_returned[now.thread] = true; }
}
