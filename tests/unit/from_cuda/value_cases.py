"""Kernels in which it matters when a value is taken, how large it gets, where it lies, or whether a pointer is null."""

from __future__ import annotations

import numpy as np

from tests.unit.from_cuda.cuda_cases import CASES, Case, case, f32, floats, i32

__all__ = ["CASES", "Case"]


_HUGE = 2**64 - 48


def _wrapped(value: int) -> int:
    return (value + (1 << 31)) % (1 << 32) - (1 << 31)


def _remainder(value: int, by: int) -> int:
    return abs(value) % by * (1 if value >= 0 else -1)


def _signed(i: int, n: int) -> list[int]:
    lcg, small, shifted, mixed = i + 1, i, i + 1, i
    for k in range(n):
        lcg = _wrapped(lcg * 1103515245 + 12345)
        small = _wrapped(small * 31 + k)
        shifted = _wrapped(shifted ^ (shifted << 13))
        shifted ^= shifted >> 17
        shifted = _wrapped(shifted ^ (shifted << 5))
    for _ in range(2):
        mixed = _wrapped(((mixed >> 16) ^ mixed) * 0x45D9F3B)
    return [_remainder(lcg, 1000), _remainder(small, 997), shifted, mixed >> 16]


case(
    "hashes and random numbers of signed ints wrap",
    """__device__ int next(int s) { int t = s * 31; return t; }
    __global__ void k(int *y, int n) {
      int i = threadIdx.x, lcg = i + 1, small = i, shifted = i + 1, mixed = i;
      for (int j = 0; j < n; j++) {
        lcg = lcg * 1103515245 + 12345;
        small = next(small) + j;
        shifted ^= shifted << 13; shifted ^= shifted >> 17; shifted ^= shifted << 5;
      }
      for (int j = 0; j < 2; j++) mixed = ((mixed >> 16) ^ mixed) * 0x45d9f3b;
      y[4 * i] = lcg % 1000, y[4 * i + 1] = small % 997, y[4 * i + 2] = shifted, y[4 * i + 3] = mixed >> 16;
    }""",
    (1,), (16,), (np.zeros(64, i32), 12), lambda y, n: {0: np.ravel([_signed(i, n) for i in range(16)])},
)  # fmt: skip


def _packed(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> dict[int, np.ndarray]:
    a, b = (v.view(np.uint8).reshape(-1, 4).astype(int) for v in (x, y))
    c, d = (v.view(np.int8).reshape(-1, 4).astype(int) for v in (x, y))
    e, f = (v.view(np.int16).reshape(-1, 2).astype(int) for v in (x, y))
    words = [
        (a + b).astype(np.uint8), np.clip(c - d, -128, 127).astype(np.int8), abs(a - b).astype(np.uint8),
        np.where(c > d, 255, 0).astype(np.uint8), np.maximum(e, f).astype(np.int16),
        ((a + b + 1) // 2).astype(np.uint8), (a == b).astype(np.uint8),
    ]  # fmt: skip
    sums = [abs(a - b).sum(1), (c * d).sum(1) + 5, (a * b).sum(1) + 7, e[:, 0] * d[:, 2] + e[:, 1] * d[:, 3] + 1]
    columns = [*(w.view(np.uint32).ravel() for w in words), *(s.astype(np.uint32) for s in sums)]
    return {2: np.stack(columns, 1).ravel()}


_WORDS = np.random.default_rng(3).integers(0, 2**32, (2, 32), np.uint32)
_WORDS[1, :4] = _WORDS[0, :4]
case(
    "bytes and halves of words at once",
    """__global__ void k(const unsigned *x, const unsigned *y, unsigned *z) {
      unsigned i = threadIdx.x, a = x[i], b = y[i], *to = z + 11 * i;
      to[0] = __vadd4(a, b), to[1] = __vsubss4(a, b), to[2] = __vabsdiffu4(a, b), to[3] = __vcmpgts4(a, b);
      to[4] = __vmaxs2(a, b), to[5] = __vavgu4(a, b), to[6] = __vseteq4(a, b), to[7] = __vsadu4(a, b);
      to[8] = __dp4a((int)a, (int)b, 5), to[9] = __dp4a(a, b, 7u), to[10] = __dp2a_hi((int)a, (int)b, 1);
    }""",
    (1,), (32,), (*_WORDS, np.zeros(352, np.uint32)), _packed,
)  # fmt: skip
case(
    "constants beyond the signed numbers",
    """#define huge (~47ull)
    __global__ void k(unsigned long long *y, int *z) {
      unsigned long long i = threadIdx.x;
      y[5 * i] = huge % 77u, y[5 * i + 1] = huge >> 3, y[5 * i + 2] = min(i, huge), y[5 * i + 3] = (huge + i) / 3;
      y[5 * i + 4] = i > 2 ? huge : i;
      z[i] = (i < huge) + 2 * (huge <= i) + 4 * (i == ~0ull) + 8 * (~0ull > huge) + 16 * (max(i, ~0ull) == ~0ull);
    }""",
    (1,), (4,), (np.zeros(20, np.uint64), np.zeros(4, i32)),
    lambda y, z: {
        0: np.array([[_HUGE % 77, _HUGE >> 3, i, (_HUGE + i) // 3, _HUGE if i > 2 else i] for i in range(4)],
                    np.uint64).ravel(),
        1: np.full(4, 1 + 8 + 16),
    },
)  # fmt: skip
case(
    "pointers that are null in some threads",
    """__device__ const float *find(const float *a, int i, int n) { if (i < n) return a + i; return nullptr; }
    __global__ void k(const float *a, float *y, int n) {
      int i = threadIdx.x;
      const float *p = nullptr, *q = a + i, *r = i % 3 ? a + i : nullptr, *s = find(a, i, n);
      if (i % 2) p = a + i;
      if (i >= n) q = NULL;
      const float *last = r;
      y[i] = (p ? *p : -1) + (q != nullptr ? *q : -10) + (last == 0 ? -100 : *last) + (s ? 1000 : 2000);
    }""",
    (1,), (16,), (floats(16), np.zeros(16, f32), 9),
    lambda a, y, n: {1: [(v if i % 2 else -1) + (v if i < n else -10) + (v if i % 3 else -100)
                         + (1000 if i < n else 2000) for i, v in enumerate(a)]},
)  # fmt: skip


def _calls(i: int) -> float:
    s = [i]

    def step() -> int:
        s[0] = s[0] * 5 + 1
        return s[0]

    first = step() - 3 * step()
    pair = [step(), step()]
    return float(first + pair[0] * 2 - pair[1] + max(step() % 7, step() % 11))


case(
    "calls that change what the others see",
    """struct Both { int a, b; };
    __device__ int step(int &s) { s = s * 5 + 1; return s; }
    __global__ void k(float *y) {
      int s = threadIdx.x;
      int first = step(s) - 3 * step(s);
      Both pair = {step(s), step(s)};
      y[threadIdx.x] = first + pair.a * 2 - pair.b + max(step(s) % 7, step(s) % 11);
    }""",
    (1,), (16,), (np.zeros(16, f32),), lambda y: {0: [_calls(i) for i in range(16)]},
)  # fmt: skip
case(
    "the values of assignments, places that are chosen, copies in lambdas",
    """struct V { float x, y; __device__ float &operator[](int i) { return i == 0 ? x : y; } };
    __global__ void k(int *r, float *f) {
      int t = threadIdx.x, y = t, z = (y = y + 1), w = (y += 3), a[2] = {1, 2}, v = (a[1] = a[1] + 1);
      char narrow;
      int cut = (narrow = 300 + t), n = 0;
      a[n++] = n + 5;
      (t & 1 ? y : z) = 9;
      V p = {1, 2};
      p[t % 2] += 7;
      int late = t;
      auto now = [=](int i) { return i + late; };
      auto then = [&](int i) { return i + late; };
      late = 50;
      r[t] = z + 100 * w + 10000 * y + 1000000 * v + cut + a[0] + n;
      f[t] = p.x + 100 * p.y + 10000 * now(1) + 1000000 * then(1);
    }""",
    (1,), (8,), (np.zeros(8, i32), np.zeros(8, f32)),
    lambda r, f: {
        0: [(t + 1 if t & 1 else 9) + 100 * (t + 4) + 10000 * (9 if t & 1 else t + 4) + 3000000 + 44 + t + 6
            for t in range(8)],
        1: [(1, 8)[t % 2 == 0] + 100 * (2, 9)[t % 2] + 10000 * (1 + t) + 51000000 for t in range(8)],
    },
)  # fmt: skip


case(
    "empty members, alignments, and padding of bases",
    """struct Empty {};
    struct Member { Empty e; int x; };
    struct Aligned { char a; alignas(16) int b[4]; };
    struct Base { int a; char b; __device__ Base(int a) : a(a), b(1) {} };
    struct Derived : Base { char c; __device__ Derived(int a) : Base(a), c(2) {} };
    struct Plain { int a; char b; };
    struct Further : Plain { char c; };
    enum Mode { first = 3, second };
    template <class T, Mode M, int N = 2 * 2, class U = T> struct Default { T a; U b[N]; };
    __global__ void k(int *x, int *y, int *sizes) {
      int t = threadIdx.x;
      Derived d(t);
      Default<int, second> e;
      e.a = t, e.b[3] = 10;
      x[t] = d.a * e.b[3] + d.b;
      y[t] = e.a * 10 + d.c;
      if (t > 0) return;
      sizes[0] = sizeof(Member), sizes[1] = sizeof(Aligned), sizes[2] = sizeof(Derived), sizes[3] = sizeof(Further);
    }""",
    (1,), (6,), (np.zeros(6, i32), np.zeros(6, i32), np.zeros(4, i32)),
    lambda x, y, s: {0: np.arange(6) * 10 + 1, 1: np.arange(6) * 10 + 2, 2: [8, 32, 8, 12]},
)  # fmt: skip
case(
    "the standard library's small things, bytes copied and set, bits and exponents, rows of arrays",
    """#if __has_include(<limits>)
    #include <algorithm>
    #include <cstring>
    #include <limits>
    #include <type_traits>
    #include <utility>
    #endif
    struct Row { int a; float b; };
    __device__ void put(int (*rows)[2], int i) { rows[i][1] = 7; }
    __device__ std::pair<int, float> both(int i) { return std::make_pair(2 * i, i + 0.5f); }
    __global__ void k(const float *x, float *y, unsigned *bits) {
      int t = threadIdx.x, zero[5], copied, rows[3][2][2], exponent;
      memset(zero, 0, sizeof(zero));
      memset(zero + 1, 255, 2 * sizeof(int));
      float four[4], least = std::numeric_limits<float>::max();
      memcpy(four, x + t / 4 * 4, 4 * sizeof(float));
      memcpy(&copied, &four[1], 4);
      for (int i = 0; i < 12; i++) (&rows[0][0][0])[i] = 0;
      put(rows[1], t % 2);
      Row from[2] = {{1, 2}, {3, 4}}, to[2];
      memcpy(to, from, sizeof(to));
      for (int i = 0; i < 4; i++) least = std::min(least, four[i]);
      float part = frexpf(16.0f * (t + 1), &exponent);
      y[t] = least + zero[0] + zero[1] + 10 * zero[2] + 100 * zero[4] + 1000 * rows[1][t % 2][1] + 10000 * to[1].b;
      y[t] += both(t).first + both(t).second + ldexpf(part, exponent - 4) + std::is_same<float, int>::value;
      bits[t] = __brev(t) ^ copied ^ __byte_perm(0x33221100u, 0x77665544u, 0x7531u) ^ (signbit(x[t]) ? 1u : 0u);
    }""",
    (1,), (16,), (floats(16), np.zeros(16, f32), np.zeros(16, np.uint32)),
    lambda x, y, b: {
        1: [x[t // 4 * 4 : t // 4 * 4 + 4].min() - 11 + 7000 + 40000 + 2 * t + t + 0.5 + t + 1 for t in range(16)],
        2: [int(f"{t:032b}"[::-1], 2) ^ int(x.view(np.uint32)[t // 4 * 4 + 1]) ^ 0x77553311 ^ int(x[t] < 0)
            for t in range(16)],
    },
)  # fmt: skip
case(
    "static constants of functions",
    """__device__ float weight(int i) {
      static const float part = 0.5f;
      static const int most = 4;
      return min(i, most) * part;
    }
    __global__ void k(float *y) { y[threadIdx.x] = weight(threadIdx.x) + 10 * weight(3); }""",
    (1,), (8,), (np.zeros(8, f32),), lambda y: {0: [15, 15.5, 16, 16.5, 17, 17, 17, 17]},
)  # fmt: skip
case(
    "names that several namespaces, classes and functions have",
    """namespace one { struct P { float x; }; enum class Kind : unsigned char { A, B = 7 }; }
    namespace two {
      struct P { double y; float x; };
      struct A { using T = float; T *p; __device__ T &at(int i) { return p[i]; } };
      struct B { using T = int; T *p; __device__ T &at(int i) { return p[i]; } };
      template <class T, bool C> class Base { protected: int step; };
      template <class T, bool C> struct Down : Base<const T, C> {
        __device__ T go(P &p) { this->step = C ? 2 : 3; p.x += 1; return this->step * p.x; }
      };
      __device__ float run(const P *from) {
        P p = *from;
        Down<float, true> d;
        float first = d.go(p);
        return first + Down<float, false>().go(p);
      }
      namespace { struct Hidden { P p[2]; int n; }; __device__ float hidden(Hidden h) { return h.p[h.n].x; } }
    }
    using namespace one;
    __device__ float by_name(P p) { struct T { float a, b; } t = {p.x, 2}; return t.a * t.b; }
    __device__ float by_other_name(P p) { struct T { double c; float a; } t = {1, p.x}; return t.a + t.c; }
    __global__ void k(const float *x, float *y, int *z) {
      int i = threadIdx.x;
      two::P p{5, x[i]};
      two::Hidden h = {{{0, 100}, {0, 200}}, i & 1};
      two::A a{y};
      two::B b{z};
      a.at(i) = two::run(&p) + by_name(P{x[i]}) + by_other_name(P{x[i]}) + two::hidden(h);
      b.at(i) = (int)Kind::B;
    }""",
    (1,), (8,), (floats(8), np.zeros(8, f32), np.zeros(8, i32)),
    lambda x, y, z: {1: [2 * (v + 1) + 3 * (v + 2) + 2 * v + v + 1 + (200 if i & 1 else 100) for i, v in enumerate(x)],
                     2: [7] * 8},
)  # fmt: skip
case(
    "texts, and arrays of records that constructors make",
    """__device__ int length(const char *s) { int n = 0; while (s[n]) n++; return n; }
    struct P { float x; int n; __device__ P() : x(1.5f), n(threadIdx.x) {} };
    struct Q { P p[3]; int w[2]; float z[2]; __device__ Q() : w{4, 5}, z() {} };
    __global__ void k(float *y) {
      int i = threadIdx.x;
      const char *s = "abcdefgh";
      char own[8] = "xyz";
      if (i & 1) s = "ABCDEFGH";
      P few[2], many[20];
      Q q;
      own[1] += i;
      y[2 * i] = s[i] + own[i & 3] + length("four") + 1000 * length(own);
      y[2 * i + 1] = few[i & 1].x + few[1].n + many[2 * i].x + q.p[2].n + q.w[1] + q.z[i & 1];
    }""",
    (1,), (8,), (np.zeros(16, f32),),
    lambda y: {0: np.ravel([[(b"ABCDEFGH" if i & 1 else b"abcdefgh")[i] + [120, 121 + i, 122, 0][i & 3] + 3004,
                             8 + 2 * i] for i in range(8)])},
)  # fmt: skip
