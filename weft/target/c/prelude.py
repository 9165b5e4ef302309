"""Functions that generated C uses, each written out only where something calls it.

They give operators the meaning the interpreter defines where C has another (see `weft.target.c_text.functions`):
minimum and maximum propagate NaN, floats become integers by saturation, narrow floats are rounded to the nearest.
A function for several types has one copy for each, named after the type.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

from weft.ir.dtype import SCALAR_TYPES
from weft.target.c_text.c_types import value_type
from weft.target.c_text.functions import INTEGER_FUNCTIONS, callees_first, for_type, small_float_functions

#: The names of types in names of functions, by what C calls them.
TYPE_NAMES = {t.name if t.is_narrow_float else value_type(t): t.name for t in SCALAR_TYPES.values()}
_TEXTS = {
    **{
        t.name: f"typedef struct {{ uint{t.bits}_t bits; }} {t.name};"
        for t in SCALAR_TYPES.values()
        if t.is_narrow_float
    },
    **small_float_functions("static inline"),
    "float_bits": "static inline uint32_t float_bits(float x) { uint32_t u; memcpy(&u, &x, 4); return u; }",
    "bits_float": "static inline float bits_float(uint32_t u) { float x; memcpy(&x, &u, 4); return x; }",
    "infinity": "static inline float infinity(void) { return INFINITY; }",
    "not_a_number": "static inline float not_a_number(void) { return NAN; }",
    "widen_bfloat16": "static inline float widen_bfloat16(bfloat16 x) { return bits_float((uint32_t)x.bits << 16); }",
    "to_bfloat16": """static inline bfloat16 to_bfloat16(float x) {
  const uint32_t u = float_bits(x);
  return (bfloat16){(uint16_t)(x != x ? 0x7fffu : (u + 0x7fffu + (u >> 16 & 1u)) >> 16)};
}""",
    "widen_float16": """static inline float widen_float16(float16 x) {
  const uint32_t sign = (x.bits & 0x8000u) << 16, rest = x.bits & 0x7fffu;
  const uint32_t scaled = rest >= 0x7c00u ? rest << 13 | 0x7f800000u : (rest << 13) + 0x38000000u;
  // Below 2^-14 there is no hidden bit: as many units of 2^-24.
  return bits_float(sign | (rest < 0x400u ? float_bits((float)rest * 0x1p-24f) : scaled));
}""",
    "to_float16": """static inline float16 to_float16(float x) {
  const uint32_t sign = float_bits(x) >> 16 & 0x8000u, u = float_bits(x) & 0x7fffffffu;
  uint32_t half;
  if (u > 0x7f800000u) half = 0x7e00u;
  else if (u >= 0x47800000u) half = 0x7c00u;
  else if (u >= 0x38800000u) half = (u - 0x38000000u + 0xfffu + (u >> 13 & 1u)) >> 13;
  else half = float_bits(bits_float(u) + 0.5f) - 0x3f000000u;  // 0.5f has units of 2^-24
  return (float16){(uint16_t)(sign | half)};
}""",
    # To float32 with the last bit set where that is inexact: rounding once more then rounds only once in effect.
    "odd_float_float64": """static inline float odd_float_float64(double x) {
  const float y = (float)x;
  if (x != x || (double)y == x) return y;
  return bits_float((float_bits(y) - (fabs((double)y) > fabs(x))) | 1u);
}""",
    "odd_float_uint64": """static inline float odd_float_uint64(unsigned long long x) {
  const int wide = x >> 53 != 0;
  return odd_float_float64(wide ? (double)(x >> 11 | ((x & 2047u) != 0)) * 2048.0 : (double)x);
}""",
    "odd_float_int64": """static inline float odd_float_int64(long long x) {
  return x < 0 ? -odd_float_uint64(0ull - (unsigned long long)x) : odd_float_uint64((unsigned long long)x);
}""",
    "count_ones": """static inline int count_ones(unsigned long long x) {
  int n = 0;
  for (; x; x &= x - 1) ++n;
  return n;
}""",
    # 64 bytes is what vectors and cache lines begin at.
    "new_array": """static inline void *new_array(long long bytes) {
  if (bytes < 0 || bytes > PTRDIFF_MAX - 63) return NULL;
  return aligned_alloc(64, ((size_t)bytes + 63) / 64 * 64 + 64 * (bytes == 0));
}""",
    # The first failure counts; its values stay in the record.
    "fail": """static int32_t fail(_Atomic int32_t *failed, long long *record, int site, int n, const long long *seen) {
  int32_t first = 0;
  if (!atomic_compare_exchange_strong(failed, &first, site)) return first;
  for (int i = 0; i < n; ++i) record[i] = seen[i];
  return site;
}""",
}
#: Functions of floats, for F with math functions that end in f or not, and for a T of N in the range of [LO, HI].
_FLOATS = {
    "min_nan": "static inline F min_nan_S(F a, F b) { return a <= b || a != a ? a : b; }",
    "max_nan": "static inline F max_nan_S(F a, F b) { return a >= b || a != a ? a : b; }",
    # Minima and maxima under strict numerics: -0 is less than 0.
    "min_strict": """static inline F min_strict_S(F a, F b) {
  return a == b ? (copysign_f(1, a) < 0 ? a : b) : a < b || a != a ? a : b;
}""",
    "max_strict": """static inline F max_strict_S(F a, F b) {
  return a == b ? (copysign_f(1, a) < 0 ? b : a) : a > b || a != a ? a : b;
}""",
    "sigmoid": """static inline F sigmoid_S(F x) {
  const F e = exp_f(-fabs_f(x));
  return (x >= 0 ? 1 : e) / (1 + e);
}""",
}
_SATURATE = """static inline T saturate_N_S(F x) {
  return x != x ? (T)0 : x <= (F)LO ? (T)LO : x >= (F)HI ? (T)HI : (T)x;
}"""
_WORD = re.compile(r"[A-Za-z_]\w*")
#: The names that generated text must not use for something else.
RESERVED = frozenset(_TEXTS) | {
    "INFINITY", "NAN", "NULL", "PTRDIFF_MAX", "aligned_alloc", "failed", "isfinite", "isinf", "isnan", "linux",
    "restrict", "status", "unix", "weft_record",
}  # fmt: skip


@cache
def function_text(name: str) -> str | None:
    """The text of the function ``name``, which ends in the names of types where it is one of several; or None."""
    if name in _TEXTS:
        return _TEXTS[name]
    base, _, last = name.rpartition("_")
    dtype = SCALAR_TYPES.get(last)
    if dtype is None:
        return None
    type = value_type(dtype)
    if base in INTEGER_FUNCTIONS:
        return for_type(INTEGER_FUNCTIONS[base], type, last)
    if base in _FLOATS:
        text = re.sub(r"(\w+)_f\(", r"\1(" if dtype.bits == 64 else r"\1f(", _FLOATS[base])
        return re.sub(r"\bF\b", type, text.replace("_S(", f"_{last}("))
    target = SCALAR_TYPES.get(base.removeprefix("saturate_"))
    if target is None:
        return None
    lo, hi = _limits(target.name, target.bits, target.is_signed)
    words = {"T": value_type(target), "F": type, "LO": lo, "HI": hi, "saturate_N_S": name}
    return _WORD.sub(lambda m: words.get(m[0], m[0]), _SATURATE)


def _limits(name: str, bits: int, signed: bool) -> tuple[str, str]:
    return (f"INT{bits}_MIN" if signed else "0", f"{'' if signed else 'U'}INT{bits}_MAX")


@cache
def _needs(name: str) -> tuple[str, ...]:
    words = dict.fromkeys(_WORD.findall(function_text(name) or ""))
    return tuple(w for w in words if w != name and function_text(w) is not None)


def prelude_text(used: Iterable[str], more: str = "") -> str:
    """The functions ``used`` and those they call, callees first; ``more`` is text that uses some, too."""
    also = (w for w in dict.fromkeys(_WORD.findall(more)) if function_text(w) is not None)
    return "\n".join(function_text(name) or "" for name in callees_first({*used, *also}, _needs))
