// NVRTC: a program's text, headers, options and names go into a folder as files; the process that started this one builds
// a library of them (`runtime_module.py`), which is loaded here and registers its kernels like any other unit.
#include "codes.h"
#include "nvrtc.h"
#include <dlfcn.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct _nvrtcProgram {
  char folder[4096];
  char *log, *image;
  char **names;
  int name_count;
  void **addresses;  // of what the names mean, once it is compiled
};

namespace {
void path_in(const nvrtcProgram program, const char *name, char *to, size_t room) {
  snprintf(to, room, "%s/%s", program->folder, name);
}

bool write_file(const nvrtcProgram program, const char *name, const char *const *lines, int count) {
  char path[8192];
  path_in(program, name, path, sizeof path);
  for (char *at = path + strlen(program->folder) + 1; (at = strchr(at, '/')); *at++ = '/') {
    *at = 0;
    mkdir(path, 0700);
  }
  FILE *file = fopen(path, "w");
  if (!file) return false;
  for (int i = 0; i < count; ++i) fprintf(file, count > 1 || i ? "%s\n" : "%s", lines[i]);
  return fclose(file) == 0;
}

char *read_file(const nvrtcProgram program, const char *name) {
  char path[8192];
  path_in(program, name, path, sizeof path);
  FILE *file = fopen(path, "r");
  if (!file) return nullptr;
  fseek(file, 0, SEEK_END);
  size_t bytes = (size_t)ftell(file);
  rewind(file);
  char *text = (char *)calloc(bytes + 1, 1);
  bytes = fread(text, 1, bytes, file);
  fclose(file);
  return text;
}

void remove_folder(const nvrtcProgram program) {
  nftw(program->folder, [](const char *path, const struct stat *, int, struct FTW *) { return remove(path); }, 16,
       FTW_DEPTH | FTW_PHYS);
}

nvrtcResult fail(nvrtcProgram program, const char *why) {
  free(program->log);
  program->log = strdup(why);
  return NVRTC_ERROR_COMPILATION;
}

nvrtcResult give(const char *text, size_t *bytes, char *to) {
  if (bytes) *bytes = strlen(text ? text : "") + 1;
  if (to) strcpy(to, text ? text : "");
  return NVRTC_SUCCESS;
}
}  // namespace

extern "C" {
const char *nvrtcGetErrorString(nvrtcResult result) {
  static const char *const texts[] = {
      "NVRTC_SUCCESS", "NVRTC_ERROR_OUT_OF_MEMORY", "NVRTC_ERROR_PROGRAM_CREATION_FAILURE", "NVRTC_ERROR_INVALID_INPUT",
      "NVRTC_ERROR_INVALID_PROGRAM", "NVRTC_ERROR_INVALID_OPTION", "NVRTC_ERROR_COMPILATION",
      "NVRTC_ERROR_BUILTIN_OPERATION_FAILURE", "NVRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION",
      "NVRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION", "NVRTC_ERROR_NAME_EXPRESSION_NOT_VALID",
      "NVRTC_ERROR_INTERNAL_ERROR"};
  return (unsigned int)result < sizeof texts / sizeof *texts ? texts[result] : "NVRTC_ERROR unknown";
}
nvrtcResult nvrtcVersion(int *major, int *minor) { return *major = 12, *minor = 3, NVRTC_SUCCESS; }
nvrtcResult nvrtcGetNumSupportedArchs(int *count) { return *count = 1, NVRTC_SUCCESS; }
nvrtcResult nvrtcGetSupportedArchs(int *architectures) { return *architectures = 80, NVRTC_SUCCESS; }

nvrtcResult nvrtcCreateProgram(nvrtcProgram *program, const char *source, const char *name, int header_count,
                               const char *const *headers, const char *const *include_names) {
  if (!program || !source) return NVRTC_ERROR_INVALID_INPUT;
  nvrtcProgram made = (nvrtcProgram)calloc(1, sizeof(_nvrtcProgram));
  const char *temporary = getenv("TMPDIR");
  snprintf(made->folder, sizeof made->folder, "%s/weft-nvrtc-XXXXXX", temporary ? temporary : "/tmp");
  bool is_made = mkdtemp(made->folder) && write_file(made, "source.cu", &source, 1);
  for (int i = 0; is_made && i < header_count; ++i) {
    char path[4096];
    snprintf(path, sizeof path, "include/%s", include_names[i]);
    is_made = write_file(made, path, &headers[i], 1);
  }
  if (!is_made) return remove_folder(made), free(made), NVRTC_ERROR_PROGRAM_CREATION_FAILURE;
  return *program = made, NVRTC_SUCCESS;
}
nvrtcResult nvrtcDestroyProgram(nvrtcProgram *program) {
  if (!program || !*program) return NVRTC_ERROR_INVALID_PROGRAM;
  nvrtcProgram old = *program;
  remove_folder(old);  // it is still there unless it was compiled
  for (int i = 0; i < old->name_count; ++i) free(old->names[i]);
  free(old->names), free(old->log), free(old->image), free(old);
  return *program = nullptr, NVRTC_SUCCESS;
}
nvrtcResult nvrtcCompileProgram(nvrtcProgram program, int option_count, const char *const *options) {
  if (!program) return NVRTC_ERROR_INVALID_PROGRAM;
  char here[4096], question[8192];
  const char *where = getcwd(here, sizeof here);
  if (!where || !write_file(program, "where", &where, 1) || !write_file(program, "options", options, option_count) ||
      !write_file(program, "names", program->names, program->name_count))
    return NVRTC_ERROR_OUT_OF_MEMORY;
  snprintf(question, sizeof question, "compile %s\n", program->folder);
  char *answer = weft_ask(question);
  if (!answer) {
    char *told = read_file(program, "log");
    nvrtcResult result = fail(program, told ? told : "weft: a program that was built by itself has no compiler for text "
                                                     "while it runs: start it by `weft cuda run`\n");
    free(told);
    return result;
  }
  char *path = strchr(answer, '\n') + 1, *unit = strchr(path, '\n') + 1;
  unit[-1] = 0;
  *strchr(unit, '\n') = 0;
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library) return free(answer), fail(program, dlerror());
  program->addresses = (void **)dlsym(library, "weft_names");
  size_t room = strlen(unit) + 32;
  program->image = (char *)malloc(room);
  snprintf(program->image, room, "%s%s\n", WEFT_MODULE, unit);
  free(answer);
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcGetPTXSize(nvrtcProgram program, size_t *bytes) { return give(program->image, bytes, nullptr); }
nvrtcResult nvrtcGetPTX(nvrtcProgram program, char *ptx) { return give(program->image, nullptr, ptx); }
nvrtcResult nvrtcGetCUBINSize(nvrtcProgram program, size_t *bytes) { return give(program->image, bytes, nullptr); }
nvrtcResult nvrtcGetCUBIN(nvrtcProgram program, char *cubin) { return give(program->image, nullptr, cubin); }
nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram program, size_t *bytes) { return give(program->log, bytes, nullptr); }
nvrtcResult nvrtcGetProgramLog(nvrtcProgram program, char *log) { return give(program->log, nullptr, log); }
nvrtcResult nvrtcAddNameExpression(nvrtcProgram program, const char *expression) {
  if (program->image) return NVRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION;
  program->names = (char **)realloc(program->names, (size_t)(program->name_count + 1) * sizeof(char *));
  program->names[program->name_count++] = strdup(expression);
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcGetLoweredName(nvrtcProgram program, const char *expression, const char **lowered) {
  if (!program->image) return NVRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION;
  for (int i = 0; i < program->name_count; ++i)
    if (strcmp(program->names[i], expression) == 0 && (*lowered = weft_device_name(program->addresses[i])))
      return NVRTC_SUCCESS;
  return NVRTC_ERROR_NAME_EXPRESSION_NOT_VALID;
}
}
