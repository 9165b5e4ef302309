// What kernels use of the standard library: traits, limits, pairs, arrays, the least and the greatest. Clang takes
// constexpr functions for both sides.
#pragma once

namespace std {
typedef decltype(nullptr) nullptr_t;
using ::size_t; using ::ptrdiff_t; using ::int8_t; using ::int16_t; using ::int32_t; using ::int64_t; using ::uint8_t;
using ::uint16_t; using ::uint32_t; using ::uint64_t; using ::intptr_t; using ::uintptr_t;

// ---- traits
template <class T, T v> struct integral_constant {
  static constexpr T value = v;
  typedef T value_type;
  constexpr operator T() const { return v; }
  constexpr T operator()() const { return v; }
};
template <bool v> using bool_constant = integral_constant<bool, v>;
typedef bool_constant<true> true_type;
typedef bool_constant<false> false_type;
template <bool, class A, class> struct conditional { typedef A type; };
template <class A, class B> struct conditional<false, A, B> { typedef B type; };
template <bool, class T = void> struct enable_if {};
template <class T> struct enable_if<true, T> { typedef T type; };
template <class, class> struct is_same : false_type {};
template <class T> struct is_same<T, T> : true_type {};
template <class T> struct type_identity { typedef T type; };
template <class...> using void_t = void;
#define _WEFT_TYPE_TRAIT(name) template <class T> struct name { typedef __##name(T) type; }; \
  template <class T> using name##_t = __##name(T);
_WEFT_TYPE_TRAIT(remove_const) _WEFT_TYPE_TRAIT(remove_cv) _WEFT_TYPE_TRAIT(remove_volatile)
_WEFT_TYPE_TRAIT(remove_pointer) _WEFT_TYPE_TRAIT(decay) _WEFT_TYPE_TRAIT(make_signed) _WEFT_TYPE_TRAIT(make_unsigned)
_WEFT_TYPE_TRAIT(remove_extent) _WEFT_TYPE_TRAIT(remove_cvref) _WEFT_TYPE_TRAIT(add_pointer) _WEFT_TYPE_TRAIT(underlying_type)
#undef _WEFT_TYPE_TRAIT
template <class T> struct remove_reference { typedef __remove_reference_t(T) type; };
template <class T> using remove_reference_t = __remove_reference_t(T);
template <class T> struct add_const { typedef const T type; };
template <class T> using add_const_t = const T;
template <bool c, class A, class B> using conditional_t = typename conditional<c, A, B>::type;
template <bool c, class T = void> using enable_if_t = typename enable_if<c, T>::type;
#define _WEFT_VALUE_TRAIT(name, ...) template <class T> struct name : bool_constant<__VA_ARGS__> {}; \
  template <class T> inline constexpr bool name##_v = __VA_ARGS__;
_WEFT_VALUE_TRAIT(is_integral, __is_integral(T)) _WEFT_VALUE_TRAIT(is_floating_point, __is_floating_point(T))
_WEFT_VALUE_TRAIT(is_arithmetic, __is_arithmetic(T)) _WEFT_VALUE_TRAIT(is_signed, __is_signed(T))
_WEFT_VALUE_TRAIT(is_unsigned, __is_unsigned(T)) _WEFT_VALUE_TRAIT(is_pointer, __is_pointer(T))
_WEFT_VALUE_TRAIT(is_const, __is_const(T)) _WEFT_VALUE_TRAIT(is_void, __is_void(T)) _WEFT_VALUE_TRAIT(is_enum, __is_enum(T))
_WEFT_VALUE_TRAIT(is_class, __is_class(T)) _WEFT_VALUE_TRAIT(is_array, __is_array(T))
_WEFT_VALUE_TRAIT(is_reference, __is_reference(T)) _WEFT_VALUE_TRAIT(is_trivially_copyable, __is_trivially_copyable(T))
_WEFT_VALUE_TRAIT(is_trivial, __is_trivial(T)) _WEFT_VALUE_TRAIT(is_pod, __is_pod(T)) _WEFT_VALUE_TRAIT(is_empty, __is_empty(T))
_WEFT_VALUE_TRAIT(is_scalar, __is_scalar(T)) _WEFT_VALUE_TRAIT(is_fundamental, __is_fundamental(T))
#undef _WEFT_VALUE_TRAIT
template <class A, class B> inline constexpr bool is_same_v = __is_same(A, B);
template <class A, class B> struct is_base_of : bool_constant<__is_base_of(A, B)> {};
template <class A, class B> inline constexpr bool is_base_of_v = __is_base_of(A, B);
template <class A, class B> struct is_convertible : bool_constant<__is_convertible(A, B)> {};
template <class A, class B> inline constexpr bool is_convertible_v = __is_convertible(A, B);
template <class T> struct alignment_of : integral_constant<size_t, alignof(T)> {};
template <class T> T &&declval() noexcept;
template <class A, class B> struct _weft_common { typedef decltype(false ? declval<A>() : declval<B>()) type; };
template <class A, class... B> struct common_type { typedef __decay(A) type; };
template <class A, class B, class... C> struct common_type<A, B, C...> : common_type<__decay(typename _weft_common<A, B>::type), C...> {};
template <class... T> using common_type_t = typename common_type<T...>::type;
template <class T, T... i> struct integer_sequence { static constexpr size_t size() { return sizeof...(i); } };
template <size_t... i> using index_sequence = integer_sequence<size_t, i...>;
template <size_t n> using make_index_sequence = __make_integer_seq<integer_sequence, size_t, n>;

// ---- utilities
template <class T> constexpr T &&forward(__remove_reference_t(T) &x) { return static_cast<T &&>(x); }
template <class T> constexpr T &&forward(__remove_reference_t(T) &&x) { return static_cast<T &&>(x); }
template <class T> constexpr __remove_reference_t(T) &&move(T &&x) { return static_cast<__remove_reference_t(T) &&>(x); }
template <class T> constexpr void swap(T &a, T &b) { T was = a; a = b; b = was; }
template <class T, class U = T> constexpr T exchange(T &x, U to) { T was = x; x = to; return was; }
template <class T> constexpr const T &min(const T &a, const T &b) { return b < a ? b : a; }
template <class T> constexpr const T &max(const T &a, const T &b) { return a < b ? b : a; }
template <class T> constexpr const T &clamp(const T &x, const T &low, const T &high) { return x < low ? low : high < x ? high : x; }
template <class T> constexpr T *addressof(T &x) { return __builtin_addressof(x); }
template <class A, class B> struct pair {
  typedef A first_type;
  typedef B second_type;
  A first;
  B second;
  constexpr pair() : first(), second() {}
  constexpr pair(const A &a, const B &b) : first(a), second(b) {}
};
template <class A, class B> constexpr pair<__decay(A), __decay(B)> make_pair(A &&a, B &&b) { return pair<__decay(A), __decay(B)>(a, b); }
template <class T, size_t N> struct array {
  T _weft_elements[N];
  constexpr T &operator[](size_t i) { return _weft_elements[i]; }
  constexpr const T &operator[](size_t i) const { return _weft_elements[i]; }
  constexpr T *data() { return _weft_elements; }
  constexpr const T *data() const { return _weft_elements; }
  constexpr T *begin() { return _weft_elements; }
  constexpr T *end() { return _weft_elements + N; }
  constexpr const T *begin() const { return _weft_elements; }
  constexpr const T *end() const { return _weft_elements + N; }
  constexpr size_t size() const { return N; }
};
#define _WEFT_FUNCTOR(name, result, op)                                                     \
  template <class T = void> struct name { constexpr result operator()(const T &a, const T &b) const { return a op b; } };
_WEFT_FUNCTOR(plus, T, +) _WEFT_FUNCTOR(minus, T, -) _WEFT_FUNCTOR(multiplies, T, *) _WEFT_FUNCTOR(less, bool, <)
_WEFT_FUNCTOR(greater, bool, >) _WEFT_FUNCTOR(equal_to, bool, ==)
#undef _WEFT_FUNCTOR

// ---- limits
template <class T> struct numeric_limits { static constexpr bool is_specialized = false; };
#define _WEFT_WHOLE_LIMITS(T, least, most)                                  \
  template <> struct numeric_limits<T> {                                    \
    static constexpr bool is_specialized = true, is_integer = true, is_signed = (T)-1 < (T)0, has_infinity = false; \
    static constexpr int digits = sizeof(T) * 8 - is_signed;                \
    static constexpr T min() { return least; }                              \
    static constexpr T lowest() { return least; }                           \
    static constexpr T max() { return most; }                               \
    static constexpr T infinity() { return 0; }                             \
  };
_WEFT_WHOLE_LIMITS(bool, false, true) _WEFT_WHOLE_LIMITS(char, SCHAR_MIN, SCHAR_MAX)
_WEFT_WHOLE_LIMITS(signed char, SCHAR_MIN, SCHAR_MAX) _WEFT_WHOLE_LIMITS(unsigned char, 0, UCHAR_MAX)
_WEFT_WHOLE_LIMITS(short, SHRT_MIN, SHRT_MAX) _WEFT_WHOLE_LIMITS(unsigned short, 0, USHRT_MAX)
_WEFT_WHOLE_LIMITS(int, INT_MIN, INT_MAX) _WEFT_WHOLE_LIMITS(unsigned, 0, UINT_MAX)
_WEFT_WHOLE_LIMITS(long, LONG_MIN, LONG_MAX) _WEFT_WHOLE_LIMITS(unsigned long, 0, ULONG_MAX)
_WEFT_WHOLE_LIMITS(long long, LLONG_MIN, LLONG_MAX) _WEFT_WHOLE_LIMITS(unsigned long long, 0, ULLONG_MAX)
#define _WEFT_FLOAT_LIMITS(T, P, suffix)                                    \
  template <> struct numeric_limits<T> {                                    \
    static constexpr bool is_specialized = true, is_integer = false, is_signed = true, has_infinity = true; \
    static constexpr int digits = P##_MANT_DIG;                             \
    static constexpr T min() { return P##_MIN; }                            \
    static constexpr T lowest() { return -P##_MAX; }                        \
    static constexpr T max() { return P##_MAX; }                            \
    static constexpr T epsilon() { return P##_EPSILON; }                    \
    static constexpr T infinity() { return __builtin_huge_val##suffix(); }  \
    static constexpr T quiet_NaN() { return __builtin_nan##suffix(""); }    \
  };
_WEFT_FLOAT_LIMITS(float, FLT, f) _WEFT_FLOAT_LIMITS(double, DBL, )
#undef _WEFT_WHOLE_LIMITS
#undef _WEFT_FLOAT_LIMITS
}  // namespace std
