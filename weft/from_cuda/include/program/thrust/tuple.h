// Tuples and pairs that device code may use.
#pragma once
#include <cstddef>
#include <type_traits>
#include <utility>
#include "cuda_runtime.h"

namespace thrust {
template <typename A, typename B> struct pair;
template <typename... T> struct tuple;
template <> struct tuple<> {
  template <typename Function, typename... More> __host__ __device__ auto apply(Function f, More &&...more) const {
    return f(static_cast<More &&>(more)...);
  }
};
template <typename First, typename... Rest> struct tuple<First, Rest...> {
  First first;
  tuple<Rest...> rest;
  tuple() = default;
  __host__ __device__ tuple(First f, Rest... r) : first(static_cast<First &&>(f)), rest(static_cast<Rest &&>(r)...) {}
  tuple(const tuple &) = default;
  template <typename F, typename... R, typename = std::enable_if_t<sizeof...(R) == sizeof...(Rest)>>
  __host__ __device__ tuple(const tuple<F, R...> &o) : first(o.first), rest(o.rest) {}
  // Assigning goes through: tuples of references change what these refer to.
  __host__ __device__ tuple &operator=(const tuple &o) { return first = o.first, rest = o.rest, *this; }
  __host__ __device__ const tuple &operator=(const tuple &o) const { return assign(o); }
  template <typename F, typename... R> __host__ __device__ const tuple &operator=(const tuple<F, R...> &o) const {
    return assign(o);
  }
  template <typename F, typename... R> __host__ __device__ tuple &operator=(const tuple<F, R...> &o) {
    return first = o.first, rest = o.rest, *this;
  }
  // Of two: the halves of a pair.
  template <typename A, typename B> __host__ __device__ tuple &operator=(const pair<A, B> &o) {
    static_assert(sizeof...(Rest) == 1, "a pair has two halves");
    return first = o.first, rest.first = o.second, *this;
  }
  // Calls `f` with all elements.
  template <typename Function, typename... More> __host__ __device__ auto apply(Function f, More &&...more) const {
    return rest.apply(f, static_cast<More &&>(more)..., first);
  }
  template <typename Function, typename... More> __host__ __device__ auto apply(Function f, More &&...more) {
    return rest.apply(f, static_cast<More &&>(more)..., first);
  }

 private:
  template <typename Other> __host__ __device__ const tuple &assign(const Other &o) const {
    const_cast<std::remove_const_t<First> &>(first) = o.first;
    rest = o.rest;
    return *this;
  }
};
template <typename... T> tuple(T...) -> tuple<T...>;

template <size_t N, typename Tuple> struct tuple_element;
template <size_t N, typename First, typename... Rest> struct tuple_element<N, tuple<First, Rest...>>
    : tuple_element<N - 1, tuple<Rest...>> {};
template <typename First, typename... Rest> struct tuple_element<0, tuple<First, Rest...>> { typedef First type; };
template <typename Tuple> struct tuple_size;
template <typename... T> struct tuple_size<tuple<T...>> : std::integral_constant<size_t, sizeof...(T)> {};

template <size_t N, typename... T> __host__ __device__ constexpr auto &get(tuple<T...> &t) {
  if constexpr (N == 0) return t.first;
  else return get<N - 1>(t.rest);
}
template <size_t N, typename... T> __host__ __device__ constexpr const auto &get(const tuple<T...> &t) {
  if constexpr (N == 0) return t.first;
  else return get<N - 1>(t.rest);
}
template <size_t N, typename... T> __host__ __device__ constexpr typename tuple_element<N, tuple<T...>>::type get(tuple<T...> &&t) {
  return get<N>(static_cast<const tuple<T...> &>(t));
}
template <typename... T> __host__ __device__ tuple<std::decay_t<T>...> make_tuple(T &&...t) {
  return tuple<std::decay_t<T>...>(static_cast<T &&>(t)...);
}
template <typename... T> __host__ __device__ tuple<T &...> tie(T &...t) { return tuple<T &...>(t...); }
__host__ __device__ inline bool operator==(const tuple<> &, const tuple<> &) { return true; }
__host__ __device__ inline bool operator<(const tuple<> &, const tuple<> &) { return false; }
template <typename F, typename... R, typename G, typename... S>
__host__ __device__ bool operator==(const tuple<F, R...> &a, const tuple<G, S...> &b) {
  return a.first == b.first && a.rest == b.rest;
}
template <typename F, typename... R, typename G, typename... S>
__host__ __device__ bool operator!=(const tuple<F, R...> &a, const tuple<G, S...> &b) {
  return !(a == b);
}
template <typename F, typename... R, typename G, typename... S>
__host__ __device__ bool operator<(const tuple<F, R...> &a, const tuple<G, S...> &b) {
  return a.first < b.first || (!(b.first < a.first) && a.rest < b.rest);
}

template <typename A, typename B> struct pair {
  A first;
  B second;
  pair() = default;
  __host__ __device__ pair(const A &a, const B &b) : first(a), second(b) {}
  template <typename C, typename D> __host__ __device__ pair(const pair<C, D> &o) : first(o.first), second(o.second) {}
};
template <typename A, typename B> __host__ __device__ pair<A, B> make_pair(A a, B b) { return pair<A, B>(a, b); }
template <typename A, typename B> __host__ __device__ bool operator==(const pair<A, B> &a, const pair<A, B> &b) {
  return a.first == b.first && a.second == b.second;
}
template <typename A, typename B> __host__ __device__ bool operator<(const pair<A, B> &a, const pair<A, B> &b) {
  return a.first < b.first || (!(b.first < a.first) && a.second < b.second);
}
}  // namespace thrust
