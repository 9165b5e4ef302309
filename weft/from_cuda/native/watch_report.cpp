// Findings, one line of JSON each in the file that WEFT_CUDA_CHECK names, as they come: a program may end at any time.
#include "watch.h"
#include <execinfo.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// As it is when the program or the library is loaded.
static const char *const findings_file = getenv("WEFT_CUDA_CHECK") ? strdup(getenv("WEFT_CUDA_CHECK")) : nullptr;
bool weft_watching = findings_file != nullptr;
const weft_site *weft_caller_site;

namespace {
struct seen {
  uint64_t key, count;
};
seen all[4096];
int count;
bool is_told;  // the error that a call is about to give was explained already

FILE *file() {
  static FILE *const opened = fopen(findings_file, "a");
  return opened ? opened : stderr;
}

void write_text(const char *text) {
  fputc('"', file());
  for (; *text; ++text) {
    if (*text == '"' || *text == '\\') fputc('\\', file());
    if ((unsigned char)*text >= 32) fputc(*text, file());
  }
  fputc('"', file());
}

// Fills in the image that this code is part of.
int find_image(dl_phdr_info *info, size_t, void *to) {
  watched_image found = {info->dlpi_addr, (char *)UINTPTR_MAX, nullptr};
  for (int i = 0; i < info->dlpi_phnum; ++i)
    if (info->dlpi_phdr[i].p_type == PT_LOAD) {
      char *low = (char *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr), *high = low + info->dlpi_phdr[i].p_memsz;
      if (low < found.begin) found.begin = low;
      if (high > found.end) found.end = high;
    }
  bool is_ours = (char *)&weft_watching >= found.begin && (char *)&weft_watching < found.end;
  if (is_ours) *(watched_image *)to = found;
  return is_ours;
}

void write_index(const char *name, uint32_t index, const uint32_t *sizes) {
  fprintf(file(), "%s (%u,%u,%u)", name, index % sizes[0], index / sizes[0] % sizes[1], index / sizes[0] / sizes[1]);
}

void write_party(const watched_party &one) {
  fputs("{\"action\":", file());
  write_text(one.action);
  if (one.stack) {
    fputs(",\"stack\":[", file());
    for (int i = 0; i < 12 && one.stack[i]; ++i)
      fprintf(file(), "%s%lu", i ? "," : "", (unsigned long)((uintptr_t)one.stack[i] - weft_own_image().base));
    fputs("]}", file());
    return;
  }
  const weft_launch *launch = weft_watched_launch();
  fputs(",\"who\":\"", file());
  write_index("block", one.block, launch->grid);
  write_index(", thread", one.thread, launch->block);
  fputs("\"", file());
  if (one.site) {
    fputs(",\"file\":", file());
    write_text(one.site->file);
    fprintf(file(), ",\"line\":%lu", (unsigned long)one.site->line);
  }
  fputs("}", file());
}

uint64_t key_of(const char *kind, const watched_party *parties, int number) {
  uint64_t key = 1469598103934665603u;
  auto mix = [&key](uint64_t value) { key = (key ^ value) * 1099511628211u; };
  for (const char *at = kind; *at; ++at) mix((uint64_t)*at);
  for (int i = 0; i < number; ++i) {
    mix((uint64_t)parties[i].site);
    for (int j = 0; parties[i].stack && j < 12 && parties[i].stack[j]; ++j) mix((uint64_t)parties[i].stack[j]);
  }
  return key;
}

void write_counts() {
  for (int i = 0; i < count; ++i)
    if (all[i].count > 1) fprintf(file(), "{\"number\":%d,\"count\":%lu}\n", i, (unsigned long)all[i].count);
  fflush(file());
}
}  // namespace

const watched_image &weft_own_image() {
  static watched_image found = {};
  if (!found.end) dl_iterate_phdr(find_image, &found);
  return found;
}

void weft_report(const char *kind, const char *what, const watched_party *parties, int number, const char *help) {
  is_told = true;
  uint64_t key = key_of(kind, parties, number);
  for (int i = 0; i < count; ++i)
    if (all[i].key == key) {
      ++all[i].count;
      return;
    }
  if (count == 4096) return;
  if (count == 0) atexit(write_counts);
  all[count++] = seen{key, 1};
  fputs("{\"kind\":", file());
  write_text(kind);
  fputs(",\"what\":", file());
  write_text(what);
  if (weft_watched_kernel()) {
    fputs(",\"kernel\":", file());
    write_text(weft_watched_kernel());
  }
  fputs(",\"parties\":[", file());
  for (int i = 0; i < number; ++i) {
    if (i) fputs(",", file());
    write_party(parties[i]);
  }
  fputs("],\"help\":", file());
  write_text(help);
  fputs("}\n", file());
  fflush(file());
}

static thread_local void *launching[12];  // since a launch began: the function that a launch calls has the kernel's line

void weft_watch_launching(bool begins) {
  memset(launching, 0, sizeof launching);
  if (begins) weft_watch_stack(launching);
}

void weft_watch_stack(void **stack) {
  if (launching[0]) {
    memcpy(stack, launching, sizeof launching);
    return;
  }
  memset(stack, 0, 12 * sizeof(void *));
  void *found[14];
  int deep = backtrace(found, 14);
  for (int i = 1; i < deep && i < 13; ++i) stack[i - 1] = found[i];
}

void weft_report_call(const char *kind, const char *what, const char *help) {
  void *stack[12];
  weft_watch_stack(stack);
  watched_party party = {"was called", 0, 0, nullptr, stack};
  weft_report(kind, what, &party, 1, help);
  is_told = false;
}

// Any call that fails and was not explained where that was found.
void weft_report_error(cudaError_t error) {
  bool is_answer = error == cudaErrorNotReady || error == cudaErrorPeerAccessAlreadyEnabled ||
                   error == cudaErrorPeerAccessNotEnabled || error == cudaErrorInvalidDevice;
  if (is_answer || is_told) {
    is_told = false;
    return;
  }
  char what[512];
  snprintf(what, sizeof what, "a call gives %s: %s", cudaGetErrorName(error), cudaGetErrorString(error));
  weft_report_call("API misuse", what, "");
}
