// Iterators of Thrust: device pointers, and those that compute what they point at.
#pragma once
#include "thrust/tuple.h"
#include "thrust/weft_systems.h"

namespace thrust {
// What random access iterators have in common; `Self` has `at(n)`, `move(n)` and `distance(other)`.
template <typename Self, typename Value, typename Reference, typename System> struct weft_iterator {
  typedef std::random_access_iterator_tag iterator_category;
  typedef Value value_type;
  typedef Reference reference;
  typedef Value *pointer;
  typedef std::ptrdiff_t difference_type;
  typedef System system;
  WEFT_BOTH Self &self() { return static_cast<Self &>(*this); }
  WEFT_BOTH const Self &self() const { return static_cast<const Self &>(*this); }
  WEFT_BOTH Reference operator*() const { return self().at(0); }
  WEFT_BOTH Reference operator[](std::ptrdiff_t n) const { return self().at(n); }
  WEFT_BOTH Self &operator+=(std::ptrdiff_t n) { return self().move(n), self(); }
  WEFT_BOTH Self &operator-=(std::ptrdiff_t n) { return self().move(-n), self(); }
  WEFT_BOTH Self &operator++() { return self() += 1; }
  WEFT_BOTH Self &operator--() { return self() -= 1; }
  WEFT_BOTH Self operator++(int) {
    Self before = self();
    return ++self(), before;
  }
  WEFT_BOTH Self operator--(int) {
    Self before = self();
    return --self(), before;
  }
  WEFT_BOTH friend Self operator+(Self i, std::ptrdiff_t n) { return i += n; }
  WEFT_BOTH friend Self operator+(std::ptrdiff_t n, Self i) { return i += n; }
  WEFT_BOTH friend Self operator-(Self i, std::ptrdiff_t n) { return i -= n; }
  WEFT_BOTH friend std::ptrdiff_t operator-(const Self &a, const Self &b) { return a.distance(b); }
  WEFT_BOTH friend bool operator==(const Self &a, const Self &b) { return a.distance(b) == 0; }
  WEFT_BOTH friend bool operator!=(const Self &a, const Self &b) { return a.distance(b) != 0; }
  WEFT_BOTH friend bool operator<(const Self &a, const Self &b) { return a.distance(b) < 0; }
  WEFT_BOTH friend bool operator>(const Self &a, const Self &b) { return a.distance(b) > 0; }
  WEFT_BOTH friend bool operator<=(const Self &a, const Self &b) { return a.distance(b) <= 0; }
  WEFT_BOTH friend bool operator>=(const Self &a, const Self &b) { return a.distance(b) >= 0; }
};

template <typename T> class device_ptr
    : public weft_iterator<device_ptr<T>, std::remove_const_t<T>, T &, device_system_tag> {
 public:
  device_ptr() = default;
  WEFT_BOTH explicit device_ptr(T *at) : at_(at) {}
  WEFT_BOTH device_ptr(std::nullptr_t) : at_(nullptr) {}
  template <typename U, typename = std::enable_if_t<std::is_same<const U, T>::value>>
  WEFT_BOTH device_ptr(const device_ptr<U> &other) : at_(other.get()) {}
  WEFT_BOTH T *get() const { return at_; }
  WEFT_BOTH T *operator->() const { return at_; }
  WEFT_BOTH explicit operator bool() const { return at_ != nullptr; }
  WEFT_BOTH T &at(std::ptrdiff_t n) const { return at_[n]; }
  WEFT_BOTH void move(std::ptrdiff_t n) { at_ += n; }
  WEFT_BOTH std::ptrdiff_t distance(const device_ptr &other) const { return at_ - other.at_; }

 private:
  T *at_ = nullptr;
};
template <typename T> WEFT_BOTH device_ptr<T> device_pointer_cast(T *at) { return device_ptr<T>(at); }
template <typename T> WEFT_BOTH device_ptr<T> device_pointer_cast(device_ptr<T> at) { return at; }
template <typename T> WEFT_BOTH T *raw_pointer_cast(device_ptr<T> at) { return at.get(); }
template <typename T> WEFT_BOTH T *raw_pointer_cast(T *at) { return at; }
template <typename T> device_ptr<T> device_malloc(size_t n) {
  T *at = nullptr;
  cudaMalloc((void **)&at, n * sizeof(T));
  return device_ptr<T>(at);
}
template <typename T> void device_free(device_ptr<T> at) { cudaFree(at.get()); }

template <typename T> class counting_iterator : public weft_iterator<counting_iterator<T>, T, T, any_system_tag> {
 public:
  counting_iterator() = default;
  WEFT_BOTH explicit counting_iterator(T first) : first_(first) {}
  WEFT_BOTH T at(std::ptrdiff_t n) const { return (T)(first_ + n); }
  WEFT_BOTH void move(std::ptrdiff_t n) { first_ = (T)(first_ + n); }
  WEFT_BOTH std::ptrdiff_t distance(const counting_iterator &o) const { return (std::ptrdiff_t)(first_ - o.first_); }

 private:
  T first_ = 0;
};
template <typename T> WEFT_BOTH counting_iterator<T> make_counting_iterator(T first) { return counting_iterator<T>(first); }

template <typename T> class constant_iterator : public weft_iterator<constant_iterator<T>, T, T, any_system_tag> {
 public:
  WEFT_BOTH explicit constant_iterator(T value, std::ptrdiff_t n = 0) : value_(value), n_(n) {}
  WEFT_BOTH T at(std::ptrdiff_t) const { return value_; }
  WEFT_BOTH void move(std::ptrdiff_t n) { n_ += n; }
  WEFT_BOTH std::ptrdiff_t distance(const constant_iterator &o) const { return n_ - o.n_; }

 private:
  T value_;
  std::ptrdiff_t n_;
};
template <typename T> WEFT_BOTH constant_iterator<T> make_constant_iterator(T value) { return constant_iterator<T>(value); }

struct weft_nothing {
  template <typename T> WEFT_BOTH const weft_nothing &operator=(const T &) const { return *this; }
};
class discard_iterator : public weft_iterator<discard_iterator, weft_nothing, weft_nothing, any_system_tag> {
 public:
  WEFT_BOTH explicit discard_iterator(std::ptrdiff_t n = 0) : n_(n) {}
  WEFT_BOTH weft_nothing at(std::ptrdiff_t) const { return {}; }
  WEFT_BOTH void move(std::ptrdiff_t n) { n_ += n; }
  WEFT_BOTH std::ptrdiff_t distance(const discard_iterator &o) const { return n_ - o.n_; }

 private:
  std::ptrdiff_t n_;
};
WEFT_BOTH discard_iterator make_discard_iterator(std::ptrdiff_t n = 0) { return discard_iterator(n); }

template <typename Iterator> using weft_reference = typename std::iterator_traits<Iterator>::reference;
template <typename Iterator> using weft_value = typename std::iterator_traits<Iterator>::value_type;

template <typename Function, typename Iterator> using weft_mapped =
    std::decay_t<decltype(std::declval<Function>()(*std::declval<Iterator>()))>;
template <typename Function, typename Iterator> class transform_iterator
    : public weft_iterator<transform_iterator<Function, Iterator>, weft_mapped<Function, Iterator>,
                           weft_mapped<Function, Iterator>, typename weft_system<Iterator>::type> {
 public:
  WEFT_BOTH transform_iterator(Iterator base, Function function) : base_(base), function_(function) {}
  WEFT_BOTH weft_mapped<Function, Iterator> at(std::ptrdiff_t n) const { return function_(base_[n]); }
  WEFT_BOTH void move(std::ptrdiff_t n) { base_ += n; }
  WEFT_BOTH std::ptrdiff_t distance(const transform_iterator &o) const { return base_ - o.base_; }
  WEFT_BOTH Iterator base() const { return base_; }

 private:
  Iterator base_;
  mutable Function function_;
};
template <typename Iterator, typename Function>
WEFT_BOTH transform_iterator<Function, Iterator> make_transform_iterator(Iterator base, Function function) {
  return transform_iterator<Function, Iterator>(base, function);
}

template <typename Elements, typename Indices> class permutation_iterator
    : public weft_iterator<permutation_iterator<Elements, Indices>, weft_value<Elements>, weft_reference<Elements>,
                           weft_common_system<Elements, Indices>> {
 public:
  WEFT_BOTH permutation_iterator(Elements elements, Indices indices) : elements_(elements), indices_(indices) {}
  WEFT_BOTH weft_reference<Elements> at(std::ptrdiff_t n) const { return elements_[indices_[n]]; }
  WEFT_BOTH void move(std::ptrdiff_t n) { indices_ += n; }
  WEFT_BOTH std::ptrdiff_t distance(const permutation_iterator &o) const { return indices_ - o.indices_; }

 private:
  Elements elements_;
  Indices indices_;
};
template <typename Elements, typename Indices>
WEFT_BOTH permutation_iterator<Elements, Indices> make_permutation_iterator(Elements elements, Indices indices) {
  return permutation_iterator<Elements, Indices>(elements, indices);
}

template <typename Iterator> class reverse_iterator
    : public weft_iterator<reverse_iterator<Iterator>, weft_value<Iterator>, weft_reference<Iterator>,
                           typename weft_system<Iterator>::type> {
 public:
  WEFT_BOTH explicit reverse_iterator(Iterator base) : base_(base) {}
  WEFT_BOTH weft_reference<Iterator> at(std::ptrdiff_t n) const { return *(base_ - (n + 1)); }
  WEFT_BOTH void move(std::ptrdiff_t n) { base_ -= n; }
  WEFT_BOTH std::ptrdiff_t distance(const reverse_iterator &o) const { return o.base_ - base_; }

 private:
  Iterator base_;
};
template <typename Iterator> WEFT_BOTH reverse_iterator<Iterator> make_reverse_iterator(Iterator base) {
  return reverse_iterator<Iterator>(base);
}

template <typename Tuple> class zip_iterator;
template <typename... Iterators> class zip_iterator<tuple<Iterators...>>
    : public weft_iterator<zip_iterator<tuple<Iterators...>>, tuple<weft_value<Iterators>...>,
                           tuple<weft_reference<Iterators>...>, weft_common_system<Iterators...>> {
 public:
  WEFT_BOTH explicit zip_iterator(tuple<Iterators...> all) : all_(all) {}
  WEFT_BOTH tuple<weft_reference<Iterators>...> at(std::ptrdiff_t n) const {
    return all_.apply([n] __host__ __device__(const Iterators &...i) {
      return tuple<weft_reference<Iterators>...>(i[n]...);
    });
  }
  WEFT_BOTH void move(std::ptrdiff_t n) { all_.apply([n] __host__ __device__(Iterators &...i) { (..., (i += n)); }); }
  WEFT_BOTH std::ptrdiff_t distance(const zip_iterator &o) const { return get<0>(all_) - get<0>(o.all_); }
  WEFT_BOTH const tuple<Iterators...> &get_iterator_tuple() const { return all_; }

 private:
  tuple<Iterators...> all_;
};
template <typename... Iterators> WEFT_BOTH zip_iterator<tuple<Iterators...>> make_zip_iterator(tuple<Iterators...> all) {
  return zip_iterator<tuple<Iterators...>>(all);
}
template <typename... Iterators> WEFT_BOTH zip_iterator<tuple<Iterators...>> make_zip_iterator(Iterators... all) {
  return zip_iterator<tuple<Iterators...>>(tuple<Iterators...>(all...));
}
template <typename Iterator> WEFT_BOTH std::ptrdiff_t distance(Iterator first, Iterator last) { return last - first; }
template <typename Iterator> WEFT_BOTH void advance(Iterator &i, std::ptrdiff_t n) { i += n; }
template <typename Iterator> WEFT_BOTH Iterator next(Iterator i, std::ptrdiff_t n = 1) { return i + n; }
}  // namespace thrust
