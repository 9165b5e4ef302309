// Vectors of the device and of the host, which differ in where algorithms on them run.
#pragma once
#include <initializer_list>
#include <vector>
#include "thrust/weft_elementwise.h"

namespace thrust {
template <typename T, typename Iterator> class weft_vector {
 public:
  typedef T value_type;
  typedef T &reference;
  typedef const T &const_reference;
  typedef size_t size_type;
  typedef std::ptrdiff_t difference_type;
  typedef typename Iterator::template of<T> iterator, pointer;
  typedef typename Iterator::template of<const T> const_iterator, const_pointer;

  weft_vector() = default;
  explicit weft_vector(size_t n) { resize(n); }
  weft_vector(size_t n, const T &value) { resize(n, value); }
  template <typename I, typename = typename std::iterator_traits<I>::iterator_category> weft_vector(I first, I last) {
    assign(first, last);
  }
  weft_vector(std::initializer_list<T> values) { assign(values.begin(), values.end()); }
  weft_vector(const weft_vector &o) { assign(o.begin(), o.end()); }
  weft_vector(weft_vector &&o) noexcept { swap(o); }
  template <typename Other, typename = decltype(std::declval<const Other &>().begin())> weft_vector(const Other &o) {
    assign(o.begin(), o.end());
  }
  ~weft_vector() { cudaFree(at_); }
  weft_vector &operator=(const weft_vector &o) { return &o == this ? *this : (assign(o.begin(), o.end()), *this); }
  weft_vector &operator=(weft_vector &&o) noexcept { return swap(o), *this; }
  template <typename Other, typename = decltype(std::declval<const Other &>().begin())>
  weft_vector &operator=(const Other &o) {
    return assign(o.begin(), o.end()), *this;
  }

  template <typename I, typename = typename std::iterator_traits<I>::iterator_category> void assign(I first, I last) {
    resize((size_t)std::distance(first, last));
    weft_library::copy<false>(first, last, at_);
  }
  void assign(size_t n, const T &value) { clear(), resize(n, value); }
  void resize(size_t n, const T &value = T()) {
    reserve(n);
    if (n > size_) weft_library::fill<Iterator::is_on_device>(at_ + size_, at_ + n, value);
    size_ = n;
  }
  void reserve(size_t n) {
    if (n <= room_) return;
    T *larger = nullptr;
    cudaMalloc((void **)&larger, n * sizeof(T));
    weft_library::copy<false>(at_, at_ + size_, larger);
    cudaFree(at_);
    at_ = larger, room_ = n;
  }
  void clear() { size_ = 0; }
  void shrink_to_fit() {}
  void push_back(const T &value) {
    if (size_ == room_) reserve(room_ ? 2 * room_ : 16);
    new (at_ + size_++) T(value);
  }
  void pop_back() { --size_; }
  iterator erase(iterator first, iterator last) {
    T *from = raw_pointer_cast(&*last), *to = raw_pointer_cast(&*first);
    weft_library::copy<false>(from, at_ + size_, to);
    size_ -= (size_t)(last - first);
    return first;
  }
  iterator erase(iterator at) { return erase(at, at + 1); }
  void swap(weft_vector &o) noexcept { std::swap(at_, o.at_), std::swap(size_, o.size_), std::swap(room_, o.room_); }

  size_t size() const { return size_; }
  size_t capacity() const { return room_; }
  bool empty() const { return size_ == 0; }
  iterator begin() { return iterator(at_); }
  iterator end() { return iterator(at_ + size_); }
  const_iterator begin() const { return const_iterator(at_); }
  const_iterator end() const { return const_iterator(at_ + size_); }
  const_iterator cbegin() const { return begin(); }
  const_iterator cend() const { return end(); }
  reverse_iterator<iterator> rbegin() { return reverse_iterator<iterator>(end()); }
  reverse_iterator<iterator> rend() { return reverse_iterator<iterator>(begin()); }
  pointer data() { return pointer(at_); }
  const_pointer data() const { return const_pointer(at_); }
  T &operator[](size_t n) { return at_[n]; }
  const T &operator[](size_t n) const { return at_[n]; }
  T &front() { return at_[0]; }
  T &back() { return at_[size_ - 1]; }
  const T &front() const { return at_[0]; }
  const T &back() const { return at_[size_ - 1]; }

 private:
  T *at_ = nullptr;
  size_t size_ = 0, room_ = 0;
};
template <typename A, typename B> bool weft_have_equal_elements(const A &a, const B &b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (!(a[i] == b[i])) return false;
  return true;
}
template <typename T, typename A, typename U, typename B>
bool operator==(const weft_vector<T, A> &a, const weft_vector<U, B> &b) {
  return weft_have_equal_elements(a, b);
}
template <typename T, typename A, typename U, typename B>
bool operator==(const weft_vector<T, A> &a, const std::vector<U, B> &b) {
  return weft_have_equal_elements(a, b);
}
template <typename T, typename A, typename U, typename B>
bool operator==(const std::vector<T, A> &a, const weft_vector<U, B> &b) {
  return weft_have_equal_elements(a, b);
}
template <typename T, typename A, typename U, typename B>
bool operator!=(const weft_vector<T, A> &a, const weft_vector<U, B> &b) {
  return !(a == b);
}
template <typename T, typename A, typename U, typename B>
bool operator!=(const weft_vector<T, A> &a, const std::vector<U, B> &b) {
  return !(a == b);
}
template <typename T, typename A, typename U, typename B>
bool operator!=(const std::vector<T, A> &a, const weft_vector<U, B> &b) {
  return !(a == b);
}

struct weft_device_iterators {
  template <typename T> using of = device_ptr<T>;
  static constexpr bool is_on_device = true;
};
struct weft_host_iterators {
  template <typename T> using of = T *;
  static constexpr bool is_on_device = false;
};
template <typename T, typename = void> using device_vector = weft_vector<T, weft_device_iterators>;
template <typename T, typename = void> using host_vector = weft_vector<T, weft_host_iterators>;
template <typename T> using universal_vector = device_vector<T>;
}  // namespace thrust
