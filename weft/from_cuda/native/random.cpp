// XORWOW's five words are 160 bits that a step maps linearly: jumps are powers of that map.
#include <pthread.h>
#include <stdint.h>
#include <string.h>

namespace {
struct vector160 { uint32_t v[5]; };
struct matrix160 { vector160 column[160]; };

vector160 apply(const matrix160 &m, const vector160 &x) {
  vector160 result = {};
  for (int bit = 0; bit < 160; ++bit)
    if (x.v[bit / 32] >> (bit % 32) & 1)
      for (int i = 0; i < 5; ++i) result.v[i] ^= m.column[bit].v[i];
  return result;
}
void square(const matrix160 &m, matrix160 *to) {
  for (int bit = 0; bit < 160; ++bit) to->column[bit] = apply(m, m.column[bit]);
}
vector160 step(vector160 x) {
  uint32_t t = x.v[0] ^ (x.v[0] >> 2), last = x.v[4];
  memmove(x.v, x.v + 1, 16);
  x.v[4] = (last ^ (last << 4)) ^ (t ^ (t << 1));
  return x;
}

const int sequence_bits = 67;  // a sequence is 2^67 steps long
matrix160 powers[sequence_bits + 64];  // 2^n steps
pthread_once_t made = PTHREAD_ONCE_INIT;

void make_powers() {
  for (int bit = 0; bit < 160; ++bit) {
    vector160 unit = {};
    unit.v[bit / 32] = 1u << (bit % 32);
    powers[0].column[bit] = step(unit);
  }
  for (int n = 1; n < sequence_bits + 64; ++n) square(powers[n - 1], &powers[n]);
}
}  // namespace

extern "C" void weft_xorwow_skip(uint32_t *state, unsigned long long steps, int by_sequences) {
  if (!steps) return;
  pthread_once(&made, make_powers);
  vector160 x;
  memcpy(x.v, state, sizeof x.v);
  for (int n = 0; steps >> n; ++n) {
    if (steps >> n & 1) x = apply(powers[n + (by_sequences ? sequence_bits : 0)], x);
    if (n == 63) break;
  }
  memcpy(state, x.v, sizeof x.v);
}
