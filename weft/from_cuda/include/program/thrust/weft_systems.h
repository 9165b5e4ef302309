// Where an algorithm runs: host iterators in the caller's thread, device iterators in kernels of ours, whose blocks
// each take a piece on a thread of the pool. Memory is one, so that either side may look at the other's elements.
#pragma once
#include <iterator>
#include <new>
#include <type_traits>
#include <utility>
#include "cuda_runtime.h"

#define WEFT_BOTH __host__ __device__ inline

namespace thrust {
struct host_system_tag {};
struct device_system_tag {};
struct any_system_tag {};

struct weft_host_policy { typedef host_system_tag system; };
struct weft_device_policy {
  typedef device_system_tag system;
  weft_device_policy on(cudaStream_t) const { return *this; }
  template <typename Allocator> weft_device_policy operator()(Allocator &&) const { return *this; }
};
static constexpr weft_host_policy host = {}, seq = {};
static constexpr weft_device_policy device = {};
namespace cuda { static constexpr weft_device_policy par = {}, par_nosync = {}; }
namespace omp { static constexpr weft_host_policy par = {}; }
template <typename T> struct weft_is_policy
    : std::integral_constant<bool, std::is_same<std::decay_t<T>, weft_host_policy>::value ||
                                       std::is_same<std::decay_t<T>, weft_device_policy>::value> {};

// The system of an iterator: its own `system` type; the host's for pointers and iterators of the standard library.
template <typename Iterator, typename = void> struct weft_system { typedef host_system_tag type; };
template <typename Iterator> struct weft_system<Iterator, std::void_t<typename Iterator::system>> {
  typedef typename Iterator::system type;
};
template <typename T, typename = void> struct weft_is_on_host : std::false_type {};  // values and functions are nowhere
template <typename T> struct weft_is_on_host<T, std::void_t<typename std::iterator_traits<T>::iterator_category>>
    : std::is_same<typename weft_system<T>::type, host_system_tag> {};
// Without iterators of the host it is on the device.
template <typename... Arguments> struct weft_on_device
    : std::integral_constant<bool, !(... || weft_is_on_host<Arguments>::value)> {};
template <typename... Iterators> using weft_common_system =
    std::conditional_t<!weft_on_device<Iterators...>::value, host_system_tag,
                       std::conditional_t<(... && std::is_same<typename weft_system<Iterators>::type,
                                                               any_system_tag>::value),
                                          any_system_tag, device_system_tag>>;
}  // namespace thrust

namespace weft_library {
template <typename Work> __global__ void run_pieces(Work work, long long n, long long piece) {
  long long begin = blockIdx.x * piece, end = begin + piece < n ? begin + piece : n;
  if (begin < end) work(begin, end, (long long)blockIdx.x);
}

const long long most_pieces = 64, least_piece = 2048;
inline long long piece_of(long long n) {
  long long piece = (n + most_pieces - 1) / most_pieces;
  return piece < least_piece ? least_piece : piece;
}
inline long long pieces_of(long long n) { return n <= 0 ? 0 : (n + piece_of(n) - 1) / piece_of(n); }

// Calls `work(begin, end, number)` for the pieces of 0..n.
template <bool OnDevice, typename Work> void for_pieces(long long n, long long piece, Work work) {
  if (n <= 0) return;
  if constexpr (OnDevice) run_pieces<<<(unsigned int)((n + piece - 1) / piece), 1>>>(work, n, piece);
  else
    for (long long begin = 0, number = 0; begin < n; begin += piece, ++number)
      work(begin, begin + piece < n ? begin + piece : n, number);
}
template <bool OnDevice, typename Work> void for_pieces(long long n, Work work) { for_pieces<OnDevice>(n, piece_of(n), work); }
// Calls `work()` once, where the elements are.
template <bool OnDevice, typename Work> void run_once(Work work) {
  for_pieces<OnDevice>(1, [=] __host__ __device__(long long, long long, long long) mutable { work(); });
}

// Memory for the time of an algorithm.
template <typename T> struct scratch {
  T *at = nullptr;
  explicit scratch(long long n) { cudaMalloc((void **)&at, (size_t)(n > 0 ? n : 1) * sizeof(T)); }
  scratch(const scratch &) = delete;
  ~scratch() { cudaFree(at); }
};
// What `work()` gives, which runs once.
template <bool OnDevice, typename T, typename Work> T compute(Work work) {
  scratch<T> to(1);
  T *at = to.at;
  run_once<OnDevice>([=] __host__ __device__() mutable { new (at) T(work()); });
  return *at;
}
}  // namespace weft_library
