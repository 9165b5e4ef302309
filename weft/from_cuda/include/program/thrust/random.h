// Random numbers by Thrust's default generator and its two common distributions.
#pragma once
#include "cuda_runtime.h"

namespace thrust {
template <unsigned int Factor> struct weft_congruential {
  typedef unsigned int result_type;
  static const unsigned int min = 1, max = 2147483646u, default_seed = 1;
  __host__ __device__ explicit weft_congruential(unsigned int seed = 1) : state_(seed % 2147483647u ? seed % 2147483647u : 1) {}
  __host__ __device__ void seed(unsigned int seed) { *this = weft_congruential(seed); }
  __host__ __device__ unsigned int operator()() { return state_ = (unsigned int)((unsigned long long)state_ * Factor % 2147483647u); }
  __host__ __device__ void discard(unsigned long long steps) {
    unsigned long long power = Factor, factor = 1;
    for (; steps; steps >>= 1, power = power * power % 2147483647u)
      if (steps & 1) factor = factor * power % 2147483647u;
    state_ = (unsigned int)(state_ * factor % 2147483647u);
  }

 private:
  unsigned int state_;
};
typedef weft_congruential<48271> minstd_rand, default_random_engine;
typedef weft_congruential<16807> minstd_rand0;

template <typename T = double> struct uniform_real_distribution {
  __host__ __device__ explicit uniform_real_distribution(T low = 0, T high = 1) : low_(low), high_(high) {}
  template <typename G> __host__ __device__ T operator()(G &g) {
    return (T)(g() - G::min) / ((T)(G::max - G::min) + T(1)) * (high_ - low_) + low_;
  }

 private:
  T low_, high_;
};
template <typename T = int> struct uniform_int_distribution {
  __host__ __device__ explicit uniform_int_distribution(T low = 0, T high = 2147483647) : low_(low), high_(high) {}
  template <typename G> __host__ __device__ T operator()(G &g) {
    double unit = (double)(g() - G::min) / ((double)(G::max - G::min) + 1.0);
    return (T)(low_ + (long long)(unit * ((double)high_ - (double)low_ + 1.0)));
  }

 private:
  T low_, high_;
};
template <typename T = double> struct normal_distribution {
  __host__ __device__ explicit normal_distribution(T mean = 0, T deviation = 1) : mean_(mean), deviation_(deviation) {}
  template <typename G> __host__ __device__ T operator()(G &g) {
    T u = ((T)(g() - G::min) + T(1)) / ((T)(G::max - G::min) + T(2)), v = (T)(g() - G::min) / ((T)(G::max - G::min) + T(1));
    return mean_ + deviation_ * (T)::sqrt(T(-2) * (T)::log(u)) * (T)::cos(T(6.28318530717958647692) * v);
  }

 private:
  T mean_, deviation_;
};
namespace random {
using thrust::default_random_engine;
using thrust::minstd_rand;
using thrust::normal_distribution;
using thrust::uniform_int_distribution;
using thrust::uniform_real_distribution;
}  // namespace random
}  // namespace thrust
