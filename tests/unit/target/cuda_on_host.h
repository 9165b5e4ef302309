// Enough of CUDA C++ for a host compiler to build what Weft generates, and to run it without a GPU.
// Threads of a block are threads of the host, blocks run one after the other.
#include <math.h>
#include <stdint.h>
#include <string.h>

#define __device__
#define __global__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(n) __attribute__((aligned(n)))
#define __shared__ static
#define __CUDA_ARCH__ 700

struct Index { unsigned x, y, z; };
extern "C" thread_local Index host_thread, host_block;
extern "C" Index host_block_dim, host_grid_dim;
#define threadIdx host_thread
#define blockIdx host_block
#define blockDim host_block_dim
#define gridDim host_grid_dim

struct float2 { float x, y; };
inline float2 make_float2(float x, float y) { return {x, y}; }
struct uint2 { unsigned x, y; };
struct uint4 { unsigned x, y, z, w; };

extern "C" void host_sync_threads();
extern "C" void host_sync_warp();
extern "C" void host_exchange(void* value, int bytes, int distance, unsigned lanes);
extern "C" void host_gather(const void* value, int bytes, void* all);
extern "C" int host_lane();
extern "C" void host_sync_some(int threads);
extern "C" void host_turn_start(unsigned long long* turn, int arrivals);
extern "C" void host_turn_wait(unsigned long long* turn, int parity);
extern "C" void host_turn_expect(unsigned long long* turn, int bytes);
extern "C" void host_turn_arrive(unsigned long long* turn, int bytes);
extern "C" void host_lock();
extern "C" void host_unlock();

inline void __syncthreads() { host_sync_threads(); }
inline void __syncwarp() { host_sync_warp(); }
inline void __threadfence_system() {}
template <class T> T __shfl_xor_sync(unsigned lanes, T value, int distance) {
  host_exchange(&value, sizeof(T), distance, lanes);
  return value;
}

template <class T, class V, class F> T host_atomic(T* p, V value, F combine) {
  host_lock();
  const T old = *p;
  *p = combine(old, (T)value);
  host_unlock();
  return old;
}
template <class T, class V> T atomicAdd(T* p, V v) { return host_atomic(p, v, [](T a, T b) { return (T)(a + b); }); }
template <class T, class V> T atomicMin(T* p, V v) { return host_atomic(p, v, [](T a, T b) { return b < a ? b : a; }); }
template <class T, class V> T atomicMax(T* p, V v) { return host_atomic(p, v, [](T a, T b) { return b > a ? b : a; }); }
template <class T, class V> T atomicAnd(T* p, V v) { return host_atomic(p, v, [](T a, T b) { return (T)(a & b); }); }
template <class T, class V> T atomicOr(T* p, V v) { return host_atomic(p, v, [](T a, T b) { return (T)(a | b); }); }
template <class T, class V> T atomicXor(T* p, V v) { return host_atomic(p, v, [](T a, T b) { return (T)(a ^ b); }); }
template <class T, class V> T atomicExch(T* p, V v) { return host_atomic(p, v, [](T, T b) { return b; }); }
template <class T, class V, class W> T atomicCAS(T* p, V expected, W v) {
  return host_atomic(p, v, [=](T a, T b) { return a == (T)expected ? b : a; });
}
template <class T> void __stcs(T* p, T value) { *p = value; }

// Narrow floats, for functions that are instructions on a GPU.
struct HostBfloat {
  uint16_t bits;
  HostBfloat(float x) {
    uint32_t u;
    memcpy(&u, &x, 4);
    bits = x != x ? 0x7fff : (u + 0x7fff + ((u >> 16) & 1)) >> 16;
  }
  HostBfloat() = default;
  operator float() const { uint32_t u = (uint32_t)bits << 16; float x; memcpy(&x, &u, 4); return x; }
};
template <class H, class T> T host_add(T* p, T value) {
  return host_atomic(p, value, [](T a, T b) {
    H x, y;
    memcpy(&x, &a, 2);
    memcpy(&y, &b, 2);
    const H z = (H)((float)x + (float)y);
    memcpy(&a, &z, 2);
    return a;
  });
}

// Floats of 8 bits that are numbers.
template <int EXPONENT> struct HostSmall {
  uint8_t bits;
  operator float() const {
    const int digits = 7 - EXPONENT, power = (bits & 0x7f) >> digits, rest = bits & ((1 << digits) - 1);
    const int bias = (1 << (EXPONENT - 1)) - 1, whole = power ? rest | 1 << digits : rest;
    const float x = ldexpf((float)whole, (power ? power : 1) - bias - digits);
    return bits & 0x80 ? -x : x;
  }
};

// Matrix instructions: N matrices of 8 x 8 elements of 16 bits, each lane bringing the address of a row ...
template <int N> void host_load_matrices(unsigned (&x)[4], const void* p, bool transposed) {
  const uint16_t* rows[32];
  host_gather(&p, sizeof(p), rows);
  const int row = host_lane() / 4, pair = host_lane() % 4 * 2;
  for (int i = 0; i < N; ++i) {
    const uint16_t low = transposed ? rows[8 * i + pair][row] : rows[8 * i + row][pair];
    const uint16_t high = transposed ? rows[8 * i + pair + 1][row] : rows[8 * i + row][pair + 1];
    x[i] = low | (unsigned)high << 16;
  }
}
// ... and C += A * B of 16 x 16 and 16 x 8 elements, spread over the lanes as the hardware has them.
struct HostFragment { unsigned a[4], b[2]; };
template <class C, class H> C host_part(unsigned word, int n) {
  H x;
  memcpy(&x, (const char*)&word + n * sizeof(H), sizeof(H));
  return (C)x;
}
template <class H, class G, class C>
void host_mma(C& c0, C& c1, C& c2, C& c3, const unsigned (&a)[4], unsigned b0, unsigned b1) {
  const HostFragment own = {{a[0], a[1], a[2], a[3]}, {b0, b1}};
  HostFragment all[32];
  host_gather(&own, sizeof(own), all);
  const int row = host_lane() / 4, column = host_lane() % 4 * 2;
  C* const sums[2][2] = {{&c0, &c1}, {&c2, &c3}};
  for (int half = 0; half < 2; ++half)
    for (int odd = 0; odd < 2; ++odd)
      for (int k = 0; k < (int)(32 / sizeof(H)); ++k) {
        const int in_word = 4 / sizeof(H), lane = k / in_word % 4, later = k / in_word / 4;
        const C x = host_part<C, H>(all[row * 4 + lane].a[half + later * 2], k % in_word);
        const C y = host_part<C, G>(all[(column + odd) * 4 + lane].b[later], k % in_word);
        *sums[half][odd] += x * y;
      }
}

// Of four warps: matrices in swizzled rows of 128 bytes, along the depth or across it; each lane reads its own part.
template <class C, class H> C host_swizzled(const void* p, int row, int column) {
  const size_t at = (size_t)p + 128 * row + sizeof(H) * column;
  H x;
  memcpy(&x, (const void*)(at ^ (at >> 3 & 0x70)), sizeof(H));
  return (C)x;
}
template <class H, class G, int N, int EACH, class C>
void host_wgmma(C* c, const void* a, const void* b, int block, int tile, int half, int odd, bool a_transposed,
                bool b_transposed, int b_lead) {
  const int thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  for (int n = 0; n < N; ++n) {
    if (n % 8 / 2 != host_lane() % 4) continue;
    for (int h = 0; h < 2; ++h) {
      const int m = thread / 32 % 4 * 16 + h * 8 + host_lane() / 4;
      C& sum = c[n / EACH * block + n % EACH / 8 * tile + h * half + n % 2 * odd];
      for (int k = 0; k < (int)(32 / sizeof(H)); ++k) {
        const char* const columns = (const char*)b + (b_transposed ? n / 64 * b_lead : 0);
        sum += host_swizzled<C, H>(a, a_transposed ? k : m, a_transposed ? m : k) *
               host_swizzled<C, G>(columns, b_transposed ? k : n, b_transposed ? n % 64 : k);
      }
    }
  }
}

// The same with the left matrix in the registers of the lanes.
template <class H, int N>
void host_wgmma_registers(float* c, const unsigned* a, const void* b, int block, int tile, int half, int odd,
                          bool b_transposed, int b_lead) {
  const HostFragment own = {{a[0], a[1], a[2], a[3]}, {0, 0}};
  HostFragment all[32];
  host_gather(&own, sizeof(own), all);
  for (int n = 0; n < N; ++n) {
    if (n % 8 / 2 != host_lane() % 4) continue;
    for (int h = 0; h < 2; ++h) {
      float& sum = c[n / 64 * block + n % 64 / 8 * tile + h * half + n % 2 * odd];
      for (int k = 0; k < 16; ++k) {
        const char* const columns = (const char*)b + (b_transposed ? n / 64 * b_lead : 0);
        sum += host_part<float, H>(all[host_lane() / 4 * 4 + k / 2 % 4].a[h + k / 8 * 2], k % 2) *
               host_swizzled<float, H>(columns, b_transposed ? k : n, b_transposed ? n % 64 : k);
      }
    }
  }
}

// The copy engine: a box of elements of some bytes to swizzled rows of 128 bytes, zeros where there is no array.
struct HostMap { uint64_t base; int64_t rank, strides[4]; int32_t sizes[5], box[5], itemsize; };
inline void host_bulk_copy(void* to, const void* map, unsigned long long* turn, const int* at) {
  const HostMap& m = *(const HostMap*)map;
  int count = 1;
  for (int d = 0; d < m.rank; ++d) count *= m.box[d];
  for (int n = 0; n < count; ++n) {
    bool inside = true;
    const char* from = (const char*)m.base;
    for (int d = 0, rest = n; d < m.rank; rest /= m.box[d++]) {
      const int64_t i = at[d] + rest % m.box[d];
      inside = inside && i >= 0 && i < m.sizes[d];
      from += i * (d == 0 ? m.itemsize : m.strides[d - 1]);
    }
    const size_t where = (size_t)to + m.itemsize * n;
    uint32_t value = 0;
    if (inside) memcpy(&value, from, m.itemsize);
    memcpy((void*)(where ^ (where >> 3 & 0x70)), &value, m.itemsize);
  }
  host_turn_arrive(turn, m.itemsize * count);
}

inline float __int_as_float(int x) { float y; memcpy(&y, &x, 4); return y; }
inline float __uint_as_float(unsigned x) { float y; memcpy(&y, &x, 4); return y; }
inline unsigned __float_as_uint(float x) { unsigned y; memcpy(&y, &x, 4); return y; }
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned s) {
  const unsigned long long both = (unsigned long long)y << 32 | x;
  unsigned z = 0;
  for (int i = 0; i < 4; ++i) z |= (unsigned)(both >> (s >> 4 * i & 7) * 8 & 255) << 8 * i;
  return z;
}
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }

// The hardware saturates; NaN gives 0 only from float to 32 bits, else the least number.
template <class T> T host_saturate(double x, T of_nan) {
  constexpr T low = (T)-1 < (T)0 ? (T)(1ull << (8 * sizeof(T) - 1)) : (T)0, high = (T)~low;
  if (x != x) return of_nan;
  return x >= (double)high ? high : x <= (double)low ? low : (T)x;
}
inline int __float2int_rz(float x) { return host_saturate<int>(x, 0); }
inline unsigned __float2uint_rz(float x) { return host_saturate<unsigned>(x, 0); }
inline long long __float2ll_rz(float x) { return host_saturate<long long>(x, INT64_MIN); }
inline unsigned long long __float2ull_rz(float x) { return host_saturate<unsigned long long>(x, 1ull << 63); }
inline int __double2int_rz(double x) { return host_saturate<int>(x, INT32_MIN); }
inline unsigned __double2uint_rz(double x) { return host_saturate<unsigned>(x, 1u << 31); }
inline long long __double2ll_rz(double x) { return host_saturate<long long>(x, INT64_MIN); }
inline unsigned long long __double2ull_rz(double x) { return host_saturate<unsigned long long>(x, 1ull << 63); }

template <class T> float host_toward_zero(T x) {
  const float y = (float)x;
  const bool beyond = x < (T)0 ? (long double)y < (long double)x : (long double)y > (long double)x;
  return beyond ? nextafterf(y, 0.0f) : y;
}
inline float __double2float_rz(double x) { return host_toward_zero(x); }
inline float __ll2float_rz(long long x) { return host_toward_zero(x); }
inline float __ull2float_rz(unsigned long long x) { return host_toward_zero(x); }
inline float __fdividef(float x, float y) { return x / y; }
inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
inline double rsqrt(double x) { return 1.0 / sqrt(x); }

// A kernel's arguments as the driver takes them: an array of addresses of the arguments.
template <int... N> struct Numbers {};
template <int N, int... Rest> struct Count : Count<N - 1, N - 1, Rest...> {};
template <int... Rest> struct Count<0, Rest...> { using type = Numbers<Rest...>; };
template <class... Args, int... N> void host_apply(void (*kernel)(Args...), void** args, Numbers<N...>) {
  kernel(*(Args*)args[N]...);
}
template <class... Args> void host_call(void (*kernel)(Args...), void** args) {
  host_apply(kernel, args, typename Count<sizeof...(Args)>::type());
}
