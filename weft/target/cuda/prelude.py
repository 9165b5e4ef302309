"""Device functions that generated code uses, each written out only where something calls it.

They give operators the meaning the interpreter defines where C++ has another: integers wrap, dividing by zero
gives 0, shifts are total, minimum and maximum propagate NaN, floats become integers by saturation. Nothing here
includes a header: NVRTC alone builds it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

from weft.target.c_text.functions import INTEGER_FUNCTIONS, callees_first
from weft.target.cuda.small_floats import SMALL_FLOATS, SMALL_TEXTS

_INLINE = "__device__ __forceinline__"

_TEXTS: dict[str, str] = {
    **{name: text.replace("INLINE", _INLINE) for name, text in INTEGER_FUNCTIONS.items()},
    "float16": "struct alignas(2) float16 { unsigned short bits; };",
    "bfloat16": "struct alignas(2) bfloat16 { unsigned short bits; };",
    **SMALL_TEXTS,
    "float_bits": f"{_INLINE} unsigned float_bits(float x) {{ return __float_as_uint(x); }}",
    "bits_float": f"{_INLINE} float bits_float(unsigned x) {{ return __uint_as_float(x); }}",
    "infinity": f"{_INLINE} float infinity() {{ return __int_as_float(0x7f800000); }}",
    "not_a_number": f"{_INLINE} float not_a_number() {{ return __int_as_float(0x7fffffff); }}",
    "widen_float16": f"""{_INLINE} float widen(float16 x) {{
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
  return y;
}}""",
    "widen_bfloat16": f"{_INLINE} float widen(bfloat16 x) {{ return __uint_as_float((unsigned)x.bits << 16); }}",
    "to_float16": f"""{_INLINE} float16 to_float16(float x) {{
  float16 y;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
  return y;
}}""",
    "to_bfloat16": f"""{_INLINE} bfloat16 to_bfloat16(float x) {{
  bfloat16 y;
#if __CUDA_ARCH__ >= 800
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
#else
  const unsigned u = __float_as_uint(x);
  y.bits = x != x ? 0x7fff : (u + 0x7fff + ((u >> 16) & 1)) >> 16;
#endif
  return y;
}}""",
    # Integers of up to 22 bits, beside 1.5 * 2**23 in the fraction of a float.
    "small_float": f"{_INLINE} float small_float(int x) {{ return __int_as_float(x + 0x4b400000) - 12582912.0f; }}",
    # A grid may be launched while the one before it runs: it waits here until that has ended and its results are seen,
    # and lets the one after it come near. Nothing may be loaded before.
    "follow_grid": f"""{_INLINE} void follow_grid() {{
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}}""",
    # All blocks of a cooperative launch wait. The driver keeps a counter for each such launch, after a word of its
    # workspace, whose address is in two registers; the first block's share makes its sign change when all have come.
    "grid_barrier": f"""{_INLINE} void grid_barrier() {{
  __syncthreads();
  if (threadIdx.x + threadIdx.y + threadIdx.z == 0) {{
    unsigned high, low, before, now;
    asm("mov.u32 %0, %%envreg1;" : "=r"(high));
    asm("mov.u32 %0, %%envreg2;" : "=r"(low));
    unsigned* const arrived = reinterpret_cast<unsigned*>(((unsigned long long)high << 32) | low) + 1;
    const bool is_first = blockIdx.x + blockIdx.y + blockIdx.z == 0;
    const unsigned share = is_first ? 0x80000001u - gridDim.x * gridDim.y * gridDim.z : 1u;
    asm volatile("atom.add.release.gpu.u32 %0, [%1], %2;" : "=r"(before) : "l"(arrived), "r"(share) : "memory");
    do {{
      asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(now) : "l"(arrived) : "memory");
    }} while (!((before ^ now) & 0x80000000u));
  }}
  __syncthreads();
}}""",
    # Two at once: the first in the low half.
    "pack_float16": f"""{_INLINE} unsigned pack_float16(float x, float y) {{
  return to_float16(x).bits | ((unsigned)to_float16(y).bits << 16);
}}""",
    "pack_bfloat16": f"""{_INLINE} unsigned pack_bfloat16(float x, float y) {{
#if __CUDA_ARCH__ >= 800
  unsigned both;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(y), "f"(x));
  return both;
#else
  return to_bfloat16(x).bits | ((unsigned)to_bfloat16(y).bits << 16);
#endif
}}""",
    # Two integers of up to 7 (10) bits, to which LEAST is added, beside 128 (1024) in the fractions of floats.
    **{
        f"small_pair_{narrow}": f"""template <int LEAST> {_INLINE} unsigned small_pair_{narrow}(unsigned x) {{
#if __CUDA_ARCH__ >= 800
  const unsigned ones = pack_{narrow}({ones}.0f, {ones}.0f);  // as a number it would be loaded for each use
  const unsigned least = pack_{narrow}(LEAST - {ones}.0f, LEAST - {ones}.0f);
  unsigned y;
  asm("fma.rn.{ptx}x2 %0, %1, %2, %3;" : "=r"(y) : "r"(x | ones), "r"({one}), "r"(least));
  return y;
#else
  return pack_{narrow}((float)((int)(x & 65535) + LEAST), (float)((int)(x >> 16) + LEAST));
#endif
}}"""
        for narrow, ptx, ones, one in (
            ("bfloat16", "bf16", 128, "0x3f803f80u"),
            ("float16", "f16", 1024, "0x3c003c00u"),
        )
    },
    # To float32 with the last bit set where that is inexact: rounding once more then rounds only once in effect.
    "odd_float": f"""{_INLINE} float odd_float(double x) {{
  const float y = __double2float_rz(x);
  return x == x && (double)y != x ? __uint_as_float(__float_as_uint(y) | 1) : y;
}}
{_INLINE} float odd_float(long long x) {{
  const float y = __ll2float_rz(x);
  return (long long)y != x ? __uint_as_float(__float_as_uint(y) | 1) : y;
}}
{_INLINE} float odd_float(unsigned long long x) {{
  const float y = __ull2float_rz(x);
  return (unsigned long long)y != x ? __uint_as_float(__float_as_uint(y) | 1) : y;
}}""",
    # erfc(|x|) as a power of two, to 6e-8: what adding 1 to a rounded erf gives too.
    "one_plus_erf": f"""{_INLINE} float one_plus_erf(float x) {{
  const float t = fabsf(x) > 4.0f ? 4.0f : fabsf(x);
  float p = -4.5358600e-5f;
  p = fmaf(p, t, 4.4550755e-4f);
  p = fmaf(p, t, -1.4894410e-3f);
  p = fmaf(p, t, -7.7463104e-4f);
  p = fmaf(p, t, 2.8253682e-2f);
  p = fmaf(p, t, -1.4848162e-1f);
  p = fmaf(p, t, -9.1841638e-1f);
  p = fmaf(p, t, -1.6279086f);
  const float e = quick_exp2(p * t);
  return x < 0.0f ? e : 2.0f - e;
}}""",
    "one_plus_tanh": f"""{_INLINE} float one_plus_tanh(float x) {{
  return __fdividef(2.0f, 1.0f + quick_exp2(-2.885390081777927f * x));
}}""",
    # NVRTC before 13.4 loses the minus in `min(min(a, -b), c)` of signed numbers, as far as it sees both minima.
    "apart": f"""template <class T> {_INLINE} T apart(T x) {{
#if defined(__CUDACC_VER_MAJOR__) && __CUDACC_VER_MAJOR__ * 100 + __CUDACC_VER_MINOR__ < 1304
  int y = (int)x;
  asm("prmt.b32 %0, %0, 0, 0x3210;" : "+r"(y));
  return (T)y;
#else
  return x;
#endif
}}""",
    # The hardware saturates; it does not give 0 for every NaN, nor know 8 and 16 bits.
    "saturate": f"""template <class T> struct saturated;
template <> struct saturated<int> {{
  static {_INLINE} int of(float x) {{ return __float2int_rz(x); }}
  static {_INLINE} int of(double x) {{ return x == x ? __double2int_rz(x) : 0; }}
}};
template <> struct saturated<unsigned> {{
  static {_INLINE} unsigned of(float x) {{ return __float2uint_rz(x); }}
  static {_INLINE} unsigned of(double x) {{ return x == x ? __double2uint_rz(x) : 0u; }}
}};
template <> struct saturated<long long> {{
  static {_INLINE} long long of(float x) {{ return x == x ? __float2ll_rz(x) : 0ll; }}
  static {_INLINE} long long of(double x) {{ return x == x ? __double2ll_rz(x) : 0ll; }}
}};
template <> struct saturated<unsigned long long> {{
  static {_INLINE} unsigned long long of(float x) {{ return x == x ? __float2ull_rz(x) : 0ull; }}
  static {_INLINE} unsigned long long of(double x) {{ return x == x ? __double2ull_rz(x) : 0ull; }}
}};
template <class T, int LO, int HI> struct saturated_small {{
  template <class F> static {_INLINE} T of(F x) {{
    const int y = saturated<int>::of(x);
    return (T)(y < LO ? LO : y > HI ? HI : y);
  }}
}};
template <> struct saturated<signed char> : saturated_small<signed char, -128, 127> {{}};
template <> struct saturated<unsigned char> : saturated_small<unsigned char, 0, 255> {{}};
template <> struct saturated<short> : saturated_small<short, -32768, 32767> {{}};
template <> struct saturated<unsigned short> : saturated_small<unsigned short, 0, 65535> {{}};
template <class T, class F> {_INLINE} T saturate(F x) {{ return saturated<T>::of(x); }}""",
    "sigmoid": f"""{_INLINE} float sigmoid(float x) {{
  const float e = expf(-fabsf(x));
  return (x >= 0 ? 1.0f : e) / (1.0f + e);
}}
{_INLINE} double sigmoid(double x) {{
  const double e = exp(-fabs(x));
  return (x >= 0 ? 1.0 : e) / (1.0 + e);
}}""",
    "quick_exp2": f"""{_INLINE} float quick_exp2(float x) {{
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}}""",
    "quick_exp": f"{_INLINE} float quick_exp(float x) {{ return quick_exp2(1.4426950408889634f * x); }}",
    "quick_sigmoid": f"""{_INLINE} float quick_sigmoid(float x) {{
  return __fdividef(1.0f, 1.0f + quick_exp(-x));
}}""",
    # Near 0 the first terms of its series, to 4e-7.
    "quick_tanh": f"""{_INLINE} float quick_tanh(float x) {{
  const float s = x * x;
  const float p = fmaf(fmaf(fmaf(2.1869489e-2f, s, -5.3968254e-2f), s, 1.3333334e-1f), s, -3.3333334e-1f);
  const float near = fmaf(p, s * x, x);
  return s < 0.09f ? near : 1.0f - __fdividef(2.0f, 1.0f + quick_exp2(2.885390081777927f * x));
}}""",
    # Several elements in one access of BYTES bytes; where N elements are more than that, in several.
    "access_unit": """template <int BYTES> struct access_unit;
template <> struct access_unit<16> { using type = uint4; };
template <> struct access_unit<8> { using type = uint2; };
template <> struct access_unit<4> { using type = unsigned; };
template <> struct access_unit<2> { using type = unsigned short; };""",
    "load": f"""template <int BYTES, int N, class T> {_INLINE} void load(T (&x)[N], const T* p) {{
  using Unit = typename access_unit<BYTES>::type;
  constexpr int count = N * sizeof(T) / BYTES;
  Unit units[count];
#pragma unroll
  for (int i = 0; i < count; ++i) units[i] = reinterpret_cast<const Unit*>(p)[i];
  memcpy(x, units, sizeof(x));
}}""",
    # The first of the second half after the first, and so on.
    "in_halves": f"""template <int N, class T> {_INLINE} void in_halves(T (&x)[N]) {{
  T y[N];
#pragma unroll
  for (int i = 0; i < N; ++i) y[i] = x[i / 2 + i % 2 * (N / 2)];
#pragma unroll
  for (int i = 0; i < N; ++i) x[i] = y[i];
}}""",
    # Zeros where nothing is there.
    "load_if": f"""template <int BYTES, int N, class T> {_INLINE} void load_if(T (&x)[N], const T* p, bool there) {{
  using Unit = typename access_unit<BYTES>::type;
  constexpr int count = N * sizeof(T) / BYTES;
  Unit units[count] = {{}};
#pragma unroll
  for (int i = 0; i < count; ++i)
    if (there) units[i] = reinterpret_cast<const Unit*>(p)[i];
  memcpy(x, units, sizeof(x));
}}""",
    # 16 bytes from anywhere: the aligned units that hold some of them, moved along by words, then by bytes.
    "load_cut": f"""template <int N, class T> {_INLINE} void load_cut(T (&x)[N], const T* p) {{
  const unsigned long long place = (unsigned long long)p;
  const unsigned by = (unsigned)place & 15u;
  const uint4* units = reinterpret_cast<const uint4*>(place & ~15ull);
  const uint4 a = units[0], b = units[by != 0];
  const unsigned words[8] = {{a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w}};
  unsigned twos[6], ones[5], bits[4];
#pragma unroll
  for (int i = 0; i < 6; ++i) twos[i] = by & 8 ? words[i + 2] : words[i];
#pragma unroll
  for (int i = 0; i < 5; ++i) ones[i] = by & 4 ? twos[i + 1] : twos[i];
#pragma unroll
  for (int i = 0; i < 4; ++i)
    bits[i] = (unsigned)(((unsigned long long)ones[i + 1] << 32 | ones[i]) >> (by & 3) * 8);
  memcpy(x, bits, 16);
}}""",
    "same_bits": f"""template <class T> {_INLINE} bool same_bits(T a, T b) {{
  unsigned long long x = 0, y = 0;
  memcpy(&x, &a, sizeof(T));
  memcpy(&y, &b, sizeof(T));
  return x == y;
}}""",
    # By compare-and-swap on the bits; a single byte within the word that holds it.
    "atomic_update": f"""template <int BYTES> struct atomic_word {{ using type = unsigned; }};
template <> struct atomic_word<2> {{ using type = unsigned short; }};
template <> struct atomic_word<8> {{ using type = unsigned long long; }};
template <class T, class F> {_INLINE} T atomic_update(T* p, F combine) {{
  using Word = typename atomic_word<sizeof(T)>::type;
  const unsigned at = sizeof(T) == 1 ? (unsigned)((unsigned long long)p & 3) : 0u;
  Word* word = reinterpret_cast<Word*>(reinterpret_cast<char*>(p) - at);
  Word seen = *(volatile Word*)word;
  for (;;) {{
    const Word bits = seen >> (8 * at);
    T old;
    memcpy(&old, &bits, sizeof(T));
    const T now = combine(old);
    Word next = 0;
    memcpy(&next, &now, sizeof(T));
    if (sizeof(T) == 1) next = (seen & ~((Word)0xff << (8 * at))) | (next << (8 * at));
    const Word found = atomicCAS(word, seen, next);
    if (found == seen) return old;
    seen = found;
  }}
}}""",
    "fail": f"""{_INLINE} void fail(long long* failed, long long* record, int site, int n, const long long* values) {{
  if (atomicCAS((unsigned long long*)failed, 0ull, 1ull) != 0) return;
  for (int i = 0; i < n; ++i) ((volatile long long*)record)[1 + i] = values[i];
  __threadfence_system();
  *(volatile long long*)record = site;
  __threadfence_system();
}}""",
}

#: NaN wins. The instruction takes -0 for less than 0, as strict numerics do (`min_strict`); without it that is asked.
for _extreme, _sign, _less, _more in (("min", "<", "a", "b"), ("max", ">", "b", "a")):
    _ZEROS = f"a == b ? (copysign(1.0, (double)a) < 0 ? {_less} : {_more}) : a {_sign} b || a != a ? a : b"
    for _name, _formula in ((f"{_extreme}_nan", f"a {_sign}= b || a != a ? a : b"), (f"{_extreme}_strict", _ZEROS)):
        _TEXTS[_name] = f"""{_INLINE} float {_name}(float a, float b) {{
#if __CUDA_ARCH__ >= 800
  float c;
  asm("{_extreme}.NaN.f32 %0, %1, %2;" : "=f"(c) : "f"(a), "f"(b));
  return c;
#else
  return {_formula};
#endif
}}
{_INLINE} double {_name}(double a, double b) {{ return {_formula}; }}"""

#: To where it is read soon, and past what is.
_WRITES = {
    "store": "reinterpret_cast<Unit*>(p)[i] = units[i];",
    "stream": "__stcs(reinterpret_cast<Unit*>(p) + i, units[i]);",
}
for _store, _write in _WRITES.items():
    _TEXTS[_store] = f"""template <int BYTES, int N, class T> {_INLINE} void {_store}(T* p, const T (&x)[N]) {{
  using Unit = typename access_unit<BYTES>::type;
  constexpr int count = N * sizeof(T) / BYTES;
  Unit units[count];
  memcpy(units, x, sizeof(x));
#pragma unroll
  for (int i = 0; i < count; ++i) {_write}
}}"""

for _narrow, _ptx in (("float16", "f16"), ("bfloat16", "bf16")):
    _TEXTS[f"atomic_add_{_narrow}"] = f"""{_INLINE} {_narrow} atomic_add_{_narrow}({_narrow}* p, {_narrow} x) {{
  {_narrow} old;
  asm volatile("atom.add.noftz.{_ptx} %0, [%1], %2;" : "=h"(old.bits) : "l"(p), "h"(x.bits) : "memory");
  return old;
}}"""
#: A pair of narrow floats, the first in the low half, to two of float32.
_WIDEN_PAIR = {
    "float16": """x[2 * i] = widen(float16{(unsigned short)pairs[i]});
    x[2 * i + 1] = widen(float16{(unsigned short)(pairs[i] >> 16)});""",
    "bfloat16": """x[2 * i] = __uint_as_float(pairs[i] << 16);
    x[2 * i + 1] = __uint_as_float(pairs[i] & 0xffff0000u);""",
    **{
        t: f"""const float2 both = widen_pair_{t}(pairs[i]);
    x[2 * i] = both.x;
    x[2 * i + 1] = both.y;"""
        for t in SMALL_FLOATS
    },
}
#: What a text needs that its words do not say.
_NEEDS: dict[str, tuple[str, ...]] = {}
for _narrow, _widen in _WIDEN_PAIR.items():
    _pair = "unsigned short" if _narrow in SMALL_FLOATS else "unsigned"
    for _load, _sizes, _also in (
        ("load", "int BYTES", ""),
        ("load_if", "int BYTES", ", bool there"),
        ("load_cut", "", ""),
    ):
        _called = f"{_load}<BYTES>" if _sizes else _load
        _NEEDS[f"{_load}_{_narrow}"] = (_load, *(["widen_float16"] if _narrow == "float16" else []))
        _TEXTS[f"{_load}_{_narrow}"] = f"""template <{_sizes}{", " if _sizes else ""}int N>
{_INLINE} void {_load}(float (&x)[N], const {_narrow}* p{_also}) {{
  {_pair} pairs[N / 2];
  {_called}(pairs, reinterpret_cast<const {_pair}*>(p){", there" if _also else ""});
#pragma unroll
  for (int i = 0; i < N / 2; ++i) {{
    {_widen}
  }}
}}"""
    for _store in _WRITES:
        _NEEDS[f"{_store}_{_narrow}"] = (_store,)
        _TEXTS[
            f"{_store}_{_narrow}"
        ] = f"""template <int BYTES, int N> {_INLINE} void {_store}({_narrow}* p, const float (&x)[N]) {{
  {_pair} pairs[N / 2];
#pragma unroll
  for (int i = 0; i < N / 2; ++i) pairs[i] = pack_{_narrow}(x[2 * i], x[2 * i + 1]);
  {_store}<BYTES>(reinterpret_cast<{_pair}*>(p), pairs);
}}"""

#: The names that generated text must not use for something else.
for _narrow in ("float16", "bfloat16"):
    _NEEDS |= {f"{_made}_{_narrow}": (f"widen_{_narrow}",) for _made in ("multiply_pairs", "scale_pair")}
RESERVED = frozenset(_TEXTS) | {"widen", "saturated", "saturated_small", "atomic_word"}
_WORD = re.compile(r"[A-Za-z_]\w*")


@cache
def _needs(name: str) -> tuple[str, ...]:
    words = dict.fromkeys(w for w in _WORD.findall(_TEXTS[name]) if w in _TEXTS and w != name)
    return (*_NEEDS.get(name, ()), *words)


def prelude_text(used: Iterable[str]) -> str:
    """The functions ``used`` and those they call, callees first."""
    return "\n".join(_TEXTS[name] for name in callees_first(used, _needs))
