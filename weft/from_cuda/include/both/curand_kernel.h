// cuRAND in device code: XORWOW and Philox, with NVIDIA's seeding, so that the same seed gives the same numbers.
#pragma once
#include "cuda_runtime.h"

struct curandStateXORWOW {
  unsigned int d, v[5];
  int has_normal, has_double;
  float normal;
  int normal_double[2];  // the bits of the second of a pair
};
typedef struct curandStateXORWOW curandStateXORWOW_t, curandState_t, curandState;
struct curandStatePhilox4_32_10 {
  uint4 counter, output;
  uint2 key;
  unsigned int used;
  int has_normal, has_double;
  float normal;
  int normal_double[2];  // the bits of the second of a pair
};
typedef struct curandStatePhilox4_32_10 curandStatePhilox4_32_10_t;

extern "C" __device__ void weft_xorwow_skip(unsigned int *v, unsigned long long steps, int by_sequences);

#define WEFT_RANDOM static __inline__ __device__
WEFT_RANDOM void curand_init(unsigned long long seed, unsigned long long sequence, unsigned long long offset,
                             curandStateXORWOW *state) {
  unsigned int t0 = 1099087573u * ((unsigned int)seed ^ 0xaad26b49u);
  unsigned int t1 = 2591861531u * ((unsigned int)(seed >> 32) ^ 0xf7dcefddu);
  state->d = 6615241u + t1 + t0;
  state->v[0] = 123456789u + t0, state->v[1] = 362436069u ^ t0, state->v[2] = 521288629u + t1;
  state->v[3] = 88675123u ^ t1, state->v[4] = 5783321u + t0;
  weft_xorwow_skip(state->v, sequence, 1);
  weft_xorwow_skip(state->v, offset, 0);
  state->d += 362437u * (unsigned int)offset;
  state->has_normal = state->has_double = 0;
}
WEFT_RANDOM unsigned int curand(curandStateXORWOW *s) {
  unsigned int t = s->v[0] ^ (s->v[0] >> 2);
  s->v[0] = s->v[1], s->v[1] = s->v[2], s->v[2] = s->v[3], s->v[3] = s->v[4];
  s->v[4] = (s->v[4] ^ (s->v[4] << 4)) ^ (t ^ (t << 1));
  s->d += 362437u;
  return s->v[4] + s->d;
}

WEFT_RANDOM uint4 weft_philox(uint4 c, uint2 key) {
  for (int round = 0; round < 10; ++round) {
    unsigned long long first = 0xD2511F53ull * c.x, second = 0xCD9E8D57ull * c.z;
    unsigned int high0 = (unsigned int)(first >> 32), low0 = (unsigned int)first;
    unsigned int high1 = (unsigned int)(second >> 32), low1 = (unsigned int)second;
    c = make_uint4(high1 ^ c.y ^ key.x, low1, high0 ^ c.w ^ key.y, low0);
    key.x += 0x9E3779B9u, key.y += 0xBB67AE85u;
  }
  return c;
}
WEFT_RANDOM void weft_philox_advance(curandStatePhilox4_32_10 *s, unsigned long long by) {
  unsigned long long low = ((unsigned long long)s->counter.y << 32 | s->counter.x) + by;
  if (low < by && ++s->counter.z == 0) ++s->counter.w;
  s->counter.x = (unsigned int)low, s->counter.y = (unsigned int)(low >> 32);
}
WEFT_RANDOM void curand_init(unsigned long long seed, unsigned long long sequence, unsigned long long offset,
                             curandStatePhilox4_32_10 *s) {
  s->counter = make_uint4(0, 0, (unsigned int)sequence, (unsigned int)(sequence >> 32));
  s->key = make_uint2((unsigned int)seed, (unsigned int)(seed >> 32));
  s->used = (unsigned int)(offset & 3);
  s->has_normal = s->has_double = 0;
  weft_philox_advance(s, offset >> 2);
  s->output = weft_philox(s->counter, s->key);
}
WEFT_RANDOM unsigned int curand(curandStatePhilox4_32_10 *s) {
  unsigned int found = s->used == 0 ? s->output.x : s->used == 1 ? s->output.y : s->used == 2 ? s->output.z : s->output.w;
  if (++s->used == 4) {
    s->used = 0;
    weft_philox_advance(s, 1);
    s->output = weft_philox(s->counter, s->key);
  }
  return found;
}
WEFT_RANDOM uint4 curand4(curandStatePhilox4_32_10 *s) {
  unsigned int x = curand(s), y = curand(s), z = curand(s), w = curand(s);
  return make_uint4(x, y, z, w);
}

WEFT_RANDOM float weft_unit(unsigned int bits) { return bits * 2.3283064e-10f + (2.3283064e-10f / 2.0f); }
template <typename State> WEFT_RANDOM float curand_uniform(State *s) { return weft_unit(curand(s)); }
template <typename State> WEFT_RANDOM float2 curand_normal2(State *s) {
  unsigned int first = curand(s), second = curand(s);
  float radius = sqrtf(-2.0f * logf(weft_unit(first)));
  float angle = second * 1.46291807e-09f + (1.46291807e-09f / 2.0f);
  return make_float2(radius * sinf(angle), radius * cosf(angle));
}
template <typename State> WEFT_RANDOM float curand_normal(State *s) {
  if (s->has_normal) {
    s->has_normal = 0;
    return s->normal;
  }
  float2 both = curand_normal2(s);
  s->has_normal = 1, s->normal = both.y;
  return both.x;
}
template <typename State> WEFT_RANDOM float curand_log_normal(State *s, float mean, float deviation) {
  return expf(mean + deviation * curand_normal(s));
}
template <typename State> WEFT_RANDOM double curand_uniform_double(State *s) {
  unsigned int first = curand(s);
  unsigned long long z = (unsigned long long)first ^ ((unsigned long long)curand(s) << (53 - 32));
  return z * 1.1102230246251565e-16 + (1.1102230246251565e-16 / 2.0);
}
template <typename State> WEFT_RANDOM float2 curand_log_normal2(State *s, float mean, float deviation) {
  float2 both = curand_normal2(s);
  return make_float2(expf(mean + deviation * both.x), expf(mean + deviation * both.y));
}
// Two draws for each of the two numbers of 53 bits that a pair is made of.
template <typename State> WEFT_RANDOM double2 curand_normal2_double(State *s) {
  double first = curand_uniform_double(s);
  unsigned int low = curand(s);
  unsigned long long z = (unsigned long long)low ^ ((unsigned long long)curand(s) << (53 - 32));
  double radius = sqrt(-2.0 * log(first)), turns = z * (1.1102230246251565e-16 * 2.0) + 1.1102230246251565e-16;
  return make_double2(radius * sin(3.141592653589793 * turns), radius * cos(3.141592653589793 * turns));
}
template <typename State> WEFT_RANDOM double curand_normal_double(State *s) {
  if (s->has_double) {
    double second;
    __builtin_memcpy(&second, s->normal_double, sizeof second);
    s->has_double = 0;
    return second;
  }
  double2 both = curand_normal2_double(s);
  __builtin_memcpy(s->normal_double, &both.y, sizeof both.y);
  s->has_double = 1;
  return both.x;
}
template <typename State> WEFT_RANDOM double curand_log_normal_double(State *s, double mean, double deviation) {
  return exp(mean + deviation * curand_normal_double(s));
}
WEFT_RANDOM float4 curand_uniform4(curandStatePhilox4_32_10 *s) {
  uint4 x = curand4(s);
  return make_float4(weft_unit(x.x), weft_unit(x.y), weft_unit(x.z), weft_unit(x.w));
}
WEFT_RANDOM float4 curand_normal4(curandStatePhilox4_32_10 *s) {
  float2 first = curand_normal2(s), second = curand_normal2(s);
  return make_float4(first.x, first.y, second.x, second.y);
}
#undef WEFT_RANDOM
