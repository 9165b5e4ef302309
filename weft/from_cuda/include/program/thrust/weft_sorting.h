// Sorting and what needs sorted elements. Pieces are sorted side by side, then merged in pairs: stable, as a merge is.
#pragma once
#include "thrust/weft_ordered.h"

namespace weft_library {
// Merges two sorted runs; of equal elements those of the first come first.
template <typename T, typename C> WEFT_BOTH void merge_runs(const T *a, long long m, const T *b, long long n, T *to, C &less) {
  long long i = 0, j = 0;
  while (i < m && j < n)
    if (less(b[j], a[i])) *to++ = b[j++];
    else *to++ = a[i++];
  while (i < m) *to++ = a[i++];
  while (j < n) *to++ = b[j++];
}
// Sorts `x` with `spare` as room: by insertion in runs of 16, which are merged.
template <typename T, typename C> WEFT_BOTH void sort_piece(T *x, T *spare, long long n, C &less) {
  for (long long run = 0; run < n; run += 16)
    for (long long i = run + 1; i < n && i < run + 16; ++i) {
      T moved = x[i];
      long long at = i;
      for (; at > run && less(moved, x[at - 1]); --at) x[at] = x[at - 1];
      x[at] = moved;
    }
  T *from = x, *to = spare;
  for (long long width = 16; width < n; width *= 2) {
    for (long long at = 0; at < n; at += 2 * width) {
      long long m = n - at < width ? n - at : width, rest = n - at - m < width ? n - at - m : width;
      merge_runs(from + at, m, from + at + m, rest, to + at, less);
    }
    T *other = from;
    from = to, to = other;
  }
  if (from != x)
    for (long long i = 0; i < n; ++i) x[i] = from[i];
}
template <bool D, typename I, typename C> void stable_sort(I first, I last, C less) {
  typedef weft_value<I> T;
  long long n = last - first;
  scratch<T> one(n), two(n);
  T *from = one.at, *to = two.at;
  for_pieces<D>(n, [=] __host__ __device__(long long begin, long long end, long long) mutable {
    for (long long i = begin; i < end; ++i) new (from + i) T(first[i]), new (to + i) T(from[i]);
    sort_piece(from + begin, to + begin, end - begin, less);
  });
  for (long long width = piece_of(n); width < n; width *= 2) {
    for_pieces<D>((n + 2 * width - 1) / (2 * width), 1, [=] __host__ __device__(long long pair, long long, long long) mutable {
      long long at = pair * 2 * width, m = n - at < width ? n - at : width, rest = n - at - m < width ? n - at - m : width;
      merge_runs(from + at, m, from + at + m, rest, to + at, less);
    });
    T *other = from;
    from = to, to = other;
  }
  WEFT_EACH(n) { for (; begin < end; ++begin) first[begin] = from[begin]; });
}
template <bool D, typename I> void stable_sort(I first, I last) { stable_sort<D>(first, last, thrust::less<weft_value<I>>()); }
template <bool D, typename I, typename C> void sort(I first, I last, C less) { stable_sort<D>(first, last, less); }
template <bool D, typename I> void sort(I first, I last) { stable_sort<D>(first, last); }
template <bool D, typename K, typename V, typename C> void stable_sort_by_key(K first, K last, V values, C less) {
  auto zipped = thrust::make_zip_iterator(first, values);
  typedef weft_value<decltype(zipped)> T;
  stable_sort<D>(zipped, zipped + (last - first), [=] __host__ __device__(const T &a, const T &b) mutable {
    return less(thrust::get<0>(a), thrust::get<0>(b));
  });
}
template <bool D, typename K, typename V> void stable_sort_by_key(K first, K last, V values) {
  stable_sort_by_key<D>(first, last, values, thrust::less<weft_value<K>>());
}
template <bool D, typename K, typename V, typename C> void sort_by_key(K first, K last, V values, C less) {
  stable_sort_by_key<D>(first, last, values, less);
}
template <bool D, typename K, typename V> void sort_by_key(K first, K last, V values) { stable_sort_by_key<D>(first, last, values); }
template <bool D, typename I, typename C> bool is_sorted(I first, I last, C less) {
  return WEFT_ONCE(bool) {
    for (std::ptrdiff_t i = 1; i < last - first; ++i)
      if (less(first[i], first[i - 1])) return false;
    return true;
  });
}
template <bool D, typename I> bool is_sorted(I first, I last) { return is_sorted<D>(first, last, thrust::less<weft_value<I>>()); }

// How many elements come before where `value` would be put in; behind equal ones where `is_upper`.
template <typename I, typename T, typename C>
WEFT_BOTH std::ptrdiff_t bound_of(I first, std::ptrdiff_t n, const T &value, C less, bool is_upper) {
  std::ptrdiff_t low = 0, high = n;
  while (low < high) {
    std::ptrdiff_t middle = (low + high) / 2;
    if (is_upper ? !less(value, first[middle]) : less(first[middle], value)) low = middle + 1;
    else high = middle;
  }
  return low;
}
#define WEFT_BOUND(name, is_upper) \
  template <bool D, typename I, typename T> I name(I first, I last, T value) { \
    return first + WEFT_ONCE(std::ptrdiff_t) { \
      return bound_of(first, last - first, value, thrust::less<weft_value<I>>(), is_upper); \
    }); \
  } \
  template <bool D, typename I, typename T, typename C, \
            typename = std::enable_if_t<!std::is_same<T, C>::value && !std::is_invocable<C>::value>, \
            typename = decltype(std::declval<C>()(std::declval<T>(), std::declval<T>()))> \
  I name(I first, I last, T value, C less) { \
    return first + WEFT_ONCE(std::ptrdiff_t) { return bound_of(first, last - first, value, less, is_upper); }); \
  } \
  template <bool D, typename I, typename J, typename O> O name(I first, I last, J begin_of, J end_of, O out) { \
    WEFT_EACH(end_of - begin_of) { \
      for (; begin < end; ++begin) \
        out[begin] = bound_of(first, last - first, begin_of[begin], thrust::less<weft_value<I>>(), is_upper); \
    }); \
    return out + (end_of - begin_of); \
  }
WEFT_BOUND(lower_bound, false)
WEFT_BOUND(upper_bound, true)
#undef WEFT_BOUND
template <bool D, typename I, typename T> bool binary_search(I first, I last, T value) {
  return lower_bound<D>(first, last, value) != upper_bound<D>(first, last, value);
}
template <bool D, typename I, typename J, typename O> O merge(I first, I last, J first2, J last2, O out) {
  run_once<D>([=] __host__ __device__() mutable {
    while (first != last || first2 != last2)
      if (first == last || (first2 != last2 && *first2 < *first)) *out = *first2, ++first2, ++out;
      else *out = *first, ++first, ++out;
  });
  return out + (last - first) + (last2 - first2);
}
// Both sets sorted: elements of either, of both, or of the first alone.
#define WEFT_SET(name, of_first, of_both, of_second) \
  template <bool D, typename I, typename J, typename O> O name(I first, I last, J first2, J last2, O out) { \
    return out + WEFT_ONCE(std::ptrdiff_t) { \
      std::ptrdiff_t count = 0; \
      while (first != last || first2 != last2) { \
        bool has_one = first != last && (first2 == last2 || !(*first2 < *first)); \
        bool has_two = first2 != last2 && (first == last || !(*first < *first2)); \
        if (has_one && has_two ? of_both : has_one ? of_first : of_second) out[count++] = has_one ? *first : *first2; \
        if (has_one) ++first; \
        if (has_two) ++first2; \
      } \
      return count; \
    }); \
  }
WEFT_SET(set_union, true, true, true)
WEFT_SET(set_intersection, false, true, false)
WEFT_SET(set_difference, true, false, false)
#undef WEFT_SET
}  // namespace weft_library

WEFT_ALL(stable_sort) WEFT_ALL(sort) WEFT_ALL(stable_sort_by_key) WEFT_ALL(sort_by_key) WEFT_ALL(is_sorted)
WEFT_ALL(lower_bound) WEFT_ALL(upper_bound) WEFT_ALL(binary_search) WEFT_ALL(merge) WEFT_ALL(set_union)
WEFT_ALL(set_intersection) WEFT_ALL(set_difference)
