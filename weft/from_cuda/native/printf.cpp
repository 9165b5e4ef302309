// printf of device code: clang packs the arguments into a structure, as C's variable arguments would be promoted.
#include <stdint.h>
#include <stdio.h>
#include <string.h>

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
};

// One conversion, whose text is `spec`.
int print_one(const char *spec, packed &arguments) {
  size_t length = strlen(spec);
  char kind = spec[length - 1];
  bool is_long = strchr(spec, 'l') || strchr(spec, 'z') || strchr(spec, 'j') || strchr(spec, 't');
  switch (kind) {
    case 'd': case 'i': case 'u': case 'x': case 'X': case 'o': case 'c':
      return is_long ? printf(spec, arguments.take<long long>()) : printf(spec, arguments.take<int>());
    case 'e': case 'E': case 'f': case 'F': case 'g': case 'G': case 'a': case 'A':
      return printf(spec, arguments.take<double>());
    case 's': return printf(spec, arguments.take<const char *>());
    case 'p': return printf(spec, arguments.take<void *>());
  }
  return printf("%s", spec);
}
}  // namespace

extern "C" int weft_vprintf(const char *format, void *buffer) {
  packed arguments = {(const char *)buffer};
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
      if (*at == '*') length += (size_t)snprintf(spec + length, 12, "%d", arguments.take<int>());
      else spec[length++] = *at;
      if (*at != 'l' && *at != 'h' && strchr("diuxXoceEfFgGaAsp", *at)) break;
    }
    if (*at) ++at;
    written += print_one(spec, arguments);
  }
  return written;
}
