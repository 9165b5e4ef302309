// cuFFT. A line of numbers is transformed in double precision: by halves where its length is a power of two, else as a
// convolution (Bluestein). More dimensions are lines along one after the other; lines run on the pool.
#include "cufft.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "weft_cuda.h"

namespace {
struct number { double x, y; };
number operator*(number a, number b) { return {a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x}; }
number turn(double part) { return {cos(2 * M_PI * part), sin(2 * M_PI * part)}; }

struct layout { int64_t embed[3], stride, distance; };
struct plan {
  bool is_used;
  int rank, batch;
  int64_t n[3];
  cufftType type;
  layout in, out;
  bool is_embedded;  // layouts were given
};
const int most_plans = 1024;
plan plans[most_plans];

number *numbers(int64_t n) { return (number *)malloc((size_t)(n > 0 ? n : 1) * sizeof(number)); }

void transform_power(number *x, int64_t n, int direction) {
  for (int64_t i = 1, j = 0; i < n; ++i) {
    int64_t bit = n >> 1;
    for (; j & bit; bit >>= 1) j ^= bit;
    j ^= bit;
    if (i < j) {
      number kept = x[i];
      x[i] = x[j], x[j] = kept;
    }
  }
  number *turns = numbers(n / 2);
  for (int64_t k = 0; k < n / 2; ++k) turns[k] = turn(direction * (double)k / (double)n);
  for (int64_t half = 1; half < n; half *= 2)
    for (int64_t begin = 0; begin < n; begin += 2 * half)
      for (int64_t k = 0; k < half; ++k) {
        number even = x[begin + k], odd = x[begin + k + half] * turns[k * (n / 2 / half)];
        x[begin + k] = {even.x + odd.x, even.y + odd.y}, x[begin + k + half] = {even.x - odd.x, even.y - odd.y};
      }
  free(turns);
}
void transform_line(number *x, int64_t n, int direction) {
  if ((n & (n - 1)) == 0) return transform_power(x, n, direction);
  int64_t m = 1;
  while (m < 2 * n) m *= 2;
  number *chirp = numbers(n), *a = numbers(m), *b = numbers(m);
  memset(a, 0, (size_t)m * sizeof(number)), memset(b, 0, (size_t)m * sizeof(number));
  for (int64_t k = 0; k < n; ++k) {
    chirp[k] = turn(direction * (double)(k * k % (2 * n)) / (double)(2 * n));
    a[k] = x[k] * chirp[k];
    b[k] = b[(m - k) % m] = {chirp[k].x, -chirp[k].y};
  }
  transform_power(a, m, 1), transform_power(b, m, 1);
  for (int64_t k = 0; k < m; ++k) a[k] = a[k] * b[k];
  transform_power(a, m, -1);
  for (int64_t k = 0; k < n; ++k) {
    number made = a[k] * chirp[k];
    x[k] = {made.x / (double)m, made.y / (double)m};
  }
  free(chirp), free(a), free(b);
}

struct lines {
  number *x;
  int64_t n, step, block;  // elements of a line, how far apart; lines lie side by side in blocks
  int direction;
};
int run_lines(void *context, int64_t begin, int64_t end) {
  const lines &all = *(const lines *)context;
  number *one = numbers(all.n);
  for (int64_t line = begin; line < end; ++line) {
    number *at = all.x + line / all.step * all.block + line % all.step;
    for (int64_t i = 0; i < all.n; ++i) one[i] = at[i * all.step];
    transform_line(one, all.n, all.direction);
    for (int64_t i = 0; i < all.n; ++i) at[i * all.step] = one[i];
  }
  free(one);
  return 0;
}
void transform(const plan &p, number *x, int direction) {
  int64_t total = p.n[0] * p.n[1] * p.n[2], step = 1;
  for (int d = 2; d >= 0; step *= p.n[d--]) {
    if (p.n[d] == 1) continue;
    lines all = {x, p.n[d], step, step * p.n[d], direction};
    weft_parallel_for(run_lines, &all, total / p.n[d]);
  }
}

// Where element (i, j, k) of batch b lies; the last dimension of half-complex data is n / 2 + 1 long.
int64_t place(const layout &l, int64_t b, int64_t i, int64_t j, int64_t k) {
  return b * l.distance + ((i * l.embed[1] + j) * l.embed[2] + k) * l.stride;
}

bool is_plan(int handle) { return handle > 0 && handle < most_plans && plans[handle].is_used; }

template <typename Real, typename In, typename Out> cufftResult execute(int handle, int kind, In *in, Out *out, int direction) {
  if (!is_plan(handle)) return CUFFT_INVALID_PLAN;
  plan p = plans[handle];
  if ((int)p.type != kind) return CUFFT_INVALID_TYPE;
  bool is_from_half = sizeof(Out) == sizeof(Real), is_to_half = sizeof(In) == sizeof(Real);
  int64_t last = p.n[2], half = last / 2 + 1;
  // In place, rows of reals are as long as those of complex numbers.
  if ((void *)in == (void *)out && !p.is_embedded && (is_to_half || is_from_half)) {
    layout &reals = is_to_half ? p.in : p.out;
    reals.embed[2] = 2 * half, reals.distance = p.n[0] * p.n[1] * 2 * half;
  }
  number *x = numbers(p.n[0] * p.n[1] * last);
  if (!x) return CUFFT_ALLOC_FAILED;
  for (int64_t b = 0; b < p.batch; ++b) {
    for (int64_t i = 0; i < p.n[0]; ++i)
      for (int64_t j = 0; j < p.n[1]; ++j)
        for (int64_t k = 0; k < last; ++k) {
          bool is_mirrored = is_from_half && k >= half;
          int64_t si = is_mirrored ? (p.n[0] - i) % p.n[0] : i, sj = is_mirrored ? (p.n[1] - j) % p.n[1] : j;
          const Real *at = (const Real *)(in + place(p.in, b, si, sj, is_mirrored ? last - k : k));
          x[(i * p.n[1] + j) * last + k] = {(double)at[0], is_to_half ? 0.0 : is_mirrored ? -(double)at[1] : (double)at[1]};
        }
    transform(p, x, direction);
    for (int64_t i = 0; i < p.n[0]; ++i)
      for (int64_t j = 0; j < p.n[1]; ++j)
        for (int64_t k = 0; k < (is_to_half ? half : last); ++k) {
          number made = x[(i * p.n[1] + j) * last + k];
          Real *at = (Real *)(out + place(p.out, b, i, j, k));
          at[0] = (Real)made.x;
          if (!is_from_half) at[1] = (Real)made.y;
        }
  }
  free(x);
  return CUFFT_SUCCESS;
}

bool is_half(cufftType type, bool of_input) {
  return of_input ? type == CUFFT_C2R || type == CUFFT_Z2D : type == CUFFT_R2C || type == CUFFT_D2Z;
}
layout dense(const plan &p, bool of_input) {
  int64_t last = is_half(p.type, of_input) ? p.n[2] / 2 + 1 : p.n[2];
  return {{p.n[0], p.n[1], last}, 1, p.n[0] * p.n[1] * last};
}
cufftResult reserve(cufftHandle *handle) {
  for (int at = 1; at < most_plans; ++at)
    if (!plans[at].is_used) return plans[at] = plan{true}, *handle = at, CUFFT_SUCCESS;
  return CUFFT_ALLOC_FAILED;
}
cufftResult describe(int handle, int rank, const int *n, cufftType type, int batch) {
  if (!is_plan(handle)) return CUFFT_INVALID_PLAN;
  if (rank < 1 || rank > 3 || batch < 1) return CUFFT_INVALID_VALUE;
  plan &p = plans[handle];
  p = plan{true, rank, batch, {1, 1, 1}, type, {}, {}, false};
  for (int d = 0; d < rank; ++d) {
    p.n[3 - rank + d] = n[d];
    if (n[d] < 1) return CUFFT_INVALID_SIZE;
  }
  p.in = dense(p, true), p.out = dense(p, false);
  return CUFFT_SUCCESS;
}
cufftResult make(cufftHandle *handle, int rank, const int *n, cufftType type, int batch) {
  cufftResult result = reserve(handle);
  if (result == CUFFT_SUCCESS) result = describe(*handle, rank, n, type, batch);
  if (result != CUFFT_SUCCESS && result != CUFFT_ALLOC_FAILED) plans[*handle].is_used = false;
  return result;
}
}  // namespace

extern "C" {
cufftResult cufftPlan1d(cufftHandle *plan, int nx, cufftType type, int batch) { return make(plan, 1, &nx, type, batch); }
cufftResult cufftPlan2d(cufftHandle *plan, int nx, int ny, cufftType type) {
  int n[] = {nx, ny};
  return make(plan, 2, n, type, 1);
}
cufftResult cufftPlan3d(cufftHandle *plan, int nx, int ny, int nz, cufftType type) {
  int n[] = {nx, ny, nz};
  return make(plan, 3, n, type, 1);
}
static cufftResult nothing_needed(size_t *bytes, cufftResult result) { return *bytes = 0, result; }
cufftResult cufftCreate(cufftHandle *plan) { return reserve(plan); }
cufftResult cufftMakePlan1d(cufftHandle plan, int nx, cufftType type, int batch, size_t *bytes) {
  return nothing_needed(bytes, describe(plan, 1, &nx, type, batch));
}
cufftResult cufftMakePlan2d(cufftHandle plan, int nx, int ny, cufftType type, size_t *bytes) {
  int n[] = {nx, ny};
  return nothing_needed(bytes, describe(plan, 2, n, type, 1));
}
cufftResult cufftMakePlan3d(cufftHandle plan, int nx, int ny, int nz, cufftType type, size_t *bytes) {
  int n[] = {nx, ny, nz};
  return nothing_needed(bytes, describe(plan, 3, n, type, 1));
}
cufftResult cufftMakePlanMany(cufftHandle handle, int rank, int *n, int *inembed, int istride, int idist, int *onembed,
                              int ostride, int odist, cufftType type, int batch, size_t *bytes) {
  cufftResult result = nothing_needed(bytes, describe(handle, rank, n, type, batch));
  if (result != CUFFT_SUCCESS) return result;
  plan &p = plans[handle];
  p.is_embedded = inembed || onembed;
  if (inembed) p.in.stride = istride, p.in.distance = idist;
  if (onembed) p.out.stride = ostride, p.out.distance = odist;
  for (int d = 0; d < rank; ++d) {
    if (inembed) p.in.embed[3 - rank + d] = inembed[d];
    if (onembed) p.out.embed[3 - rank + d] = onembed[d];
  }
  return CUFFT_SUCCESS;
}
cufftResult cufftPlanMany(cufftHandle *handle, int rank, int *n, int *inembed, int istride, int idist, int *onembed,
                          int ostride, int odist, cufftType type, int batch) {
  size_t bytes;
  cufftResult result = reserve(handle);
  if (result != CUFFT_SUCCESS) return result;
  result = cufftMakePlanMany(*handle, rank, n, inembed, istride, idist, onembed, ostride, odist, type, batch, &bytes);
  if (result != CUFFT_SUCCESS) plans[*handle].is_used = false;
  return result;
}
cufftResult cufftSetAutoAllocation(cufftHandle plan, int) { return is_plan(plan) ? CUFFT_SUCCESS : CUFFT_INVALID_PLAN; }
cufftResult cufftSetWorkArea(cufftHandle plan, void *) { return is_plan(plan) ? CUFFT_SUCCESS : CUFFT_INVALID_PLAN; }
cufftResult cufftGetSize(cufftHandle plan, size_t *bytes) {
  return nothing_needed(bytes, is_plan(plan) ? CUFFT_SUCCESS : CUFFT_INVALID_PLAN);
}
cufftResult cufftDestroy(cufftHandle handle) {
  if (!is_plan(handle)) return CUFFT_INVALID_PLAN;
  return plans[handle].is_used = false, CUFFT_SUCCESS;
}
cufftResult cufftSetStream(cufftHandle, cudaStream_t) { return CUFFT_SUCCESS; }
cufftResult cufftExecC2C(cufftHandle plan, cufftComplex *in, cufftComplex *out, int direction) {
  return execute<float>(plan, CUFFT_C2C, in, out, direction);
}
cufftResult cufftExecR2C(cufftHandle plan, cufftReal *in, cufftComplex *out) { return execute<float>(plan, CUFFT_R2C, in, out, -1); }
cufftResult cufftExecC2R(cufftHandle plan, cufftComplex *in, cufftReal *out) { return execute<float>(plan, CUFFT_C2R, in, out, 1); }
cufftResult cufftExecZ2Z(cufftHandle plan, cufftDoubleComplex *in, cufftDoubleComplex *out, int direction) {
  return execute<double>(plan, CUFFT_Z2Z, in, out, direction);
}
cufftResult cufftExecD2Z(cufftHandle plan, cufftDoubleReal *in, cufftDoubleComplex *out) {
  return execute<double>(plan, CUFFT_D2Z, in, out, -1);
}
cufftResult cufftExecZ2D(cufftHandle plan, cufftDoubleComplex *in, cufftDoubleReal *out) {
  return execute<double>(plan, CUFFT_Z2D, in, out, 1);
}
}
