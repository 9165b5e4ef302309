// Code that runs a whole grid: part of the program, or made when a launch first needs it by the process that started
// this one (`weft cuda run`), which is asked over a socket. What a launch must give such code is told in a line of text,
// see `grid_code.py`.
#include "codes.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern "C" {
extern weft_code __start_weft_codes[] __attribute__((weak)), __stop_weft_codes[] __attribute__((weak));
}

namespace {
// Values of numbers that code is made for (as in `steering.py`), and versions of a kernel for such.
const int most_number = 32, most_special = 8;
const uint64_t unknown = (uint64_t)1 << 62;
const char *next_line(const char *at) { return strchr(at, '\n') ? strchr(at, '\n') + 1 : at + strlen(at); }

struct reach { uint64_t low, high; };

uint64_t pointer_at(void **arguments, where at) {
  uint64_t pointer;
  memcpy(&pointer, (char *)arguments[at.argument] + at.offset, 8);
  return pointer;
}
reach reach_of(uint64_t pointer) {
  if (!pointer) return {0, 0};
  const void *begin;
  return {pointer, pointer + weft_bytes_behind((const void *)pointer, &begin)};
}

// Reads "0:8,1:0" into `to`; where the list ends is given back.
const char *read_places(const char *at, where *to, int *count) {
  *count = 0;
  while (*count < most_pointers) {
    char *end;
    long argument = strtol(at, &end, 10);
    if (end == at || *end != ':') break;
    long offset = strtol(end + 1, &end, 10);
    to[(*count)++] = where{(int)argument, (int)offset};
    at = end;
    if (*at != ',') break;
    ++at;
  }
  return at;
}

uint64_t float_bits(float value) {
  uint32_t bits;
  memcpy(&bits, &value, 4);
  return bits;
}

// A number as code wants it: integers extended, floats of up to 32 bits as a float.
uint64_t number(const char *at, const char *type) {
#define WEFT_NUMBER(name, ctype) \
  if (strcmp(type, name) == 0) { \
    ctype value; \
    memcpy(&value, at, sizeof value); \
    return (uint64_t)(int64_t)value; \
  }
  WEFT_NUMBER("int32", int32_t)
  WEFT_NUMBER("uint32", uint32_t)
  WEFT_NUMBER("int64", int64_t)
  WEFT_NUMBER("uint64", uint64_t)
  WEFT_NUMBER("bool", uint8_t)
  WEFT_NUMBER("int8", int8_t)
  WEFT_NUMBER("uint8", uint8_t)
  WEFT_NUMBER("int16", int16_t)
  WEFT_NUMBER("uint16", uint16_t)
#undef WEFT_NUMBER
  uint64_t bits = 0;
  if (strcmp(type, "float32") == 0) memcpy(&bits, at, 4);
  if (strcmp(type, "float64") == 0) memcpy(&bits, at, 8);
  if (strcmp(type, "bfloat16") == 0) memcpy((char *)&bits + 2, at, 2);
  if (strcmp(type, "float16") == 0) {
    _Float16 value;
    memcpy(&value, at, 2);
    bits = float_bits((float)value);
  }
  return bits;
}

bool is_of_texture(const char *kind) { return strncmp(kind, "texture", 7) == 0 || strncmp(kind, "surface", 7) == 0; }

// The texture or surface called `name`: a variable, or the object that the argument at "@argument:byte" is.
const weft_texture *texture_called(const char *name, const char *unit, void **arguments) {
  where place;
  int count;
  if (*name != '@') return *(const weft_texture **)weft_find_variable(unit, name)->at;
  read_places(name + 1, &place, &count);
  return (const weft_texture *)pointer_at(arguments, place);
}

uint64_t texture_number(const weft_texture *texture, const char *what, uint64_t unit) {
  if (!texture) return 0;
  if (strcmp(what, "width") == 0) return texture->width;
  if (strcmp(what, "height") == 0) return texture->height;
  if (strcmp(what, "depth") == 0) return texture->depth;
  if (strcmp(what, "pitch") == 0) return texture->pitch / unit;
  if (strcmp(what, "slice") == 0) return texture->slice / unit;
  if (strcmp(what, "linear") == 0) return texture->linear;
  if (strcmp(what, "normalized") == 0) return texture->normalized;
  return texture->address[what[4] - '0'];  // mode0 and on
}

// Whether the elements of a texture are so many bytes long, and are given as they lie in memory: filtered only floats.
uint64_t texture_fits(const weft_texture *texture, unsigned int bytes, bool is_float) {
  if (!texture || texture->element_bytes != bytes || texture->read_as_unit) return 0;
  bool holds_floats = texture->desc.f == cudaChannelFormatKindFloat;
  return is_float == holds_floats || (!is_float && !texture->linear);
}

// The bytes that the hexadecimal digits at `text` name, made once for each version of a kernel's code.
const void *table_at(const char *text) {
  struct made { const char *text; char *bytes; made *next; };
  static made *all;
  static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&one_at_a_time);
  made *found = all;
  while (found && found->text != text) found = found->next;
  if (!found) {
    size_t count = strcspn(text, "\n") / 2;
    found = (made *)calloc(1, sizeof(made));
    *found = made{text, (char *)aligned_alloc(64, (count + 63) / 64 * 64), all};
    for (size_t i = 0; i < count; ++i) {
      char digits[3] = {text[2 * i], text[2 * i + 1], 0};
      found->bytes[i] = (char)strtol(digits, nullptr, 16);
    }
    all = found;
  }
  pthread_mutex_unlock(&one_at_a_time);
  return found->bytes;
}

// The value of the parameter that the line at `text` describes.
uint64_t slot_value(const char *text, const char *unit, const weft_launch *launch, void **arguments) {
  char kind[16], first[512], second[512], third[32];
  first[0] = second[0] = third[0] = 0;
  sscanf(text, "%15s %511s %511s %31s", kind, first, second, third);
  where places[most_pointers];
  int count;
  if (strcmp(kind, "grid") == 0) return launch->grid[atoi(first)];
  if (strcmp(kind, "block") == 0) return launch->block[atoi(first)];
  if (strcmp(kind, "shared") == 0) return launch->shared_bytes;
  if (strcmp(kind, "table") == 0) return (uint64_t)table_at(text + 6);
  if (strcmp(kind, "heap") == 0) return 0;
  if (strcmp(kind, "heap_bytes") == 0) return unknown;
  if (strncmp(kind, "prints", 6) == 0) {
    size_t bytes;
    const int64_t *memory = weft_prints_begin(&bytes);
    return kind[6] ? bytes : (uint64_t)memory;
  }
  if (is_of_texture(kind)) {
    const weft_texture *texture = texture_called(first, unit, arguments);
    const void *begin;
    if (strcmp(kind, "texture_number") == 0) return texture_number(texture, second, (uint64_t)atoll(third));
    if (strcmp(kind, "texture_fits") == 0) return texture_fits(texture, (unsigned int)atoi(second), atoi(third) == 1);
    return !texture ? 0 : kind[7] ? weft_bytes_behind(texture->data, &begin) : (uint64_t)texture->data;
  }
  if (strncmp(kind, "symbol", 6) == 0) {
    const weft_variable *variable = weft_find_variable(unit, first);
    return kind[6] ? variable->bytes : (uint64_t)variable->at;
  }
  read_places(first, places, &count);
  if (strcmp(kind, "number") == 0) return number((char *)arguments[places[0].argument] + places[0].offset, second);
  if (strcmp(kind, "address") == 0) return pointer_at(arguments, places[0]) / (uint64_t)atoll(second);
  reach all = reach_of(pointer_at(arguments, places[0]));
  for (int i = 1; i < count; ++i) {
    reach one = reach_of(pointer_at(arguments, places[i]));
    if (one.low < all.low) all.low = one.low;
    if (one.high > all.high) all.high = one.high;
  }
  if (strcmp(kind, "pointer") == 0) return all.low;
  if (strcmp(kind, "bytes") == 0) return all.high - all.low > unknown ? unknown : all.high - all.low;
  where self;  // distance: "places argument:offset/unit"
  const char *rest = read_places(second, &self, &count);
  return (pointer_at(arguments, self) - all.low) / (uint64_t)atoll(rest + 1);
}

const char *(*answer_here)(const char *question);

int server() {
  static const int found = getenv("WEFT_CUDA_SERVER") ? atoi(getenv("WEFT_CUDA_SERVER")) : -1;
  return found;
}

void make_key(const grid_code *codes, const weft_launch *launch, void **arguments, char *key, size_t room) {
  int at = snprintf(key, room, "%u %u %u %d %d %d %lu ", launch->block[0], launch->block[1], launch->block[2],
                    launch->grid[0] == 1, launch->grid[1] == 1, launch->grid[2] == 1, (unsigned long)launch->shared_bytes);
  struct span { reach r; where at; } spans[most_pointers], one;
  int count = 0;
  for (int i = 0; i < codes->pointer_count; ++i) {
    one = {reach_of(pointer_at(arguments, codes->pointers[i])), codes->pointers[i]};
    if (one.r.low == one.r.high) continue;
    int place = count++;
    for (; place > 0 && spans[place - 1].r.low > one.r.low; --place) spans[place] = spans[place - 1];
    spans[place] = one;
  }
  uint64_t end = 0;
  for (int i = 0, first = 0; i < count; ++i) {
    bool is_shared = i > 0 && spans[i].r.low < end;
    if (!is_shared) first = i;
    if (is_shared && i == first + 1)
      at += snprintf(key + at, room - at, ";%d:%d", spans[first].at.argument, spans[first].at.offset);
    if (is_shared) at += snprintf(key + at, room - at, ",%d:%d", spans[i].at.argument, spans[i].at.offset);
    if (!is_shared || spans[i].r.high > end) end = spans[i].r.high;
  }
  // A number that is another at every launch would cost a version each: after a few all launches share one.
  int special = 0;
  for (const version *one = codes->versions; one; one = one->next) special += strchr(one->key, '#') != nullptr;
  for (int i = 0, found = 0; i < codes->number_count && special < most_special; ++i) {
    int32_t value;
    memcpy(&value, (char *)arguments[codes->numbers[i].argument] + codes->numbers[i].offset, 4);
    if (value < 0 || value > most_number) continue;
    at += snprintf(key + at, room - at, "%c%d:%d=%d", found++ ? ',' : '#', codes->numbers[i].argument,
                   codes->numbers[i].offset, value);
  }
}

void read_pointers(const char *text, grid_code *to) {
  const char *rest = read_places(text, to->pointers, &to->pointer_count);
  if (*rest == '|') read_places(rest + 1, to->numbers, &to->number_count);
  to->is_known = true;
}

bool knows_pointers(grid_code *codes, const weft_kernel *kernel) {
  if (codes->is_asked) return codes->is_known;
  codes->is_asked = true;
  for (weft_code *one = __start_weft_codes; one < __stop_weft_codes && !codes->is_known; ++one)
    if (strcmp(one->name, kernel->name) == 0 && strcmp(one->unit, kernel->unit) == 0) {
      read_pointers(one->pointers, codes);
    }
  char question[4096];
  snprintf(question, sizeof question, "kernel %s %s %s\n", kernel->unit, kernel->source, kernel->name);
  if (char *answer = codes->is_known ? nullptr : weft_ask(question)) {
    read_pointers(next_line(answer), codes);
    free(answer);
  }
  return codes->is_known;
}

// Whether the program has the variables that code asks for.
bool has_variables(const char *unit, const char *slots) {
  for (const char *line = slots; *line && *line != '\n'; line = next_line(line)) {
    char kind[16], name[512];
    if (sscanf(line, "%15s %511s", kind, name) == 2 && (strncmp(kind, "symbol", 6) == 0 || is_of_texture(kind)) &&
        *name != '@' && !weft_find_variable(unit, name))
      return false;
  }
  return true;
}

bool find_embedded(const char *unit, const char *name, const char *key, version *to) {
  for (weft_code *one = __start_weft_codes; one < __stop_weft_codes; ++one)
    if (strcmp(one->name, name) == 0 && strcmp(one->unit, unit) == 0 && strcmp(one->key, key) == 0 &&
        has_variables(unit, one->slots)) {
      to->entry = one->entry;
      to->slots = one->slots;
      return true;
    }
  return false;
}

// What a library's code calls of ours; its own names for these are not looked for where we are (see code_library.py).
void tell_imports(void *library) {
  void **imports = (void **)dlsym(library, "weft_imports");
  if (!imports) return;
  imports[0] = (void *)weft_parallel_for, imports[1] = (void *)weft_with_team;
  imports[2] = (void *)weft_alloc, imports[3] = (void *)weft_free;
}

// Code for exactly such launches, of the program itself or from the server, else for any; none is remembered as well.
version *find_version(grid_code *codes, const weft_kernel *kernel, const char *key) {
  const char *unit = kernel->unit, *name = kernel->name;
  for (version *one = codes->versions; one; one = one->next)
    if (strcmp(one->key, key) == 0) return one;
  version *made = (version *)calloc(1, sizeof(version));
  made->key = strdup(key);
  made->next = codes->versions;
  codes->versions = made;
  if (find_embedded(unit, name, key, made)) return made;
  char question[8192];
  snprintf(question, sizeof question, "launch %s %s %s %s\n", unit, kernel->source, name, key);
  char *answer = weft_ask(question);
  if (!answer) {
    char plain[2048];
    snprintf(plain, sizeof plain, "%.*s", (int)strcspn(key, "#"), key);
    if (!find_embedded(unit, name, plain, made) && !strchr(key, ';')) find_embedded(unit, name, "any", made);
    return made;
  }
  char *path = (char *)next_line(answer), *entry = (char *)next_line(path), *slots = (char *)next_line(entry);
  entry[-1] = slots[-1] = 0;
  if (!has_variables(unit, slots)) return made;
  if (void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL)) {
    tell_imports(library);
    made->entry = (int (*)(uint64_t *))dlsym(library, entry);
    made->slots = slots;
  } else {
    fprintf(stderr, "weft: %s\n", dlerror());
  }
  return made;
}
// Whether textures and surfaces are as the code takes them to be: of its kinds of elements, and none in the memory of a
// surface, which may be written.
bool fits_textures(const char *slots, const uint64_t *values) {
  int n = 0;
  for (const char *line = slots; *line && *line != '\n'; line = next_line(line), ++n) {
    if (strncmp(line, "texture_fits ", 13) == 0 && !values[n]) return false;
    if (strncmp(line, "surface ", 8) != 0) continue;
    int m = 0;
    for (const char *other = slots; *other && *other != '\n'; other = next_line(other), ++m)
      if (m != n && values[m] == values[n] && (strncmp(other, "surface ", 8) == 0 || strncmp(other, "texture ", 8) == 0))
        return false;
  }
  return true;
}

}  // namespace

char *weft_ask(const char *question) {
  static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;
  if (answer_here) {
    const char *found = answer_here(question);
    return found && strncmp(found, "ok", 2) == 0 ? strdup(found) : nullptr;
  }
  if (server() < 0) return nullptr;
  pthread_mutex_lock(&one_at_a_time);
  size_t room = 1 << 16, length = 0;
  char *answer = (char *)malloc(room);
  bool is_asked = write(server(), question, strlen(question)) == (ssize_t)strlen(question);
  // An answer is lines up to an empty one.
  while (is_asked && !(length >= 2 && answer[length - 1] == '\n' && answer[length - 2] == '\n')) {
    if (length + 1 == room) answer = (char *)realloc(answer, room *= 2);
    ssize_t got = read(server(), answer + length, room - 1 - length);
    if (got <= 0) break;
    length += (size_t)got;
  }
  answer[length] = 0;
  pthread_mutex_unlock(&one_at_a_time);
  if (strncmp(answer, "ok", 2) == 0) return answer;
  free(answer);
  return nullptr;
}

// A library that was loaded into a process that makes code asks there.
extern "C" void weft_answer_by(const char *(*answer)(const char *question)) { answer_here = answer; }

bool weft_run_grid(grid_code *codes, const weft_kernel *kernel, const weft_launch *launch, void **arguments,
                   cudaError_t *error, double *start) {
  static const int is_serial = weft_setting("WEFT_CUDA_SERIAL");
  if (is_serial || launch->cooperative || kernel->flags & weft_own || !knows_pointers(codes, kernel)) return false;
  // Code for whole grids takes numbers of threads as exact.
  double threads = 1;
  for (int d = 0; d < 3; ++d) threads *= (double)launch->grid[d] * launch->block[d];
  if (threads >= 2147483648.0) return false;
  char key[2048];
  make_key(codes, launch, arguments, key, sizeof key);
  version *found = find_version(codes, kernel, key);
  if (!found->entry) return false;
  int count = 0;
  for (const char *line = found->slots; *line && *line != '\n'; line = next_line(line)) ++count;
  uint64_t slots[count + 1], record[8];  // a record that is an argument has a slot for each of its numbers
  count = 0;
  for (const char *line = found->slots; *line && *line != '\n'; line = next_line(line))
    slots[count++] = slot_value(line, kernel->unit, launch, arguments);
  if (!fits_textures(found->slots, slots)) return false;
  slots[count] = (uint64_t)record;
  *start = weft_now();
  int status = found->entry(slots);
  for (const char *line = found->slots; *line && *line != '\n'; line = next_line(line))
    if (strncmp(line, "prints ", 7) == 0) weft_prints_end(line + 7);
  if (status > 0) fprintf(stderr, "weft: an assertion of kernel `%s` failed (weft cuda check says where)\n", kernel->name);
  *error = status == 0 ? cudaSuccess : status > 0 ? cudaErrorAssert : cudaErrorMemoryAllocation;
  return true;
}
