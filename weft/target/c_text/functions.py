"""Functions that generated text brings along: integer operations with the meaning that the
interpreter defines, where C has another or none.

Integers wrap, dividing by zero gives 0, shifts are total. Texts are C++ templates over a type ``T``; `for_type` makes
C of one. ``INLINE`` stands for how a language asks for a function to be inlined.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

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
