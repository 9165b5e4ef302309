"""The functions a text may call: the intrinsics under their C names, and compositions of them.

A composition is an ordinary function from expressions to an expression, so targets need to know
nothing of it. All take floats of one type, which `apply_builtin` sees to.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from weft.ir import dtype as dt
from weft.ir.dtype import promote
from weft.ir.expr import Binary, BinaryOp, Call, Compare, Const, Expr, Select, Unary, cast, const
from weft.ir.intrinsics import INTRINSICS, Rule
from weft.lang.codes import CODES

Compose = Callable[..., Expr]


def _call(name: str, *args: Expr) -> Call:
    return Call(name, args, INTRINSICS[name].result(args[0].dtype))


def _like(x: Expr, value: float) -> Const:
    return const(value, x.dtype)


def _periodic(x: Expr) -> Expr:
    """``x`` less the nearest even number, times pi: exact before the one rounding."""
    return (x - _call("rint", x * 0.5) * 2.0) * math.pi


def _norm(*parts: Expr) -> Expr:
    total = parts[0] * parts[0]
    for p in parts[1:]:
        total = total + p * p
    return _call("sqrt", total)


def _ldexp(x: Expr, n: Expr) -> Expr:
    """In two steps, so that a result near the end of the range does not pass through infinity or zero."""
    half = _call("trunc", n * 0.5)
    return x * _call("exp2", half) * _call("exp2", n - half)


def _logb(x: Expr) -> Expr:
    """The exponent as a float: the logarithm rounded down, then corrected where it was a hair off."""
    size = _call("abs", x)
    guess = _call("floor", _call("log2", size))
    low = Select(Compare(">", _call("exp2", guess), size), guess - 1.0, guess)
    return Select(Compare("<=", _call("exp2", low + 1.0), size), low + 1.0, low)


def _ilogb(x: Expr) -> Expr:
    """The exponent as an int; of NaN the least one, as of zero."""
    return Select(_call("isnan", x), const(dt.int32.min_value, dt.int32), cast(dt.int32, _logb(x)))


def _nearest_even(x: Expr) -> Expr:
    return cast(dt.int64, _call("rint", x))


def _nearest(x: Expr) -> Expr:
    return cast(dt.int64, _call("round", x))


def _nextafter(x: Expr, y: Expr) -> Expr:
    """``x`` and the distance of its neighbours, which a power of two has at half the distance below it."""
    digits, least, largest, _ = x.dtype.shape
    size = _call("abs", x)
    exponent = Binary("max", _logb(size), _like(x, least))
    step = _call("exp2", exponent - float(digits))
    is_power = Binary("&&", Compare("==", size, _call("exp2", exponent)), Compare(">", exponent, _like(x, least)))
    inward: Expr = Select(is_power, size - step * 0.5, size - step)
    inward = Select(_call("isinf", x), _like(x, largest), inward)
    grows = Compare("==", Compare(">", y, x), Compare(">", x, _like(x, 0)))
    moved: Expr = _call("copysign", Select(grows, size + step, inward), x)
    smallest = _like(x, 2.0 ** (least - digits))
    moved = Select(Compare("==", x, _like(x, 0)), _call("copysign", smallest, y), moved)
    unordered = Binary("||", _call("isnan", x), _call("isnan", y))
    return Select(unordered, x + y, Select(Compare("==", x, y), y, moved))


def _remainder(x: Expr, y: Expr) -> Expr:
    """What is left of ``x`` after the nearest multiple of ``y``, exactly: all from ``fmod`` of twice ``y``."""
    step = _call("abs", y)
    rest = _call("fmod", _call("abs", x), step * 2.0)
    once = Select(Compare(">", rest * 2.0, step), rest - step, rest)
    nearest = Select(Compare(">=", once * 2.0, step), once - step, once)
    return Select(Compare("<", x, _like(x, 0)), -nearest, nearest)


def _erfcx(x: Expr) -> Expr:
    """``exp(x*x) * erfc(x)``; far out the product is infinity times zero, so its series takes over."""
    series: Expr = _like(x, 1)
    square = x * x * 2.0
    for odd in range(23, 0, -2):
        series = 1.0 - series * float(odd) / square
    far = series / (x * math.sqrt(math.pi))
    return Select(Compare(">", x, _like(x, 8.5)), far, _call("exp", x * x) * _call("erfc", x))


def _invert_erf(start: Expr, residual: Callable[[Expr], Expr]) -> Expr:
    """Halley's method, each step of which triples the digits of ``start``, towards a zero of ``residual``."""
    y = start
    for _ in range(3 if start.dtype == dt.float64 else 2):
        step = residual(y) * _call("exp", y * y) * (math.sqrt(math.pi) / 2)
        # The usual step / (1 + y * step), written so that the step stands in it once; zero comes out right.
        y = y - 1.0 / (1.0 / step + y)
    return y


def _guess_inverse(log: Expr) -> Expr:
    """Winitzki's closed form, good to 0.2 %; ``log`` is the logarithm of ``1 - erf(y)**2``."""
    a = 0.147
    b = log * 0.5 + 2.0 / (math.pi * a)
    return _call("sqrt", _call("sqrt", b * b - log / a) - b)


def _erfinv(x: Expr) -> Expr:
    size = _call("abs", x)
    start = _call("copysign", _guess_inverse(_call("log1p", -(x * x))), x)
    y = _invert_erf(start, lambda y: _call("erf", y) - x)
    edge = Select(Compare("==", size, _like(x, 1)), x * math.inf, _like(x, math.nan))
    return Select(Compare("<", size, _like(x, 1)), y, edge)


def _erfcinv(x: Expr) -> Expr:
    start = _call("copysign", _guess_inverse(_call("log", x * (2.0 - x))), 1.0 - x)
    y = _invert_erf(start, lambda y: x - _call("erfc", y))
    inside = Binary("&&", Compare(">", x, _like(x, 0)), Compare("<", x, _like(x, 2)))
    edge = Select(Compare("==", x * (2.0 - x), _like(x, 0)), (1.0 - x) * math.inf, _like(x, math.nan))
    return Select(inside, y, edge)


#: name -> number of arguments and meaning
COMPOSED: dict[str, tuple[int, Compose]] = {
    "relu": (1, lambda x: Binary("max", x, _like(x, 0))),
    "exp10": (1, lambda x: _call("pow", _like(x, 10), x)),
    "sinpi": (1, lambda x: _call("sin", _periodic(x))),
    "cospi": (1, lambda x: _call("cos", _periodic(x))),
    "rcbrt": (1, lambda x: 1.0 / _call("cbrt", x)),
    "fdivide": (2, lambda a, b: a / b),
    "rhypot": (2, lambda a, b: 1.0 / _call("hypot", a, b)),
    "norm3d": (3, _norm),
    "norm4d": (4, _norm),
    "rnorm3d": (3, lambda *parts: 1.0 / _norm(*parts)),
    "rnorm4d": (4, lambda *parts: 1.0 / _norm(*parts)),
    "normcdf": (1, lambda x: _call("erfc", x * -math.sqrt(0.5)) * 0.5),
    "ldexp": (2, _ldexp),
    "scalbn": (2, _ldexp),
    "logb": (1, _logb),
    "ilogb": (1, _ilogb),
    "lrint": (1, _nearest_even),
    "llrint": (1, _nearest_even),
    "lround": (1, _nearest),
    "llround": (1, _nearest),
    "nextafter": (2, _nextafter),
    "remainder": (2, _remainder),
    "erfcx": (1, _erfcx),
    "erfinv": (1, _erfinv),
    "erfcinv": (1, _erfcinv),
    "normcdfinv": (1, lambda p: _erfcinv(p * 2.0) * -math.sqrt(2.0)),
}
_OTHER_NAMES = {"fabs": "abs", "nearbyint": "rint"}
#: Operators without a symbol in the language, by the name they are written with.
OPERATORS: dict[str, BinaryOp] = {
    "min": "min", "max": "max", "floordiv": "//", "floormod": "%",
    "truncdiv": "tdiv", "truncmod": "tmod", "bit_and": "&", "bit_or": "|", "bit_xor": "^",
    "shift_left": "<<", "shift_right": ">>",
}  # fmt: skip
#: Functions of two that also take more.
TAKE_SEVERAL = frozenset({"min", "max", "fmin", "fmax"})


#: Known from CUDA's library, but not to be had from the intrinsics.
MISSING = frozenset({
    "cyl_bessel_i0", "cyl_bessel_i1", "j0", "j1", "jn", "y0", "y1", "yn", "sincos", "frexp", "modf",
})  # fmt: skip


def builtin_names() -> list[str]:
    return [*INTRINSICS, *COMPOSED, *_OTHER_NAMES, *OPERATORS, *CODES, "bit_not"]


def find_builtin(name: str) -> str | None:
    """The name a function goes by here: C's other names and the ``f`` of its float variants are undone."""
    for candidate in (name, name[:-1] if name.endswith("f") else name):
        candidate = _OTHER_NAMES.get(candidate, candidate)
        if candidate == "bit_not" or any(candidate in known for known in (INTRINSICS, COMPOSED, OPERATORS, CODES)):
            return candidate
    return None


def builtin_arity(name: str) -> int:
    if name in OPERATORS:
        return 2
    if name == "bit_not" or name in CODES:
        return 1
    return INTRINSICS[name].arity if name in INTRINSICS else COMPOSED[name][0]


def takes_only_integers(name: str) -> bool:
    return name == "bit_not" or (name in OPERATORS and name not in ("min", "max")) or rule_of(name) == "integer"


def rule_of(name: str) -> Rule:
    if name in INTRINSICS:
        return INTRINSICS[name].rule
    return "integer" if name in CODES else "same" if name in OPERATORS or name == "bit_not" else "float"


def apply_builtin(name: str, args: Sequence[Expr]) -> Expr:
    """The call of a builtin whose argument count and kinds were checked; arguments are promoted together."""
    common = args[0].dtype
    for a in args[1:]:
        common = promote(common, a.dtype)
    if rule_of(name) in ("float", "test") and not common.is_float:
        common = dt.float32
    elif common.is_bool and name not in ("bit_and", "bit_or", "bit_xor", "min", "max"):
        common = dt.int32
    alike = [cast(common, a) for a in args]
    if name in CODES:
        return CODES[name](cast(dt.int32, alike[0]))
    if name in OPERATORS:
        return Binary(OPERATORS[name], alike[0], alike[1])
    if name == "bit_not":
        return Unary("~", alike[0])
    return _call(name, *alike) if name in INTRINSICS else COMPOSED[name][1](*alike)
