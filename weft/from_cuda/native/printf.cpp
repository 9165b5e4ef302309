// printf of device code. Of threads that run one by one, clang packs the arguments into a structure, as C's variable
// arguments would be promoted; whole grids put them down in words of 64 bits, see `prints.py`.
#include "codes.h"
#include <algorithm>
#include <stdio.h>
#include <string.h>
#include <string>
#include <sys/mman.h>
#include <vector>

namespace {
struct packed {
  const char *at;
  template <typename T> T take() {
    at = (const char *)(((uintptr_t)at + alignof(T) - 1) & ~(uintptr_t)(alignof(T) - 1));
    T value;
    memcpy(&value, at, sizeof(T));
    at += sizeof(T);
    return value;
  }
  const char *text() { return take<const char *>(); }
};

struct words {
  const int64_t *at;
  const std::vector<std::string> &table;
  template <typename T> T take() {
    T value;
    memcpy(&value, at++, sizeof(T));
    return value;
  }
  const char *text() { return table[(size_t)take<int64_t>()].c_str(); }
};

// One conversion, whose text is `spec`.
template <typename Arguments> int print_one(const char *spec, Arguments &arguments) {
  size_t length = strlen(spec);
  char kind = spec[length - 1];
  bool is_long = strchr(spec, 'l') || strchr(spec, 'z') || strchr(spec, 'j') || strchr(spec, 't');
  switch (kind) {
    case 'd': case 'i': case 'u': case 'x': case 'X': case 'o': case 'c':
      return is_long ? printf(spec, arguments.template take<long long>()) : printf(spec, arguments.template take<int>());
    case 'e': case 'E': case 'f': case 'F': case 'g': case 'G': case 'a': case 'A':
      return printf(spec, arguments.template take<double>());
    case 's': return printf(spec, arguments.text());
    case 'p': return printf(spec, arguments.template take<void *>());
  }
  return printf("%s", spec);
}
template <typename Arguments> int print_all(const char *format, Arguments &arguments) {
  int written = 0;
  for (const char *at = format; *at;) {
    if (*at != '%' || at[1] == '%') {
      putchar(*at);
      at += *at == '%' ? 2 : 1;
      ++written;
      continue;
    }
    char spec[64] = {'%'};
    size_t length = 1;
    for (++at; *at && length < 48; ++at) {
      if (*at == '*') length += (size_t)snprintf(spec + length, 12, "%d", arguments.template take<int>());
      else spec[length++] = *at;
      if (*at != 'l' && *at != 'h' && strchr("diuxXoceEfFgGaAsp", *at)) break;
    }
    if (*at) ++at;
    written += print_one(spec, arguments);
  }
  return written;
}

std::vector<std::string> read_table(const char *text) {
  std::vector<std::string> table(1);
  for (; *text > ' '; ++text) {
    int byte;
    if (*text == ',') table.emplace_back();
    else if (sscanf(text, "%2x", &byte) == 1) table.back().push_back((char)byte), ++text;
  }
  return table;
}

// Words that the arguments of a format take.
size_t count_words(const char *format) {
  size_t count = 0;
  for (const char *at = format; *at; ++at) {
    if (*at != '%') continue;
    if (at[1] == '%') { ++at; continue; }
    for (++at; *at; ++at) {
      count += *at == '*';
      if (strchr("diuxXoceEfFgGaAs", *at)) break;
    }
    ++count;
    if (!*at) break;
  }
  return count;
}

const size_t room = (size_t)1 << 28;  // bytes, of which only those are there that were used
}  // namespace

extern "C" int weft_vprintf(const char *format, void *buffer) {
  packed arguments = {(const char *)buffer};
  return print_all(format, arguments);
}

int64_t *weft_prints_begin(size_t *bytes) {
  // Each thread of the host that launches has its own.
  static thread_local int64_t *const memory = (int64_t *)mmap(nullptr, room, PROT_READ | PROT_WRITE,
                                                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  *bytes = memory == (int64_t *)MAP_FAILED ? 0 : room;
  return memory;
}

void weft_prints_end(const char *texts) {
  size_t bytes;
  int64_t *const memory = weft_prints_begin(&bytes);
  size_t used = (size_t)memory[0], end = std::min(used + 1, bytes / 8);
  if (!used) return;
  const std::vector<std::string> table = read_table(texts);
  std::vector<const int64_t *> calls;
  for (size_t at = 1; at + 1 < end;) {
    size_t length = 2 + count_words(table[(size_t)memory[at + 1]].c_str());
    if (at + length > end) break;
    calls.push_back(memory + at);
    at += length;
  }
  std::stable_sort(calls.begin(), calls.end(), [](const int64_t *a, const int64_t *b) { return *a < *b; });
  for (const int64_t *call : calls) {
    words arguments = {call + 2, table};
    print_all(table[(size_t)call[1]].c_str(), arguments);
  }
  if (used + 1 > end) fprintf(stderr, "weft: a kernel printed more than there is room for; the rest is lost\n");
  if (used > 1 << 16) madvise(memory, bytes, MADV_DONTNEED);
  memory[0] = 0;
}
