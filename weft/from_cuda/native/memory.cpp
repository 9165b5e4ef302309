// Device memory is memory of the process: what is allocated is kept in a list, so that a kernel's code can know how
// far a pointer reaches. With WEFT_CUDA_GUARD every allocation ends at a page that may not be touched.
#include "graphs.h"
#include "watch.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

namespace {
struct allocation {
  char *at;
  size_t bytes;
  cudaMemoryType type;
  void *mapped;  // where guard pages are: the whole mapping
  size_t mapped_bytes;
};
pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
allocation *known;  // ordered by address
size_t count, room;

// The first allocation that begins after `at`.
size_t after(const void *at) {
  size_t low = 0, high = count;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (known[middle].at <= (const char *)at) low = middle + 1;
    else high = middle;
  }
  return low;
}

bool remember(allocation one) {
  pthread_mutex_lock(&lock);
  if (count == room) {
    size_t more = room ? 2 * room : 64;
    allocation *larger = (allocation *)realloc(known, more * sizeof(allocation));
    if (!larger) {
      pthread_mutex_unlock(&lock);
      return false;
    }
    known = larger, room = more;
  }
  size_t place = after(one.at);
  memmove(known + place + 1, known + place, (count - place) * sizeof(allocation));
  known[place] = one;
  ++count;
  pthread_mutex_unlock(&lock);
  return true;
}

bool find(const void *at, allocation *found) {
  pthread_mutex_lock(&lock);
  size_t place = after(at);
  bool is_inside = place > 0 && (const char *)at < known[place - 1].at + (known[place - 1].bytes ? known[place - 1].bytes : 1);
  if (is_inside) *found = known[place - 1];
  pthread_mutex_unlock(&lock);
  return is_inside;
}

bool forget(const void *at, allocation *found) {
  pthread_mutex_lock(&lock);
  size_t place = after(at);
  bool is_there = place > 0 && known[place - 1].at == at;
  if (is_there) {
    *found = known[place - 1];
    memmove(known + place - 1, known + place, (count - place) * sizeof(allocation));
    --count;
  }
  pthread_mutex_unlock(&lock);
  return is_there;
}

// The allocation ends, rounded up to 16 bytes, where a page begins that may not be touched; one before it as well.
void *guarded(size_t bytes, allocation *one) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE), inside = (bytes + page - 1) / page * page;
  one->mapped_bytes = inside + 2 * page;
  one->mapped = mmap(nullptr, one->mapped_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (one->mapped == MAP_FAILED) return nullptr;
  mprotect(one->mapped, page, PROT_NONE);
  mprotect((char *)one->mapped + page + inside, page, PROT_NONE);
  return (char *)one->mapped + page + inside - (bytes + 15) / 16 * 16;
}

// A GPU has large pages and all of them when cudaMalloc returns: kernels neither wait for pages nor miss them often.
// Allocations begin at different places of a page, so that arrays do not meet in the same sets of a cache.
void *in_large_pages(size_t bytes, allocation *one) {
  const size_t large = (size_t)2 << 20, most = (size_t)256 << 20;
  static unsigned place;
  size_t shift = __atomic_fetch_add(&place, 1, __ATOMIC_RELAXED) % 16 * (4096 + 256);
  size_t inside = (shift + bytes + large - 1) / large * large;
  one->mapped_bytes = inside + large;
  one->mapped = mmap(nullptr, one->mapped_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (one->mapped == MAP_FAILED) return nullptr;
  char *first = (char *)(((size_t)one->mapped + large - 1) / large * large), *at = first + shift;
  madvise(first, inside, MADV_HUGEPAGE);
  for (size_t n = 0; bytes <= most && n < bytes; n += 4096) ((volatile char *)at)[n] = 0;
  return at;
}

cudaError_t allocate(void **to, size_t bytes, cudaMemoryType type) {
  if (!to) return weft_fail(cudaErrorInvalidValue);
  *to = nullptr;
  if (bytes == 0) return cudaSuccess;
  static const int guard = weft_setting("WEFT_CUDA_GUARD");
  allocation one = {nullptr, bytes, type, nullptr, 0};
  void *at = nullptr;
  if (bytes > (size_t)1 << 46) return weft_fail(cudaErrorMemoryAllocation);
  if (weft_watching) at = weft_watch_place(bytes, type);
  else if (guard && type != cudaMemoryTypeHost) at = guarded(bytes, &one);
  else if (type != cudaMemoryTypeHost && bytes >= (size_t)1 << 20) at = in_large_pages(bytes, &one);
  else if (posix_memalign(&at, 256, bytes)) at = nullptr;
  one.at = (char *)at;
  if (!at || !remember(one)) return weft_fail(cudaErrorMemoryAllocation);
  *to = at;
  return cudaSuccess;
}

cudaError_t release(void *at, cudaError_t otherwise) {
  allocation one;
  if (!at) return cudaSuccess;
  bool is_known = forget(at, &one);
  if (weft_watching && !weft_watch_release(at, is_known, is_known ? one.type : 0)) return weft_fail(otherwise);
  if (!is_known) return weft_fail(otherwise);
  if (weft_watching) return cudaSuccess;
  if (one.mapped) munmap(one.mapped, one.mapped_bytes);
  else free(one.at);
  return cudaSuccess;
}

// With WEFT_CUDA_COPIES=file all that comes back from the device is written there: what two builds computed can be
// compared, whatever a program prints.
void record(const void *from, size_t bytes) {
  static FILE *const file = getenv("WEFT_CUDA_COPIES") ? fopen(getenv("WEFT_CUDA_COPIES"), "wb") : nullptr;
  if (file) fwrite(from, 1, bytes, file), fflush(file);
}

void copy_rows(char *to, size_t to_pitch, const char *from, size_t from_pitch, size_t width, size_t height) {
  for (size_t row = 0; row < height; ++row) memmove(to + row * to_pitch, from + row * from_pitch, width);
}

// What streams are asked to do, as graphs record it.
struct copy_2d {
  void *to;
  const void *from;
  size_t to_pitch, from_pitch, width, height;
  cudaMemcpyKind kind;
};
cudaError_t run_copy_2d(void *data) {
  const copy_2d &c = *(const copy_2d *)data;
  return cudaMemcpy2D(c.to, c.to_pitch, c.from, c.from_pitch, c.width, c.height, c.kind);
}
struct set_2d {
  void *at;
  size_t pitch;
  int value;
  size_t width, height;
};
cudaError_t run_set_2d(void *data) {
  const set_2d &s = *(const set_2d *)data;
  return cudaMemset2D(s.at, s.pitch, s.value, s.width, s.height);
}
}  // namespace

cudaError_t weft_run_copy(void *data) {
  const weft_copy &c = *(const weft_copy *)data;
  return cudaMemcpy(c.to, c.from, c.bytes, c.kind);
}
cudaError_t weft_run_copy_3d(void *data) { return cudaMemcpy3D((const cudaMemcpy3DParms *)data); }

uint64_t weft_bytes_behind(const void *at, const void **begin) {
  allocation one;
  if (!find(at, &one)) {
    *begin = nullptr;
    return (uint64_t)1 << 62;
  }
  *begin = one.at;
  return one.at + one.bytes - (const char *)at;
}

uint64_t weft_bytes_past(const void *at, uint64_t *bytes) {
  if (pthread_mutex_trylock(&lock)) return (uint64_t)1 << 62;  // asked when something failed: never waits
  size_t place = after(at);
  bool is_past = place > 0 && (const char *)at >= known[place - 1].at + known[place - 1].bytes;
  if (is_past) *bytes = known[place - 1].bytes;
  uint64_t past = is_past ? (uint64_t)((const char *)at - known[place - 1].at) - *bytes : (uint64_t)1 << 62;
  pthread_mutex_unlock(&lock);
  return past;
}

extern "C" {
// Memory that others allocated, whose size is known for the time of a call: how far its pointers reach.
void weft_note_memory(void *at, size_t bytes) {
  if (!at || !bytes) return;
  pthread_mutex_lock(&lock);
  size_t kept = 0;
  for (size_t i = 0; i < count; ++i) {
    bool is_stale = known[i].type == cudaMemoryTypeUnregistered && known[i].at < (char *)at + bytes &&
                    (char *)at < known[i].at + known[i].bytes;
    if (!is_stale) known[kept++] = known[i];
  }
  count = kept;
  pthread_mutex_unlock(&lock);
  remember(allocation{(char *)at, bytes, cudaMemoryTypeUnregistered, nullptr, 0});
}
void weft_forget_noted() {
  pthread_mutex_lock(&lock);
  size_t kept = 0;
  for (size_t i = 0; i < count; ++i)
    if (known[i].type != cudaMemoryTypeUnregistered) known[kept++] = known[i];
  count = kept;
  pthread_mutex_unlock(&lock);
}
cudaError_t cudaMalloc(void **at, size_t bytes) { return allocate(at, bytes, cudaMemoryTypeDevice); }
cudaError_t cudaMallocManaged(void **at, size_t bytes, unsigned int) { return allocate(at, bytes, cudaMemoryTypeManaged); }
cudaError_t cudaMallocHost(void **at, size_t bytes) { return allocate(at, bytes, cudaMemoryTypeHost); }
cudaError_t cudaHostAlloc(void **at, size_t bytes, unsigned int) { return allocate(at, bytes, cudaMemoryTypeHost); }
// While a stream records: memory that its graph keeps, at this address in every launch.
cudaError_t cudaMallocAsync(void **at, size_t bytes, cudaStream_t) { return cudaMalloc(at, bytes); }
cudaError_t cudaFree(void *at) { return release(at, cudaErrorInvalidValue); }
cudaError_t cudaFreeAsync(void *at, cudaStream_t stream) { return weft_is_recording(stream) ? cudaSuccess : cudaFree(at); }
cudaError_t cudaFreeHost(void *at) { return release(at, cudaErrorInvalidValue); }

cudaError_t cudaMallocPitch(void **at, size_t *pitch, size_t width, size_t height) {
  *pitch = (width + 511) / 512 * 512;
  return cudaMalloc(at, *pitch * height);
}
cudaError_t cudaMalloc3D(cudaPitchedPtr *at, cudaExtent extent) {
  *at = cudaPitchedPtr{nullptr, 0, extent.width, extent.height};
  return cudaMallocPitch(&at->ptr, &at->pitch, extent.width, extent.height * extent.depth);
}
cudaError_t cudaHostRegister(void *at, size_t bytes, unsigned int) {
  if (at && weft_watching) weft_watch_register((char *)at, bytes);
  return at ? cudaSuccess : weft_fail(cudaErrorInvalidValue);
}
cudaError_t cudaHostUnregister(void *) { return cudaSuccess; }
cudaError_t cudaHostGetDevicePointer(void **device, void *host, unsigned int) {
  *device = host;
  return cudaSuccess;
}
cudaError_t cudaHostGetFlags(unsigned int *flags, void *) {
  *flags = cudaHostAllocMapped;
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  *free_bytes = page * (size_t)sysconf(_SC_AVPHYS_PAGES);
  *total = page * (size_t)sysconf(_SC_PHYS_PAGES);
  return cudaSuccess;
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes *attributes, const void *at) {
  allocation one;
  bool is_known = find(at, &one);
  void *on_device = is_known ? (void *)at : nullptr, *on_host = is_known && one.type == cudaMemoryTypeDevice ? nullptr : (void *)at;
  *attributes = {is_known ? one.type : cudaMemoryTypeUnregistered, 0, on_device, on_host};
  return cudaSuccess;
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, cudaMemcpyKind kind) {
  if ((unsigned int)kind > cudaMemcpyDefault) return weft_fail(cudaErrorInvalidMemcpyDirection);
  if (bytes && (!to || !from)) return weft_fail(cudaErrorInvalidValue);
  if (weft_watching && bytes && !weft_watch_copy(to, bytes, from, bytes, kind)) return weft_fail(cudaErrorInvalidValue);
  memmove(to, from, bytes);
  if (kind == cudaMemcpyDeviceToHost) record(to, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  weft_copy copy = {to, from, bytes, kind};
  return weft_record(weft_run_copy, &copy, sizeof copy, stream) ? cudaSuccess : weft_run_copy(&copy);
}
cudaError_t cudaMemcpyPeer(void *to, int, const void *from, int, size_t bytes) {
  return cudaMemcpy(to, from, bytes, cudaMemcpyDefault);
}
cudaError_t cudaMemcpyPeerAsync(void *to, int, const void *from, int, size_t bytes, cudaStream_t stream) {
  return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream);
}
cudaError_t cudaMemcpy2D(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height,
                         cudaMemcpyKind kind) {
  if (width > to_pitch || width > from_pitch) return weft_fail(cudaErrorInvalidPitchValue);
  if (weft_watching && width && height &&
      !weft_watch_copy(to, to_pitch * (height - 1) + width, from, from_pitch * (height - 1) + width, kind))
    return weft_fail(cudaErrorInvalidValue);
  copy_rows((char *)to, to_pitch, (const char *)from, from_pitch, width, height);
  for (size_t row = 0; row < height && kind == cudaMemcpyDeviceToHost; ++row) record((char *)to + row * to_pitch, width);
  return cudaSuccess;
}
cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
                              size_t height, cudaMemcpyKind kind, cudaStream_t stream) {
  copy_2d copy = {to, from, to_pitch, from_pitch, width, height, kind};
  return weft_record(run_copy_2d, &copy, sizeof copy, stream) ? cudaSuccess : run_copy_2d(&copy);
}
static cudaPitchedPtr pitched(cudaArray_t a) {
  size_t row = a->width * a->element_bytes;
  return {a->data, row, row, a->height ? a->height : 1};
}
// Where an array takes part, the extent and both positions count its elements, as an H200 does it; bytes otherwise.
cudaError_t cudaMemcpy3D(const cudaMemcpy3DParms *what) {
  cudaPitchedPtr from = what->srcArray ? pitched(what->srcArray) : what->srcPtr;
  cudaPitchedPtr to = what->dstArray ? pitched(what->dstArray) : what->dstPtr;
  if (!from.ptr || !to.ptr) return weft_fail(cudaErrorInvalidValue);
  cudaArray_t array = what->srcArray ? what->srcArray : what->dstArray;
  size_t element = array ? array->element_bytes : 1;
  for (size_t z = 0; z < what->extent.depth; ++z) {
    char *t = (char *)to.ptr + ((z + what->dstPos.z) * to.ysize + what->dstPos.y) * to.pitch + what->dstPos.x * element;
    const char *f = (const char *)from.ptr + ((z + what->srcPos.z) * from.ysize + what->srcPos.y) * from.pitch +
                    what->srcPos.x * element;
    copy_rows(t, to.pitch, f, from.pitch, what->extent.width * element, what->extent.height);
  }
  return cudaSuccess;
}
cudaError_t cudaMemcpy3DAsync(const cudaMemcpy3DParms *what, cudaStream_t stream) {
  return weft_record(weft_run_copy_3d, what, sizeof *what, stream) ? cudaSuccess : cudaMemcpy3D(what);
}
cudaError_t cudaMemset(void *at, int value, size_t bytes) {
  if (bytes && !at) return weft_fail(cudaErrorInvalidValue);
  if (weft_watching && bytes && !weft_watch_copy(at, bytes, nullptr, 0, cudaMemcpyHostToDevice))
    return weft_fail(cudaErrorInvalidValue);
  memset(at, value, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void *at, int value, size_t bytes, cudaStream_t stream) {
  return cudaMemset2DAsync(at, bytes, value, bytes, 1, stream);
}
cudaError_t cudaMemset2D(void *at, size_t pitch, int value, size_t width, size_t height) {
  if (width && height && !at) return weft_fail(cudaErrorInvalidValue);
  if (weft_watching && width && height &&
      !weft_watch_copy(at, pitch * (height - 1) + width, nullptr, 0, cudaMemcpyHostToDevice))
    return weft_fail(cudaErrorInvalidValue);
  for (size_t row = 0; row < height; ++row) memset((char *)at + row * pitch, value, width);
  return cudaSuccess;
}
cudaError_t cudaMemset2DAsync(void *at, size_t pitch, int value, size_t width, size_t height, cudaStream_t stream) {
  set_2d set = {at, pitch, value, width, height};
  return weft_record(run_set_2d, &set, sizeof set, stream) ? cudaSuccess : run_set_2d(&set);
}
cudaError_t cudaMemset3D(cudaPitchedPtr at, int value, cudaExtent extent) {
  for (size_t z = 0; z < extent.depth; ++z)
    cudaMemset2D((char *)at.ptr + z * at.pitch * at.ysize, at.pitch, value, extent.width, extent.height);
  return cudaSuccess;
}
cudaError_t cudaMemPrefetchAsync(const void *, size_t, int, cudaStream_t) { return cudaSuccess; }
cudaError_t cudaMemAdvise(const void *, size_t, cudaMemoryAdvise, int) { return cudaSuccess; }
}
