// Algorithms that take each element by itself. `weft_library` has them with where they run; Thrust's own names find that
// out by a policy that is given, or by the iterators.
#pragma once
#include "thrust/functional.h"
#include "thrust/weft_iterators.h"

#define WEFT_EACH(n) for_pieces<D>(n, [=] __host__ __device__(long long begin, long long end, long long) mutable
#define WEFT_ALGORITHM(name) \
  namespace thrust { \
  template <typename First, typename... Rest> auto name(First first, Rest... rest) { \
    if constexpr (weft_is_policy<First>::value) \
      return weft_library::name<std::is_same<typename First::system, device_system_tag>::value>(rest...); \
    else return weft_library::name<weft_on_device<First, Rest...>::value>(first, rest...); \
  } \
  }

namespace weft_library {
using thrust::weft_value;

template <bool D, typename I, typename F> I for_each(I first, I last, F f) {
  WEFT_EACH(last - first) { for (; begin < end; ++begin) f(first[begin]); });
  return last;
}
template <bool D, typename I, typename N, typename F> I for_each_n(I first, N n, F f) { return for_each<D>(first, first + n, f); }

template <bool D, typename I, typename O> O copy(I first, I last, O out) {
  if constexpr (D) {
    WEFT_EACH(last - first) { for (; begin < end; ++begin) out[begin] = first[begin]; });
    return out + (last - first);
  } else {
    for (; first != last; ++first, ++out) *out = *first;
    return out;
  }
}
template <bool D, typename I, typename N, typename O> O copy_n(I first, N n, O out) { return copy<D>(first, first + n, out); }

template <bool D, typename I, typename O, typename F> O transform(I first, I last, O out, F f) {
  WEFT_EACH(last - first) { for (; begin < end; ++begin) out[begin] = f(first[begin]); });
  return out + (last - first);
}
template <bool D, typename I, typename J, typename O, typename F> O transform(I first, I last, J second, O out, F f) {
  WEFT_EACH(last - first) { for (; begin < end; ++begin) out[begin] = f(first[begin], second[begin]); });
  return out + (last - first);
}
template <bool D, typename I, typename O, typename F, typename P> O transform_if(I first, I last, O out, F f, P is) {
  WEFT_EACH(last - first) {
    for (; begin < end; ++begin)
      if (is(first[begin])) out[begin] = f(first[begin]);
  });
  return out + (last - first);
}
template <bool D, typename I, typename S, typename O, typename F, typename P>
O transform_if(I first, I last, S stencil, O out, F f, P is) {
  WEFT_EACH(last - first) {
    for (; begin < end; ++begin)
      if (is(stencil[begin])) out[begin] = f(first[begin]);
  });
  return out + (last - first);
}

template <bool D, typename I, typename T> void fill(I first, I last, T value) {
  WEFT_EACH(last - first) { for (; begin < end; ++begin) first[begin] = value; });
}
template <bool D, typename I, typename N, typename T> I fill_n(I first, N n, T value) {
  fill<D>(first, first + n, value);
  return first + n;
}
template <bool D, typename I, typename T, typename S> void sequence(I first, I last, T begin_with, S step) {
  WEFT_EACH(last - first) { for (; begin < end; ++begin) first[begin] = (weft_value<I>)(begin_with + begin * step); });
}
template <bool D, typename I, typename T> void sequence(I first, I last, T begin_with) { sequence<D>(first, last, begin_with, T(1)); }
template <bool D, typename I> void sequence(I first, I last) { sequence<D>(first, last, weft_value<I>(0)); }
template <bool D, typename I, typename F> void tabulate(I first, I last, F f) {
  WEFT_EACH(last - first) { for (; begin < end; ++begin) first[begin] = f(begin); });
}
// Generators have a state: in order.
template <bool D, typename I, typename F> void generate(I first, I last, F f) {
  run_once<D>([=] __host__ __device__() mutable { for (; first != last; ++first) *first = f(); });
}
template <bool D, typename I, typename P, typename T> void replace_if(I first, I last, P is, T with) {
  WEFT_EACH(last - first) {
    for (; begin < end; ++begin)
      if (is(first[begin])) first[begin] = with;
  });
}
template <bool D, typename I, typename T> void replace(I first, I last, T old, T with) {
  replace_if<D>(first, last, [=] __host__ __device__(const T &x) { return x == old; }, with);
}
template <bool D, typename M, typename I, typename O> O gather(M first, M last, I from, O out) {
  WEFT_EACH(last - first) { for (; begin < end; ++begin) out[begin] = from[first[begin]]; });
  return out + (last - first);
}
template <bool D, typename I, typename M, typename O> void scatter(I first, I last, M map, O out) {
  WEFT_EACH(last - first) { for (; begin < end; ++begin) out[map[begin]] = first[begin]; });
}
template <bool D, typename I, typename J> J swap_ranges(I first, I last, J other) {
  WEFT_EACH(last - first) {
    for (; begin < end; ++begin) {
      weft_value<I> kept = first[begin];
      first[begin] = other[begin], other[begin] = kept;
    }
  });
  return other + (last - first);
}
template <bool D, typename I> void reverse(I first, I last) {
  run_once<D>([=] __host__ __device__() mutable {
    while (first < last && first < --last) {
      weft_value<I> kept = *first;
      *first = *last, *last = kept, ++first;
    }
  });
}
template <bool D, typename I, typename O> O reverse_copy(I first, I last, O out) {
  return copy<D>(thrust::reverse_iterator<I>(last), thrust::reverse_iterator<I>(first), out);
}
template <bool D, typename I, typename O, typename F> O adjacent_difference(I first, I last, O out, F f) {
  run_once<D>([=] __host__ __device__() mutable {
    if (first == last) return;
    weft_value<I> before = *first;
    for (*out = before; ++first != last;) {
      weft_value<I> now = *first;
      *++out = f(now, before), before = now;
    }
  });
  return out + (last - first);
}
template <bool D, typename I, typename O> O adjacent_difference(I first, I last, O out) {
  return adjacent_difference<D>(first, last, out, thrust::minus<weft_value<I>>());
}
}  // namespace weft_library

WEFT_ALGORITHM(for_each)
WEFT_ALGORITHM(for_each_n)
WEFT_ALGORITHM(copy)
WEFT_ALGORITHM(copy_n)
WEFT_ALGORITHM(transform)
WEFT_ALGORITHM(transform_if)
WEFT_ALGORITHM(fill)
WEFT_ALGORITHM(fill_n)
WEFT_ALGORITHM(sequence)
WEFT_ALGORITHM(tabulate)
WEFT_ALGORITHM(generate)
WEFT_ALGORITHM(replace_if)
WEFT_ALGORITHM(replace)
WEFT_ALGORITHM(gather)
WEFT_ALGORITHM(scatter)
WEFT_ALGORITHM(swap_ranges)
WEFT_ALGORITHM(reverse)
WEFT_ALGORITHM(reverse_copy)
WEFT_ALGORITHM(adjacent_difference)
namespace thrust {
template <typename T> WEFT_BOTH void swap(T &a, T &b) {
  T kept = a;
  a = b, b = kept;
}
}  // namespace thrust
