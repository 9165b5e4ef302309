// Functions as objects.
#pragma once
#include "thrust/tuple.h"

namespace thrust {
template <typename A, typename R> struct unary_function { typedef A argument_type; typedef R result_type; };
template <typename A, typename B, typename R> struct binary_function {
  typedef A first_argument_type;
  typedef B second_argument_type;
  typedef R result_type;
};
#define WEFT_BINARY(name, result, expression) \
  template <typename T = void> struct name { \
    typedef T first_argument_type, second_argument_type; \
    typedef result result_type; \
    __host__ __device__ constexpr result operator()(const T &x, const T &y) const { return expression; } \
  }; \
  template <> struct name<void> { \
    template <typename A, typename B> __host__ __device__ constexpr auto operator()(const A &x, const B &y) const { \
      return expression; \
    } \
  };
WEFT_BINARY(plus, T, x + y)
WEFT_BINARY(minus, T, x - y)
WEFT_BINARY(multiplies, T, x *y)
WEFT_BINARY(divides, T, x / y)
WEFT_BINARY(modulus, T, x % y)
WEFT_BINARY(bit_and, T, x &y)
WEFT_BINARY(bit_or, T, x | y)
WEFT_BINARY(bit_xor, T, x ^ y)
WEFT_BINARY(maximum, T, x < y ? y : x)
WEFT_BINARY(minimum, T, y < x ? y : x)
WEFT_BINARY(equal_to, bool, x == y)
WEFT_BINARY(not_equal_to, bool, x != y)
WEFT_BINARY(less, bool, x < y)
WEFT_BINARY(greater, bool, x > y)
WEFT_BINARY(less_equal, bool, x <= y)
WEFT_BINARY(greater_equal, bool, x >= y)
WEFT_BINARY(logical_and, bool, x &&y)
WEFT_BINARY(logical_or, bool, x || y)
#undef WEFT_BINARY
#define WEFT_UNARY(name, result, expression) \
  template <typename T = void> struct name { \
    typedef T argument_type; \
    typedef result result_type; \
    __host__ __device__ constexpr result operator()(const T &x) const { return expression; } \
  }; \
  template <> struct name<void> { \
    template <typename A> __host__ __device__ constexpr auto operator()(const A &x) const { return expression; } \
  };
WEFT_UNARY(negate, T, -x)
WEFT_UNARY(identity, T, x)
WEFT_UNARY(square, T, x *x)
WEFT_UNARY(logical_not, bool, !x)
#undef WEFT_UNARY
template <typename A, typename B> struct project1st {
  __host__ __device__ const A &operator()(const A &a, const B &) const { return a; }
};
template <typename A, typename B> struct project2nd {
  __host__ __device__ const B &operator()(const A &, const B &b) const { return b; }
};
template <typename Predicate> struct unary_negate {
  Predicate predicate;
  template <typename T> __host__ __device__ bool operator()(const T &x) { return !predicate(x); }
};
template <typename Predicate> __host__ __device__ unary_negate<Predicate> not1(Predicate p) { return {p}; }
// _1, _2 and arithmetic on them, as in `thrust::transform(x, y, z, 2.0f * _1 + _2)`.
namespace placeholders {
template <typename Function> struct expression {
  Function function;
  template <typename A> __host__ __device__ auto operator()(const A &a) const { return function(a, a); }
  template <typename A, typename B> __host__ __device__ auto operator()(const A &a, const B &b) const { return function(a, b); }
};
template <int N> struct argument {
  template <typename A, typename B> __host__ __device__ auto operator()(const A &a, const B &b) const {
    if constexpr (N == 1) return a;
    else return b;
  }
};
template <typename T> struct constant {
  T value;
  template <typename A, typename B> __host__ __device__ T operator()(const A &, const B &) const { return value; }
};
template <typename F> __host__ __device__ F part(expression<F> e) { return e.function; }
template <typename T> __host__ __device__ constant<T> part(T value) { return {value}; }
template <typename T> struct is_expression : std::false_type {};
template <typename F> struct is_expression<expression<F>> : std::true_type {};
#define WEFT_PLACED(name, op) \
  template <typename F, typename G> struct name { \
    F f; \
    G g; \
    template <typename A, typename B> __host__ __device__ auto operator()(const A &a, const B &b) const { \
      return f(a, b) op g(a, b); \
    } \
  }; \
  template <typename X, typename Y, typename = std::enable_if_t<is_expression<X>::value || is_expression<Y>::value>> \
  __host__ __device__ auto operator op(X x, Y y) { \
    typedef name<decltype(part(x)), decltype(part(y))> made; \
    return expression<made>{made{part(x), part(y)}}; \
  }
WEFT_PLACED(sum, +)
WEFT_PLACED(difference, -)
WEFT_PLACED(product, *)
WEFT_PLACED(quotient, /)
WEFT_PLACED(remainder, %)
WEFT_PLACED(is_less, <)
WEFT_PLACED(is_greater, >)
WEFT_PLACED(is_at_most, <=)
WEFT_PLACED(is_at_least, >=)
WEFT_PLACED(is_equal, ==)
WEFT_PLACED(is_other, !=)
#undef WEFT_PLACED
static constexpr expression<argument<1>> _1 = {};
static constexpr expression<argument<2>> _2 = {};
}  // namespace placeholders
}  // namespace thrust
