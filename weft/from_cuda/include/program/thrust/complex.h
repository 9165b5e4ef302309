// Complex numbers that device code may use.
#pragma once
#include <complex>
#include "cuda_runtime.h"

namespace thrust {
#define WEFT_COMPLEX template <typename T> __host__ __device__ inline
template <typename T> struct alignas(2 * sizeof(T)) complex {
  typedef T value_type;
  complex() = default;
  __host__ __device__ constexpr complex(T re, T im = T()) : re_(re), im_(im) {}
  complex(const complex &) = default;
  template <typename U> __host__ __device__ complex(const complex<U> &o) : re_((T)o.real()), im_((T)o.imag()) {}
  template <typename U> __host__ complex(const std::complex<U> &o) : re_((T)o.real()), im_((T)o.imag()) {}
  complex &operator=(const complex &) = default;
  __host__ operator std::complex<T>() const { return std::complex<T>(re_, im_); }
  __host__ __device__ T real() const { return re_; }
  __host__ __device__ T imag() const { return im_; }
  __host__ __device__ void real(T re) { re_ = re; }
  __host__ __device__ void imag(T im) { im_ = im; }
  __host__ __device__ complex &operator+=(complex o) { return *this = *this + o; }
  __host__ __device__ complex &operator-=(complex o) { return *this = *this - o; }
  __host__ __device__ complex &operator*=(complex o) { return *this = *this * o; }
  __host__ __device__ complex &operator/=(complex o) { return *this = *this / o; }
  __host__ __device__ friend complex operator+(complex a, complex b) { return complex(a.re_ + b.re_, a.im_ + b.im_); }
  __host__ __device__ friend complex operator-(complex a, complex b) { return complex(a.re_ - b.re_, a.im_ - b.im_); }
  __host__ __device__ friend complex operator*(complex a, complex b) {
    return complex(a.re_ * b.re_ - a.im_ * b.im_, a.re_ * b.im_ + a.im_ * b.re_);
  }
  // Scaled, so that squares of large numbers do not overflow.
  __host__ __device__ friend complex operator/(complex a, complex b) {
    T s = (b.re_ < 0 ? -b.re_ : b.re_) + (b.im_ < 0 ? -b.im_ : b.im_);
    T re = b.re_ / s, im = b.im_ / s, square = re * re + im * im;
    return complex((a.re_ / s * re + a.im_ / s * im) / square, (a.im_ / s * re - a.re_ / s * im) / square);
  }
  __host__ __device__ friend complex operator+(complex a) { return a; }
  __host__ __device__ friend complex operator-(complex a) { return complex(-a.re_, -a.im_); }
  __host__ __device__ friend bool operator==(complex a, complex b) { return a.re_ == b.re_ && a.im_ == b.im_; }
  __host__ __device__ friend bool operator!=(complex a, complex b) { return !(a == b); }

 private:
  T re_, im_;
};
WEFT_COMPLEX T norm(complex<T> z) { return z.real() * z.real() + z.imag() * z.imag(); }
WEFT_COMPLEX T abs(complex<T> z) { return (T)::hypot(z.real(), z.imag()); }
WEFT_COMPLEX T arg(complex<T> z) { return (T)::atan2(z.imag(), z.real()); }
WEFT_COMPLEX complex<T> conj(complex<T> z) { return complex<T>(z.real(), -z.imag()); }
WEFT_COMPLEX complex<T> proj(complex<T> z) { return z; }
WEFT_COMPLEX complex<T> polar(T r, T angle = T()) { return complex<T>(r * (T)::cos(angle), r * (T)::sin(angle)); }
WEFT_COMPLEX complex<T> exp(complex<T> z) { return polar((T)::exp(z.real()), z.imag()); }
WEFT_COMPLEX complex<T> log(complex<T> z) { return complex<T>((T)::log(abs(z)), arg(z)); }
WEFT_COMPLEX complex<T> log10(complex<T> z) { return log(z) * complex<T>(T(0.43429448190325182765)); }
WEFT_COMPLEX complex<T> sqrt(complex<T> z) { return polar((T)::sqrt(abs(z)), arg(z) / 2); }
WEFT_COMPLEX complex<T> pow(complex<T> x, complex<T> y) { return x == complex<T>(0) ? x : exp(log(x) * y); }
WEFT_COMPLEX complex<T> pow(complex<T> x, T y) { return pow(x, complex<T>(y)); }
WEFT_COMPLEX complex<T> pow(T x, complex<T> y) { return pow(complex<T>(x), y); }
WEFT_COMPLEX complex<T> sinh(complex<T> z) { return (exp(z) - exp(-z)) / complex<T>(2); }
WEFT_COMPLEX complex<T> cosh(complex<T> z) { return (exp(z) + exp(-z)) / complex<T>(2); }
WEFT_COMPLEX complex<T> tanh(complex<T> z) { return sinh(z) / cosh(z); }
WEFT_COMPLEX complex<T> weft_turned(complex<T> z) { return complex<T>(-z.imag(), z.real()); }
WEFT_COMPLEX complex<T> sin(complex<T> z) { return -weft_turned(sinh(weft_turned(z))); }
WEFT_COMPLEX complex<T> cos(complex<T> z) { return cosh(weft_turned(z)); }
WEFT_COMPLEX complex<T> tan(complex<T> z) { return sin(z) / cos(z); }
WEFT_COMPLEX complex<T> asinh(complex<T> z) { return log(z + sqrt(z * z + complex<T>(1))); }
WEFT_COMPLEX complex<T> acosh(complex<T> z) { return log(z + sqrt(z + complex<T>(1)) * sqrt(z - complex<T>(1))); }
WEFT_COMPLEX complex<T> atanh(complex<T> z) { return log((complex<T>(1) + z) / (complex<T>(1) - z)) / complex<T>(2); }
WEFT_COMPLEX complex<T> asin(complex<T> z) { return -weft_turned(asinh(weft_turned(z))); }
WEFT_COMPLEX complex<T> acos(complex<T> z) { return complex<T>(T(1.57079632679489661923)) - asin(z); }
WEFT_COMPLEX complex<T> atan(complex<T> z) { return -weft_turned(atanh(weft_turned(z))); }
#undef WEFT_COMPLEX
}  // namespace thrust
