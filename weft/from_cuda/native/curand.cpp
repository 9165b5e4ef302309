// cuRAND for the host. XORWOW's numbers come, as NVIDIA documents, from 4096 sequences in turn: element n of a call is
// number n / 4096 of sequence n % 4096. Philox's are one sequence in order.
#include "curand.h"
#include "weft_cuda.h"
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include "curand_kernel.h"

namespace {
const int sequences = 4096;
}
struct curandGenerator_st {
  bool is_philox, is_seeded;
  unsigned long long seed, position;
  curandStateXORWOW states[sequences];
  curandStatePhilox4_32_10 philox;
};

namespace {
// Each sequence's state where `position` is.
void prepare(curandGenerator_t g) {
  if (g->is_seeded) return;
  g->is_seeded = true;
  if (g->is_philox) return curand_init(g->seed, 0, g->position, &g->philox);
  curandStateXORWOW state;
  curand_init(g->seed, 0, 0, &state);
  for (int i = 0; i < sequences; ++i) {
    g->states[i] = state;
    unsigned long long steps = g->position / sequences + ((unsigned long long)i < g->position % sequences);
    weft_xorwow_skip(g->states[i].v, steps, 0);
    g->states[i].d += 362437u * (unsigned int)steps;
    weft_xorwow_skip(state.v, 1, 1);
  }
}
unsigned int draw(curandGenerator_t g) {
  unsigned long long at = g->position++;
  return g->is_philox ? curand(&g->philox) : curand(&g->states[at % sequences]);
}
template <typename T> T unit(curandGenerator_t g) {
  if (sizeof(T) == sizeof(float)) return (T)(draw(g) * 2.3283064e-10f + (2.3283064e-10f / 2.0f));
  unsigned long long bits = draw(g);
  bits ^= (unsigned long long)draw(g) << (53 - 32);
  return (T)(bits * 1.1102230246251565e-16 + (1.1102230246251565e-16 / 2.0));
}
template <typename T, typename Work> curandStatus_t fill(curandGenerator_t g, T *to, size_t n, Work work) {
  if (!g) return CURAND_STATUS_NOT_INITIALIZED;
  if (!to && n) return CURAND_STATUS_OUT_OF_RANGE;
  prepare(g);
  for (size_t i = 0; i < n;) work(to + i, n - i, &i);
  return CURAND_STATUS_SUCCESS;
}
// Normal numbers come in pairs; `Map` is what becomes of one.
template <typename T, typename Map> curandStatus_t normals(curandGenerator_t g, T *to, size_t n, Map map) {
  if (n % 2) return CURAND_STATUS_LENGTH_NOT_MULTIPLE;
  return fill(g, to, n, [=](T *at, size_t, size_t *done) {
    double radius = sqrt(-2.0 * log((double)unit<T>(g))), angle = 6.283185307179586 * (double)unit<T>(g);
    at[0] = map((T)(radius * sin(angle))), at[1] = map((T)(radius * cos(angle)));
    *done += 2;
  });
}
}  // namespace

extern "C" {
curandStatus_t curandCreateGenerator(curandGenerator_t *generator, curandRngType_t type) {
  bool is_xorwow = type == CURAND_RNG_PSEUDO_DEFAULT || type == CURAND_RNG_PSEUDO_XORWOW;
  if (!is_xorwow && type != CURAND_RNG_PSEUDO_PHILOX4_32_10)
    return (curandStatus_t)weft_unsupported("curandCreateGenerator", "generators but XORWOW and Philox", "CURAND_STATUS_TYPE_ERROR", CURAND_STATUS_TYPE_ERROR);
  *generator = (curandGenerator_t)calloc(1, sizeof(curandGenerator_st));
  if (!*generator) return CURAND_STATUS_ALLOCATION_FAILED;
  (*generator)->is_philox = !is_xorwow;
  return CURAND_STATUS_SUCCESS;
}
curandStatus_t curandCreateGeneratorHost(curandGenerator_t *generator, curandRngType_t type) {
  return curandCreateGenerator(generator, type);
}
curandStatus_t curandDestroyGenerator(curandGenerator_t generator) { return free(generator), CURAND_STATUS_SUCCESS; }
curandStatus_t curandSetPseudoRandomGeneratorSeed(curandGenerator_t g, unsigned long long seed) {
  g->seed = seed, g->position = 0, g->is_seeded = false;
  return CURAND_STATUS_SUCCESS;
}
curandStatus_t curandSetGeneratorOffset(curandGenerator_t g, unsigned long long offset) {
  g->position = offset, g->is_seeded = false;
  return CURAND_STATUS_SUCCESS;
}
curandStatus_t curandSetGeneratorOrdering(curandGenerator_t, curandOrdering_t order) {
  return order == CURAND_ORDERING_PSEUDO_SEEDED ? CURAND_STATUS_TYPE_ERROR : CURAND_STATUS_SUCCESS;
}
curandStatus_t curandSetStream(curandGenerator_t, cudaStream_t) { return CURAND_STATUS_SUCCESS; }
curandStatus_t curandGetVersion(int *version) { return *version = 10304, CURAND_STATUS_SUCCESS; }
curandStatus_t curandGenerate(curandGenerator_t g, unsigned int *to, size_t n) {
  return fill(g, to, n, [=](unsigned int *at, size_t, size_t *done) { *at = draw(g), ++*done; });
}
curandStatus_t curandGenerateUniform(curandGenerator_t g, float *to, size_t n) {
  return fill(g, to, n, [=](float *at, size_t, size_t *done) { *at = unit<float>(g), ++*done; });
}
curandStatus_t curandGenerateUniformDouble(curandGenerator_t g, double *to, size_t n) {
  return fill(g, to, n, [=](double *at, size_t, size_t *done) { *at = unit<double>(g), ++*done; });
}
curandStatus_t curandGenerateNormal(curandGenerator_t g, float *to, size_t n, float mean, float deviation) {
  return normals(g, to, n, [=](float x) { return mean + deviation * x; });
}
curandStatus_t curandGenerateNormalDouble(curandGenerator_t g, double *to, size_t n, double mean, double deviation) {
  return normals(g, to, n, [=](double x) { return mean + deviation * x; });
}
curandStatus_t curandGenerateLogNormal(curandGenerator_t g, float *to, size_t n, float mean, float deviation) {
  return normals(g, to, n, [=](float x) { return expf(mean + deviation * x); });
}
curandStatus_t curandGenerateLogNormalDouble(curandGenerator_t g, double *to, size_t n, double mean, double deviation) {
  return normals(g, to, n, [=](double x) { return exp(mean + deviation * x); });
}
}
