// The CUDA samples' helpers for command lines.
#pragma once
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define STRCASECMP strcasecmp
#define STRNCASECMP strncasecmp
#define STRCPY(to, size, from) strcpy(to, from)
#define FOPEN(handle, name, mode) (handle = fopen(name, mode))
#define FOPEN_FAIL(result) ((result) == NULL)
#define SSCANF sscanf
#define SPRINTF sprintf
#ifndef EXIT_WAIVED
#define EXIT_WAIVED 2
#endif

// What follows `--name` or `-name` in the arguments: null where it is not there, "" where nothing follows.
inline const char *weft_argument(int count, const char **arguments, const char *name) {
  for (int i = 1; i < count; ++i) {
    const char *text = arguments[i];
    while (*text == '-') ++text;
    size_t length = strlen(name);
    if (text == arguments[i] || strncasecmp(text, name, length) != 0) continue;
    if (text[length] == '=') return text + length + 1;
    if (text[length] == 0) return text + length;
  }
  return NULL;
}
inline bool checkCmdLineFlag(int count, const char **arguments, const char *name) {
  return weft_argument(count, arguments, name) != NULL;
}
inline int getCmdLineArgumentInt(int count, const char **arguments, const char *name) {
  const char *found = weft_argument(count, arguments, name);
  return found ? atoi(found) : 0;
}
inline float getCmdLineArgumentFloat(int count, const char **arguments, const char *name) {
  const char *found = weft_argument(count, arguments, name);
  return found ? (float)atof(found) : 0.0f;
}
inline bool getCmdLineArgumentString(int count, const char **arguments, const char *name, char **value) {
  const char *found = weft_argument(count, arguments, name);
  *value = (char *)found;
  return found != NULL;
}
template <typename T> inline bool getCmdLineArgumentValue(int count, const char **arguments, const char *name, T *value) {
  const char *found = weft_argument(count, arguments, name);
  if (found) *value = (T)atof(found);
  return found != NULL;
}
inline char *sdkFindFilePath(const char *name, const char *) {
  FILE *file = fopen(name, "r");
  if (!file) return NULL;
  fclose(file);
  return strdup(name);
}
