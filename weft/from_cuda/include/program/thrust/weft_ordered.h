// Algorithms in which elements meet: reductions, scans, searches, selections and sorting.
#pragma once
#include "thrust/weft_elementwise.h"

#define WEFT_ONCE(type) compute<D, type>([=] __host__ __device__() mutable -> type
namespace weft_library {
// Each piece by itself, then the pieces in order: `f` need not commute.
template <bool D, typename I, typename T, typename F> T reduce(I first, I last, T start, F f) {
  long long n = last - first, pieces = pieces_of(n);
  if (n <= 0) return start;
  scratch<T> room(pieces);
  T *parts = room.at;
  for_pieces<D>(n, [=] __host__ __device__(long long begin, long long end, long long number) mutable {
    T sum = first[begin];
    while (++begin < end) sum = f(sum, first[begin]);
    new (parts + number) T(sum);
  });
  return WEFT_ONCE(T) {
    T sum = start;
    for (long long i = 0; i < pieces; ++i) sum = f(sum, parts[i]);
    return sum;
  });
}
template <bool D, typename I, typename T> T reduce(I first, I last, T start) { return reduce<D>(first, last, start, thrust::plus<T>()); }
template <bool D, typename I> weft_value<I> reduce(I first, I last) { return reduce<D>(first, last, weft_value<I>(0)); }
template <bool D, typename I, typename F, typename T, typename G> T transform_reduce(I first, I last, F f, T start, G combine) {
  return reduce<D>(thrust::make_transform_iterator(first, f), thrust::make_transform_iterator(last, f), start, combine);
}
template <bool D, typename I, typename J, typename T, typename G, typename F>
T inner_product(I first, I last, J second, T start, G combine, F f) {
  auto pair = [=] __host__ __device__(long long i) mutable -> T { return f(first[i], second[i]); };
  thrust::counting_iterator<long long> zero(0);
  return transform_reduce<D>(zero, zero + (last - first), pair, start, combine);
}
template <bool D, typename I, typename J, typename T> T inner_product(I first, I last, J second, T start) {
  return inner_product<D>(first, last, second, start, thrust::plus<T>(), thrust::multiplies<T>());
}
template <bool D, typename I, typename P> std::ptrdiff_t count_if(I first, I last, P is) {
  auto one = [=] __host__ __device__(const weft_value<I> &x) mutable -> std::ptrdiff_t { return is(x) ? 1 : 0; };
  return transform_reduce<D>(first, last, one, (std::ptrdiff_t)0, thrust::plus<std::ptrdiff_t>());
}
template <bool D, typename I, typename T> std::ptrdiff_t count(I first, I last, T value) {
  return count_if<D>(first, last, [=] __host__ __device__(const weft_value<I> &x) { return x == value; });
}
template <bool D, typename I, typename P> I find_if(I first, I last, P is) {
  return first + WEFT_ONCE(std::ptrdiff_t) {
    I at = first;
    while (at != last && !is(*at)) ++at;
    return at - first;
  });
}
template <bool D, typename I, typename P> I find_if_not(I first, I last, P is) {
  return find_if<D>(first, last, thrust::unary_negate<P>{is});
}
template <bool D, typename I, typename T> I find(I first, I last, T value) {
  return find_if<D>(first, last, [=] __host__ __device__(const weft_value<I> &x) { return x == value; });
}
template <bool D, typename I, typename P> bool any_of(I first, I last, P is) { return find_if<D>(first, last, is) != last; }
template <bool D, typename I, typename P> bool none_of(I first, I last, P is) { return !any_of<D>(first, last, is); }
template <bool D, typename I, typename P> bool all_of(I first, I last, P is) { return find_if_not<D>(first, last, is) == last; }
template <bool D, typename I, typename C> I min_element(I first, I last, C less) {
  return first + WEFT_ONCE(std::ptrdiff_t) {
    std::ptrdiff_t best = 0;
    for (std::ptrdiff_t i = 1; i < last - first; ++i)
      if (less(first[i], first[best])) best = i;
    return best;
  });
}
template <bool D, typename I> I min_element(I first, I last) { return min_element<D>(first, last, thrust::less<weft_value<I>>()); }
template <bool D, typename I, typename C> I max_element(I first, I last, C less) {
  typedef weft_value<I> T;
  return min_element<D>(first, last, [=] __host__ __device__(const T &a, const T &b) mutable { return less(b, a); });
}
template <bool D, typename I> I max_element(I first, I last) { return max_element<D>(first, last, thrust::less<weft_value<I>>()); }
template <bool D, typename I> thrust::pair<I, I> minmax_element(I first, I last) {
  return thrust::pair<I, I>(min_element<D>(first, last), max_element<D>(first, last));
}
template <bool D, typename I, typename C> thrust::pair<I, I> minmax_element(I first, I last, C less) {
  return thrust::pair<I, I>(min_element<D>(first, last, less), max_element<D>(first, last, less));
}
template <bool D, typename I, typename J, typename C> bool equal(I first, I last, J second, C same) {
  return WEFT_ONCE(bool) {
    for (std::ptrdiff_t i = 0; i < last - first; ++i)
      if (!same(first[i], second[i])) return false;
    return true;
  });
}
template <bool D, typename I, typename J> bool equal(I first, I last, J second) {
  return equal<D>(first, last, second, thrust::equal_to<weft_value<I>>());
}

// A scan: `start`, where there is one, comes before all; exclusive ones leave an element out of its own sum.
template <bool D, typename I, typename O, typename T, typename F> O exclusive_scan(I first, I last, O out, T start, F f) {
  run_once<D>([=] __host__ __device__() mutable {
    T sum = start;
    for (; first != last; ++first, ++out) {
      T next = f(sum, *first);
      *out = sum, sum = next;
    }
  });
  return out + (last - first);
}
template <bool D, typename I, typename O, typename T> O exclusive_scan(I first, I last, O out, T start) {
  return exclusive_scan<D>(first, last, out, start, thrust::plus<T>());
}
template <bool D, typename I, typename O> O exclusive_scan(I first, I last, O out) {
  return exclusive_scan<D>(first, last, out, weft_value<I>(0));
}
template <bool D, typename I, typename O, typename F> O inclusive_scan(I first, I last, O out, F f) {
  run_once<D>([=] __host__ __device__() mutable {
    if (first == last) return;
    weft_value<I> sum = *first;
    for (*out = sum; ++first != last;) *++out = sum = f(sum, *first);
  });
  return out + (last - first);
}
template <bool D, typename I, typename O> O inclusive_scan(I first, I last, O out) {
  return inclusive_scan<D>(first, last, out, thrust::plus<weft_value<I>>());
}
template <bool D, typename I, typename O, typename G, typename F> O transform_inclusive_scan(I first, I last, O out, G g, F f) {
  return inclusive_scan<D>(thrust::make_transform_iterator(first, g), thrust::make_transform_iterator(last, g), out, f);
}
template <bool D, typename I, typename O, typename G, typename T, typename F>
O transform_exclusive_scan(I first, I last, O out, G g, T start, F f) {
  return exclusive_scan<D>(thrust::make_transform_iterator(first, g), thrust::make_transform_iterator(last, g), out, start, f);
}
// Runs of equal keys.
template <bool D, typename K, typename V, typename O> O inclusive_scan_by_key(K first, K last, V values, O out) {
  run_once<D>([=] __host__ __device__() mutable {
    for (std::ptrdiff_t i = 0; i < last - first; ++i)
      out[i] = i && first[i] == first[i - 1] ? (weft_value<V>)(out[i - 1] + values[i]) : (weft_value<V>)values[i];
  });
  return out + (last - first);
}
template <bool D, typename K, typename V, typename O> O exclusive_scan_by_key(K first, K last, V values, O out) {
  run_once<D>([=] __host__ __device__() mutable {
    weft_value<V> sum = 0;
    for (std::ptrdiff_t i = 0; i < last - first; ++i) {
      if (i && !(first[i] == first[i - 1])) sum = 0;
      weft_value<V> value = values[i];
      out[i] = sum, sum = sum + value;
    }
  });
  return out + (last - first);
}
template <bool D, typename K, typename V, typename KO, typename VO, typename P, typename F>
thrust::pair<KO, VO> reduce_by_key(K first, K last, V values, KO keys_out, VO values_out, P same, F f) {
  std::ptrdiff_t runs = WEFT_ONCE(std::ptrdiff_t) {
    std::ptrdiff_t n = last - first, count = 0;
    for (std::ptrdiff_t i = 0; i < n; ++count) {
      weft_value<K> key = first[i];
      weft_value<V> sum = values[i];
      while (++i < n && same(key, first[i])) sum = f(sum, values[i]);
      keys_out[count] = key, values_out[count] = sum;
    }
    return count;
  });
  return thrust::pair<KO, VO>(keys_out + runs, values_out + runs);
}
template <bool D, typename K, typename V, typename KO, typename VO, typename P>
thrust::pair<KO, VO> reduce_by_key(K first, K last, V values, KO keys_out, VO values_out, P same) {
  return reduce_by_key<D>(first, last, values, keys_out, values_out, same, thrust::plus<weft_value<V>>());
}
template <bool D, typename K, typename V, typename KO, typename VO>
thrust::pair<KO, VO> reduce_by_key(K first, K last, V values, KO keys_out, VO values_out) {
  return reduce_by_key<D>(first, last, values, keys_out, values_out, thrust::equal_to<weft_value<K>>());
}

template <bool D, typename I, typename S, typename O, typename P> O copy_if(I first, I last, S stencil, O out, P is) {
  return out + WEFT_ONCE(std::ptrdiff_t) {
    std::ptrdiff_t count = 0;
    for (std::ptrdiff_t i = 0; i < last - first; ++i)
      if (is(stencil[i])) out[count++] = first[i];
    return count;
  });
}
template <bool D, typename I, typename O, typename P> O copy_if(I first, I last, O out, P is) {
  return copy_if<D>(first, last, first, out, is);
}
template <bool D, typename I, typename P> I remove_if(I first, I last, P is) {
  return copy_if<D>(first, last, first, first, thrust::unary_negate<P>{is});
}
template <bool D, typename I, typename S, typename P> I remove_if(I first, I last, S stencil, P is) {
  return copy_if<D>(first, last, stencil, first, thrust::unary_negate<P>{is});
}
template <bool D, typename I, typename O, typename P> O remove_copy_if(I first, I last, O out, P is) {
  return copy_if<D>(first, last, first, out, thrust::unary_negate<P>{is});
}
template <bool D, typename I, typename T> I remove(I first, I last, T value) {
  return remove_if<D>(first, last, [=] __host__ __device__(const weft_value<I> &x) { return x == value; });
}
template <bool D, typename I, typename O, typename P> O unique_copy(I first, I last, O out, P same) {
  return out + WEFT_ONCE(std::ptrdiff_t) {
    std::ptrdiff_t count = 0;
    for (std::ptrdiff_t i = 0; i < last - first; ++i)
      if (!count || !same(out[count - 1], first[i])) out[count++] = first[i];
    return count;
  });
}
template <bool D, typename I, typename O> O unique_copy(I first, I last, O out) {
  return unique_copy<D>(first, last, out, thrust::equal_to<weft_value<I>>());
}
template <bool D, typename I> I unique(I first, I last) { return unique_copy<D>(first, last, first); }
template <bool D, typename I, typename P> I unique(I first, I last, P same) { return unique_copy<D>(first, last, first, same); }
template <bool D, typename K, typename V> thrust::pair<K, V> unique_by_key(K first, K last, V values) {
  return reduce_by_key<D>(first, last, values, first, values, thrust::equal_to<weft_value<K>>(),
                          thrust::project1st<weft_value<V>, weft_value<V>>());
}
template <bool D, typename I, typename P> I stable_partition(I first, I last, P is) {
  scratch<weft_value<I>> room(last - first);
  weft_value<I> *rest = room.at;
  return first + WEFT_ONCE(std::ptrdiff_t) {
    std::ptrdiff_t count = 0, others = 0;
    for (std::ptrdiff_t i = 0; i < last - first; ++i) {
      weft_value<I> x = first[i];
      if (is(x)) first[count++] = x;
      else rest[others++] = x;
    }
    for (std::ptrdiff_t i = 0; i < others; ++i) first[count + i] = rest[i];
    return count;
  });
}
template <bool D, typename I, typename P> I partition(I first, I last, P is) { return stable_partition<D>(first, last, is); }
}  // namespace weft_library

#define WEFT_ALL(...) WEFT_ALGORITHM(__VA_ARGS__)
WEFT_ALL(reduce) WEFT_ALL(transform_reduce) WEFT_ALL(inner_product) WEFT_ALL(count_if) WEFT_ALL(count) WEFT_ALL(find_if)
WEFT_ALL(find_if_not) WEFT_ALL(find) WEFT_ALL(any_of) WEFT_ALL(none_of) WEFT_ALL(all_of) WEFT_ALL(min_element)
WEFT_ALL(max_element) WEFT_ALL(minmax_element) WEFT_ALL(equal) WEFT_ALL(exclusive_scan) WEFT_ALL(inclusive_scan)
WEFT_ALL(transform_inclusive_scan) WEFT_ALL(transform_exclusive_scan) WEFT_ALL(inclusive_scan_by_key)
WEFT_ALL(exclusive_scan_by_key) WEFT_ALL(reduce_by_key) WEFT_ALL(copy_if) WEFT_ALL(remove_if) WEFT_ALL(remove_copy_if)
WEFT_ALL(remove) WEFT_ALL(unique_copy) WEFT_ALL(unique) WEFT_ALL(unique_by_key) WEFT_ALL(stable_partition)
WEFT_ALL(partition)
