"""Functions that generated text brings along: integer operations with the meaning that the
interpreter defines, where C has another or none.

Integers wrap, dividing by zero gives 0, shifts are total. Texts are C++ templates over a type ``T``; `for_type` makes
C of one. ``INLINE`` stands for how a language asks for a function to be inlined.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable, Mapping

from weft.ir.dtype import SCALAR_TYPES

INTEGER_FUNCTIONS: dict[str, str] = {
    "wrap_add": """template <class T> INLINE T wrap_add(T a, T b) {
  return (T)((unsigned long long)a + (unsigned long long)b);
}""",
    "wrap_sub": """template <class T> INLINE T wrap_sub(T a, T b) {
  return (T)((unsigned long long)a - (unsigned long long)b);
}""",
    "wrap_mul": """template <class T> INLINE T wrap_mul(T a, T b) {
  return (T)((unsigned long long)a * (unsigned long long)b);
}""",
    "wrap_neg": "template <class T> INLINE T wrap_neg(T a) { return (T)(0ull - (unsigned long long)a); }",
    "least": "template <class T> INLINE T least(T a, T b) { return b < a ? b : a; }",
    "greatest": "template <class T> INLINE T greatest(T a, T b) { return b > a ? b : a; }",
    "trunc_div": """template <class T> INLINE T trunc_div(T a, T b) {
  return b == 0 ? (T)0 : b == (T)-1 && (T)-1 < (T)0 ? wrap_neg<T>(a) : (T)(a / b);
}""",
    "trunc_mod": """template <class T> INLINE T trunc_mod(T a, T b) {
  return b == 0 || (b == (T)-1 && (T)-1 < (T)0) ? (T)0 : (T)(a % b);
}""",
    "floor_div": """template <class T> INLINE T floor_div(T a, T b) {
  const T q = trunc_div<T>(a, b), r = trunc_mod<T>(a, b);
  return r != 0 && (r < 0) != (b < 0) ? (T)(q - 1) : q;
}""",
    "floor_mod": """template <class T> INLINE T floor_mod(T a, T b) {
  const T r = trunc_mod<T>(a, b);
  return r != 0 && (r < 0) != (b < 0) ? (T)(r + b) : r;
}""",
    "shift_left": """template <class T> INLINE T shift_left(T a, T b) {
  return b < (T)0 || b >= (T)(8 * sizeof(T)) ? (T)0 : (T)((unsigned long long)a << b);
}""",
    "shift_right": """template <class T> INLINE T shift_right(T a, T b) {
  return b < (T)0 || b >= (T)(8 * sizeof(T)) ? (T)(a < (T)0 ? -1 : 0) : (T)(a >> b);
}""",
    "magnitude": "template <class T> INLINE T magnitude(T x) { return x < (T)0 ? wrap_neg<T>(x) : x; }",
}


#: Floats of 8 bits: how one is widened, and made by rounding to the nearest. What is too large is the largest number.
_SMALL_FLOATS = {
    "widen_T": """INLINE float widen_T(T x) {
  const unsigned rest = x.bits & 0x7fu;
  const float scaled = bits_float(rest << SHIFT) * SCALE;
  return bits_float((x.bits & 0x80u) << 24 | (rest > LARGEST ? rest << SHIFT | 0x7f800000u : float_bits(scaled)));
}""",
    "to_T": """INLINE T to_T(float x) {
  const unsigned sign = float_bits(x) >> 24 & 0x80u, u = float_bits(x) & 0x7fffffffu;
  unsigned rounded;
  T result;
  if (u > 0x7f800000u) rounded = NOT_A_NUMBER;
  else if (u > MOST) rounded = u == 0x7f800000u ? INFINITE : LARGEST;
  else if (u >= LEAST) rounded = (u - REBIAS + HALF + (u >> SHIFT & 1u)) >> SHIFT;
  else rounded = float_bits(bits_float(u) + UNIT) - UNIT_BITS;  // whose last bit is that of the result
  result.bits = (unsigned char)(sign | rounded);
  return result;
}""",
}


def small_float_functions(inline: str, prefix: str = "") -> dict[str, str]:
    """The functions that convert floats of 8 bits, by name, which begins with ``prefix``."""
    found = {}
    for t in (t for t in SCALAR_TYPES.values() if t.saturates):
        digits, least, largest, has_infinity = t.shape
        shift, top = 23 - digits, (0x7F >> digits << digits) - 1 if has_infinity else 0x7E
        words = {
            "INLINE": inline, "T": t.name, "to_T": f"{prefix}to_{t.name}", "widen_T": f"{prefix}widen_{t.name}",
            "SHIFT": str(shift), "SCALE": f"0x1p{126 + least}f", "LARGEST": f"{top:#x}u",
            "INFINITE": f"{top + has_infinity:#x}u", "NOT_A_NUMBER": f"{0x7E if has_infinity else 0x7F:#x}u",
            "MOST": _bits(largest), "LEAST": _bits(2.0**least), "REBIAS": f"{126 + least << 23:#x}u",
            "HALF": f"{(1 << (shift - 1)) - 1:#x}u", "UNIT": f"0x1p{least + shift}f",
            "UNIT_BITS": _bits(2.0 ** (least + shift)),
        }  # fmt: skip
        for name, text in _SMALL_FLOATS.items():
            found[words[name]] = _replaced(text, words)
    return found


def _replaced(text: str, words: Mapping[str, str]) -> str:
    return re.sub(r"[A-Za-z_]\w*", lambda m: words.get(m[0], m[0]), text)


def _bits(value: float) -> str:
    """The bits of a float32."""
    return f"{struct.unpack('<I', struct.pack('<f', value))[0]:#x}u"


def for_type(text: str, type: str, name: str) -> str:
    """A template of `INTEGER_FUNCTIONS` as a C function for the C ``type``, which its ``name`` is in function names."""
    text = text.replace("template <class T> INLINE T ", "static inline T ")
    heads = re.compile(r"^static inline T (\w+)\(", re.MULTILINE)
    text = heads.sub(rf"static inline T \1_{name}(", text)
    text = re.sub(r"\b(\w+)<T>\(", rf"\1_{name}(", text)
    return re.sub(r"\bT\b", type, text)


def callees_first(used: Iterable[str], needs: Callable[[str], Iterable[str]]) -> list[str]:
    """The functions ``used`` and those that each ``needs``, none before what it calls."""
    ordered: dict[str, None] = {}

    def add(name: str) -> None:
        if name not in ordered:
            for needed in needs(name):
                add(needed)
            ordered[name] = None

    for name in sorted(used):
        add(name)
    return list(ordered)
