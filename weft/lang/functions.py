"""The table of all functions of the language, with what they mean, for `docs/language.md`.

After a change: ``python -m weft.lang.functions docs/language.md``.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from weft.lang.builtins import (
    TAKE_SEVERAL,
    builtin_arity,
    find_builtin,
    rule_of,
    takes_only_integers,
)

#: What each gives, of arguments x, y, z, w.
MEANINGS = {
    "exp": "e to the power of x", "exp2": "2 to the power of x", "exp10": "10 to the power of x",
    "expm1": "exp(x) - 1, exact near 0", "log": "natural logarithm", "log2": "logarithm to base 2",
    "log10": "logarithm to base 10", "log1p": "log(1 + x), exact near 0",
    "pow": "x to the power of y", "sqrt": "square root", "rsqrt": "1 / sqrt(x)", "cbrt": "cube root",
    "rcbrt": "1 / cbrt(x)", "hypot": "sqrt(x\u00b2 + y\u00b2) without overflow", "rhypot": "1 / hypot(x, y)",
    "norm3d": "sqrt(x\u00b2 + y\u00b2 + z\u00b2)", "norm4d": "sqrt(x\u00b2 + y\u00b2 + z\u00b2 + w\u00b2)",
    "rnorm3d": "1 / norm3d(x, y, z)", "rnorm4d": "1 / norm4d(x, y, z, w)",
    "sin": "sine of x in radians", "cos": "cosine of x in radians", "tan": "tangent of x in radians",
    "sinpi": "sin(pi x)", "cospi": "cos(pi x)", "asin": "arc sine", "acos": "arc cosine", "atan": "arc tangent",
    "atan2": "angle of the point at height x and width y",
    "sinh": "hyperbolic sine", "cosh": "hyperbolic cosine", "tanh": "hyperbolic tangent",
    "asinh": "inverse of sinh", "acosh": "inverse of cosh", "atanh": "inverse of tanh",
    "sigmoid": "1 / (1 + exp(-x))", "relu": "max(x, 0)",
    "erf": "error function", "erfc": "1 - erf(x), exact for large x", "erfcx": "exp(x\u00b2) erfc(x)",
    "erfinv": "inverse of erf", "erfcinv": "inverse of erfc",
    "normcdf": "distribution of the standard normal", "normcdfinv": "its quantile",
    "tgamma": "the gamma function", "lgamma": "logarithm of the size of the gamma function",
    "abs": "size without sign", "fabs": "as abs", "copysign": "the size of x with the sign of y",
    "fdim": "x - y where that is positive, else 0", "fma": "x y + z, rounded once", "fdivide": "x / y",
    "fmod": "what is left of x after whole y, with the sign of x",
    "remainder": "what is left of x after the nearest multiple of y",
    "min": "the least; NaN where one is", "max": "the greatest; NaN where one is",
    "fmin": "the least that is not NaN", "fmax": "the greatest that is not NaN",
    "floor": "rounded down", "ceil": "rounded up", "trunc": "rounded towards 0",
    "round": "rounded to the nearest, halves away from 0", "rint": "rounded to the nearest, halves to even",
    "nearbyint": "as rint", "lrint": "rint as int64", "llrint": "rint as int64", "lround": "round as int64",
    "llround": "round as int64", "ldexp": "x times 2 to the power of y", "scalbn": "as ldexp",
    "logb": "the exponent of x", "ilogb": "the exponent of x as int32",
    "nextafter": "the float next to x on the way to y",
    "isnan": "whether x is NaN", "isinf": "whether x is infinite", "isfinite": "whether x is neither",
    "popcount": "how many bits are set",
    "bit_and": "bits set in both", "bit_or": "bits set in one or both", "bit_xor": "bits set in one alone",
    "bit_not": "the bits that are not set",
    "shift_left": "x moved up by y bits", "shift_right": "x moved down by y bits",
    "floordiv": "x / y rounded down, as `/` of integers", "floormod": "its remainder, with the sign of y, as `%`",
    "truncdiv": "x / y rounded towards 0, as in C", "truncmod": "its remainder, with the sign of x, as in C",
    "as_float32": "the float with the bits of x", "as_float4_e2m1fn": "the float of 4 bits whose code x is",
    "as_float8_e8m0fnu": "the power of 2 whose code x is",
}  # fmt: skip
_START, _END = "<!-- functions -->", "<!-- end of functions -->"


def function_table() -> str:
    """All functions as a table in Markdown, in the order of their meanings."""
    rows = [f"| `{_call(name)}` | {_types(name)} | {meaning} |" for name, meaning in MEANINGS.items()]
    return "\n".join(["| function | of | gives |", "|---|---|---|", *rows])


def _call(name: str) -> str:
    known = find_builtin(name) or name
    return f"{name}({', '.join('xyzw'[: builtin_arity(known)])}{', ...' if known in TAKE_SEVERAL else ''})"


def _types(name: str) -> str:
    known = find_builtin(name) or name
    if takes_only_integers(known):
        return "integers"
    return {"float": "floats", "test": "a float"}.get(rule_of(known), "numbers")


def with_table(page: str) -> str:
    """``page`` with the table as it is now between its two marks."""
    return re.sub(f"(?<={_START}\n).*?(?={_END})", lambda _: function_table() + "\n", page, flags=re.DOTALL)


if __name__ == "__main__":
    for path in map(Path, sys.argv[1:]):
        path.write_text(with_table(path.read_text(encoding="utf-8")), encoding="utf-8")


__all__ = ["MEANINGS", "function_table", "with_table"]
