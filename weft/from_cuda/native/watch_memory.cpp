// Memory of the device as it is watched: all of it lies in one stretch of addresses, none of which is given twice, with
// unused room between; so what is freed stays known, and what lies beyond an allocation is nobody's.
#include "watch.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

extern "C" {
extern weft_variable __start_weft_variables[] __attribute__((weak)), __stop_weft_variables[] __attribute__((weak));
struct weft_shared { const char *unit; void (*tell)(); };
extern weft_shared __start_weft_shared[] __attribute__((weak)), __stop_weft_shared[] __attribute__((weak));
extern thread_local char weft_dynamic_shared[];
}

namespace {
const size_t arena_bytes = (size_t)1 << 38;
watched_region arena;
size_t used;
watched_piece *pieces;
size_t piece_count, piece_room;
const int most_regions = 1024;
watched_region regions[most_regions];  // variables and shared memory
int region_count;

void *reserve(size_t bytes) {
  void *at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at != MAP_FAILED) return at;
  fprintf(stderr, "weft: no room in the address space to watch a program's memory\n");
  abort();
}

// None where there are too many: accesses there are then reported, which tells.
watched_region *add_region(char *at, size_t bytes, const char *name, bool is_shared) {
  if (region_count == most_regions) return nullptr;
  size_t granules = bytes / 4 + 2;
  access_records *records = (access_records *)calloc(granules, sizeof(access_records));
  regions[region_count] = {at, bytes, (uint8_t *)malloc(granules), records, name, is_shared};
  memset(regions[region_count].state, 0xff, granules);
  return &regions[region_count++];
}

void begin() {
  if (arena.begin) return;
  arena = {(char *)reserve(arena_bytes), arena_bytes, (uint8_t *)reserve(arena_bytes / 4),
           (access_records *)reserve(arena_bytes / 4 * sizeof(access_records)), nullptr, false};
  for (weft_variable *one = __start_weft_variables; one < __stop_weft_variables; ++one)
    add_region((char *)one->at, one->bytes, one->name, false);
}

// Sets, for each byte of a stretch, whether it is there (high bits) and written (low bits).
void set_state(uint8_t *state, size_t from, size_t bytes, bool is_there, bool is_written) {
  for (size_t at = from; at < from + bytes;) {
    if (at % 4 == 0 && from + bytes - at >= 4) {
      size_t whole = (from + bytes - at) / 4;
      memset(state + at / 4, (is_there ? 0xf0 : 0) | (is_written ? 0x0f : 0), whole);
      at += 4 * whole;
      continue;
    }
    uint8_t bit = (uint8_t)(1 << at % 4);
    uint8_t &cell = state[at / 4];
    cell = (uint8_t)(is_there ? cell | bit << 4 : cell & ~(bit << 4));
    cell = (uint8_t)(is_written ? cell | bit : cell & ~bit);
    ++at;
  }
}

void fill(char *at, size_t bytes) {
  size_t whole = bytes / 4;
  for (size_t i = 0; i < whole; ++i) memcpy(at + 4 * i, &poison, 4);
  memcpy(at + 4 * whole, &poison, bytes % 4);
}

const char *name_of(int type) {
  return type == -1 ? "of a kernel's malloc" : type == cudaMemoryTypeHost ? "of pinned memory"
       : type == cudaMemoryTypeManaged ? "of managed memory" : "of device memory";
}

// Freeing what a program has not, or has no more.
void report_release(void *at, const watched_piece *piece) {
  char what[256];
  void *stack[12];
  weft_watch_stack(stack);
  watched_party parties[3] = {{"frees it", 0, 0, nullptr, stack}};
  int count = 1;
  if (piece && piece->at == at && piece->is_freed) {
    snprintf(what, sizeof what, "an allocation of %zu bytes is freed twice", piece->bytes);
    parties[count++] = {"freed it before", 0, 0, nullptr, piece->freed};
    parties[count++] = {"allocated it", 0, 0, nullptr, piece->made};
  } else if (piece && (char *)at < piece->at + piece->bytes) {
    snprintf(what, sizeof what, "a pointer %zu bytes into an allocation of %zu bytes is freed", (size_t)((char *)at - piece->at), piece->bytes);
    parties[count++] = {"allocated it", 0, 0, nullptr, piece->made};
  } else {
    snprintf(what, sizeof what, "a pointer is freed that no call of CUDA's gave");
  }
  weft_report("API misuse", what, parties, count, "free what cudaMalloc gave, once");
}

void report_leaks() {
  for (size_t i = 0; i < piece_count; ++i)
    if (!pieces[i].is_freed) {
      char what[256];
      snprintf(what, sizeof what, "%zu bytes %s are never freed", pieces[i].bytes, name_of(pieces[i].type));
      watched_party party = {"allocated them", 0, 0, nullptr, pieces[i].made};
      weft_report("leak", what, &party, 1, pieces[i].type == -1 ? "free them in a kernel" : "call cudaFree");
    }
}

// One side of a copy. `wants_device` is 1, 0, or -1: either.
bool check_side(const char *at, size_t bytes, int wants_device, const char *side, const char *action) {
  void *stack[12];
  char what[320];
  const watched_piece *piece = weft_watch_piece(at);
  bool is_ours = weft_is_watched_memory(at);
  watched_region *variable = is_ours ? nullptr : weft_watch_region(at);
  watched_party parties[3] = {{action, 0, 0, nullptr, stack}};
  int count = 1;
  if (!is_ours && !variable) {
    if (wants_device != 1) return true;
    snprintf(what, sizeof what, "%s of a copy is memory of the host, but its kind says device", side);
  } else if (wants_device == 0 && is_ours && piece && piece->type == cudaMemoryTypeDevice) {
    snprintf(what, sizeof what, "%s of a copy is memory of the device, but its kind says host", side);
    parties[count++] = {"allocated it", 0, 0, nullptr, piece->made};
  } else if (is_ours && piece && piece->is_freed) {
    snprintf(what, sizeof what, "%s of a copy was freed", side);
    parties[count++] = {"freed it", 0, 0, nullptr, piece->freed};
  } else {
    size_t left = is_ours ? (piece ? piece->bytes - (size_t)(at - piece->at) : 0) : variable->bytes - (size_t)(at - variable->begin);
    if (is_ours && piece && at >= piece->at + piece->bytes) left = 0;
    if (bytes <= left) return true;
    snprintf(what, sizeof what, "%s of a copy has %zu bytes from there on, and %zu are copied", side, left, bytes);
    if (is_ours && piece) parties[count++] = {"allocated it", 0, 0, nullptr, piece->made};
  }
  weft_watch_stack(stack);
  weft_report("API misuse", what, parties, count, "look at the size (in bytes), the order (to, from) and the kind of the copy");
  return false;
}
}  // namespace

bool weft_is_watched_memory(const void *at) { return (size_t)((const char *)at - arena.begin) < used; }

const watched_piece *weft_watch_piece(const char *at) {
  size_t low = 0, high = piece_count;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (pieces[middle].at <= at) low = middle + 1;
    else high = middle;
  }
  return low ? &pieces[low - 1] : nullptr;
}

const watched_piece *weft_watch_piece_behind(const watched_piece *piece) {
  size_t next = piece ? (size_t)(piece - pieces) + 1 : 0;
  return next < piece_count ? pieces + next : nullptr;
}

watched_region *weft_watch_region(const char *at) {
  static watched_region *last = nullptr;
  if ((size_t)(at - arena.begin) < arena_bytes) return &arena;
  if (last && last < regions + region_count && (size_t)(at - last->begin) < last->bytes) return last;
  for (int i = region_count; i-- > 0;)
    if ((size_t)(at - regions[i].begin) < regions[i].bytes) return last = &regions[i];
  return nullptr;
}

watched_region *weft_watch_near(const char *at) {
  for (int i = region_count; i-- > 0;)
    if ((size_t)(at - regions[i].begin + 64) < regions[i].bytes + 128) return &regions[i];
  return nullptr;
}

void *weft_watch_place(size_t bytes, int type) {
  begin();
  if (!piece_count) atexit(report_leaks);
  size_t gap = bytes < 4096 ? 4096 : bytes > (1 << 20) ? 1 << 20 : bytes;
  size_t place = (used + gap + 255) / 256 * 256;
  if (place + bytes + gap > arena_bytes) return nullptr;
  used = place + bytes + gap;
  if (piece_count == piece_room) {
    piece_room = piece_room ? 2 * piece_room : 256;
    pieces = (watched_piece *)realloc(pieces, piece_room * sizeof(watched_piece));
  }
  watched_piece &piece = pieces[piece_count++];
  piece = {arena.begin + place, bytes, type, false, {}, {}};
  if (type == -1) memcpy(piece.made, weft_watched_launch_stack(), sizeof piece.made);
  else weft_watch_stack(piece.made);
  bool is_hosts = type == cudaMemoryTypeHost || type == cudaMemoryTypeManaged;
  set_state(arena.state, place, bytes, true, is_hosts);
  if (!is_hosts) fill(piece.at, bytes);
  return piece.at;
}

bool weft_watch_release(void *at, bool is_known, int type) {
  watched_piece *piece = (watched_piece *)weft_watch_piece((char *)at);
  bool is_right = is_known && piece && piece->at == at && !piece->is_freed;
  if (!is_right) {
    report_release(at, weft_is_watched_memory(at) ? piece : nullptr);
    return false;
  }
  piece->is_freed = true;
  weft_watch_stack(piece->freed);
  set_state(arena.state, (size_t)(piece->at - arena.begin), piece->bytes, false, false);
  if (piece->bytes > 1 << 16) {  // what is wholly inside goes back to the system
    uintptr_t first = ((uintptr_t)piece->at + 4095) / 4096 * 4096, last = ((uintptr_t)piece->at + piece->bytes) / 4096 * 4096;
    madvise((void *)first, last - first, MADV_DONTNEED);
  }
  return true;
}

void weft_watch_reset() {
  for (size_t i = 0; i < piece_count; ++i)
    if (pieces[i].type != cudaMemoryTypeHost) pieces[i].is_freed = true;
}

bool weft_watch_copy(void *to, size_t to_bytes, const void *from, size_t from_bytes, int kind) {
  begin();
  bool knows = kind != cudaMemcpyDefault;
  int to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  int from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  if (from_bytes && !check_side((const char *)from, from_bytes, knows ? from_device : -1, "the source", "copies from it"))
    return false;
  if (!check_side((const char *)to, to_bytes, knows ? to_device : -1, "the target", from_bytes ? "copies to it" : "sets it"))
    return false;
  if (weft_is_watched_memory(to)) set_state(arena.state, (size_t)((char *)to - arena.begin), to_bytes, true, true);
  return true;
}

void weft_watch_register(char *at, size_t bytes) {
  begin();
  add_region(at, bytes, "registered memory of the host", false);
}

void weft_watch_forget_shared() {
  int kept = 0;
  for (int i = 0; i < region_count; ++i) {
    if (!regions[i].is_shared) regions[kept++] = regions[i];
    else free(regions[i].state), free(regions[i].records);
  }
  region_count = kept;
}

// The shared memory of a block that begins: the unit's variables and what the launch asked for, nothing of it written.
void weft_watch_unit(const char *unit, size_t dynamic_bytes) {
  begin();
  for (weft_shared *one = __start_weft_shared; one < __stop_weft_shared; ++one)
    if (strcmp(one->unit, unit) == 0) one->tell();
  if (dynamic_bytes) weft_watch_shared_region(weft_dynamic_shared, dynamic_bytes, "dynamic shared memory");
}

void weft_watch_shared_region(char *at, size_t bytes, const char *name) {
  watched_region *found = nullptr;
  for (int i = 0; i < region_count && !found; ++i)
    if (regions[i].begin == at && regions[i].bytes == bytes && regions[i].is_shared) found = &regions[i];
  if (!found) found = add_region(at, bytes, name, true);
  if (!found) return;
  memset(found->state, 0, bytes / 4 + 2);
  set_state(found->state, 0, bytes, true, false);
  fill(at, bytes);
}

extern "C" {
void weft_watch_shared(char *at, size_t bytes, const char *name) { weft_watch_shared_region(at, bytes, name); }
void *weft_watch_malloc(size_t bytes) { return bytes ? weft_watch_place(bytes, -1) : nullptr; }
void weft_watch_free(void *at) {
  if (at) weft_watch_release(at, weft_is_watched_memory(at), -1);
}
}
