"""The one table of functions a program may call: types, meaning and cost of each.

``evaluate`` is the meaning, on numpy arrays of the (promoted) argument type; float16 and
bfloat16 arguments reach it as float32. Targets bring their own code for each name and are
tested against it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np

from weft.ir.dtype import DType, bool_

Evaluate = Callable[..., Any]
#: float: arguments become floats (integers turn into float32), all alike, and so is the result.
#: same: arguments of one numeric type, result alike. test: one float in, bool out. bits: integers.
Rule = Literal["float", "same", "test", "integer"]


@dataclass(frozen=True, slots=True)
class Intrinsic:
    name: str
    arity: int
    rule: Rule
    evaluate: Evaluate
    flops: int = 1

    def result(self, argument: DType) -> DType:
        """The result type for arguments of type ``argument``."""
        return bool_.with_lanes(argument.lanes) if self.rule == "test" else argument


def _pointwise(fn: Callable[..., float]) -> Evaluate:
    """A scalar function of `math` over arrays, computed in float64; domain errors give NaN, overflow infinity."""

    def safe(*args: float) -> float:
        try:
            return fn(*args)
        except ValueError:
            return math.nan
        except OverflowError:
            return math.inf

    vectorized = np.vectorize(safe, otypes=[np.float64])

    def evaluate(*args: Any) -> Any:
        arrays = [np.asarray(a) for a in args]
        wide = vectorized(*(a.astype(np.float64) for a in arrays)) if arrays[0].size else arrays[0]
        return np.asarray(wide).astype(arrays[0].dtype)

    return evaluate


def _sigmoid(x: Any) -> Any:
    x = np.asarray(x)
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + e), e / (1 + e)).astype(x.dtype)


def _round_away(x: Any) -> Any:
    """C's ``round``: halves go away from zero. (Adding 0.5 first would round the sum itself.)"""
    x = np.asarray(x)
    whole = np.trunc(x)
    step = np.where(np.abs(x - whole) >= 0.5, np.copysign(np.ones_like(x), x), np.zeros_like(x))
    return np.copysign(whole + step, x)


def _gamma(x: float) -> float:
    if math.isinf(x) and x < 0:
        return math.nan
    return math.copysign(math.inf, x) if x == 0 else math.gamma(x)


def _lgamma(x: float) -> float:
    return math.inf if x <= 0 and x == math.floor(x) else math.lgamma(x)


def _fdim(a: Any, b: Any) -> Any:
    return np.where(np.isnan(a) | np.isnan(b), a + b, np.where(a > b, a - b, np.zeros_like(a)))


def _fma(a: Any, b: Any, c: Any) -> Any:
    """``a * b + c`` rounded once."""
    a, b, c = np.asarray(a), np.asarray(b), np.asarray(c)
    if a.dtype == np.float64:
        return _fma64(a, b, c)
    product, addend = a.astype(np.float64) * b, c.astype(np.float64)
    total = np.asarray(product + addend)
    part = total - product
    error = (product - (total - part)) + (addend - part)
    # The product is exact; rounding an inexact sum to odd makes the final rounding the only one.
    even = (total.view(np.int64) & 1) == 0
    inexact = even & (error != 0) & np.isfinite(total) & np.isfinite(error)
    return np.where(inexact, np.nextafter(total, np.copysign(np.inf, error)), total).astype(a.dtype)


def _fma_exact(a: float, b: float, c: float) -> float:
    if not (math.isfinite(a) and math.isfinite(b)):
        return a * b + c
    if not math.isfinite(c):
        return c
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        return a * b + c
    try:
        return float(exact)
    except OverflowError:
        return math.copysign(math.inf, exact)


_fma64 = np.vectorize(_fma_exact, otypes=[np.float64])


def _popcount(x: Any) -> Any:
    """Set bits of the two's complement form (numpy's own counts those of the absolute value)."""
    x = np.asarray(x)
    octets = np.ascontiguousarray(x).reshape(*x.shape, 1).view(np.uint8)
    return np.unpackbits(octets, axis=-1).sum(axis=-1).astype(x.dtype)


def _table() -> dict[str, Intrinsic]:
    def unary(rule: Rule = "float", flops: int = 8, **fns: Evaluate) -> list[Intrinsic]:
        return [Intrinsic(name, 1, rule, fn, flops) for name, fn in fns.items()]

    def binary(rule: Rule = "float", flops: int = 8, **fns: Evaluate) -> list[Intrinsic]:
        return [Intrinsic(name, 2, rule, fn, flops) for name, fn in fns.items()]

    entries = [
        *unary(
            exp=np.exp, exp2=np.exp2, expm1=np.expm1, log=np.log, log2=np.log2, log10=np.log10, log1p=np.log1p,
            sin=np.sin, cos=np.cos, tan=np.tan, asin=np.arcsin, acos=np.arccos, atan=np.arctan,
            sinh=np.sinh, cosh=np.cosh, tanh=np.tanh, asinh=np.arcsinh, acosh=np.arccosh, atanh=np.arctanh,
            cbrt=np.cbrt, sigmoid=_sigmoid,
        ),
        *unary(erf=_pointwise(math.erf), erfc=_pointwise(math.erfc), tgamma=_pointwise(_gamma),
               lgamma=_pointwise(_lgamma)),
        *unary(flops=1, sqrt=np.sqrt, rsqrt=lambda x: np.asarray(1, np.asarray(x).dtype) / np.sqrt(x)),
        *unary(flops=1, floor=np.floor, ceil=np.ceil, trunc=np.trunc, rint=np.rint, round=_round_away),
        *unary("same", flops=1, abs=np.abs),
        *unary("test", flops=1, isnan=np.isnan, isinf=np.isinf, isfinite=np.isfinite),
        *binary(pow=np.power, atan2=np.arctan2, fmod=np.fmod, hypot=np.hypot),
        *binary(flops=1, fmin=np.fmin, fmax=np.fmax, copysign=np.copysign, fdim=_fdim),
        Intrinsic("fma", 3, "float", _fma, 2),
        *unary("integer", flops=1, popcount=_popcount),
    ]  # fmt: skip
    return {e.name: e for e in entries}


INTRINSICS: dict[str, Intrinsic] = _table()

#: The one function whose type its caller chooses: the bits of its argument as a value of another type of that size.
REINTERPRET = "reinterpret"

#: Calls that change how fast a program runs and nothing else, each with what it takes: an address, which need not be
#: that of an element, or a number.
#: prefetch: it is read soon. stream: what is stored to its buffer from here on is not read soon.
#: async_fill: what is copied to its buffer from here on may run on its own while the thread goes on.
#: async_commit: the copies that the thread has started since the last one are a group, used as many groups later.
#: async_wait: all groups of copies have arrived but the youngest ones, so many. publish: what was stored to shared
#: memory can be read by units that read it on their own. products_wait: all groups of products that run on their own
#: are done but the youngest ones, so many. hold: products that run on their own may be at work on its buffer.
#: turn_claim: the copies that follow fill this turn of rings, on their own. turn_await: it is used from here on.
#: turn_release: it is not used any more. Rings that take turns together have one number.
HINTS: dict[str, str] = {
    "prefetch": "one address", "stream": "one address", "async_fill": "one address", "hold": "one address",
    "async_commit": "one number", "async_wait": "one number", "products_wait": "one number", "publish": "nothing",
    **dict.fromkeys(("turn_claim", "turn_await", "turn_release"), "a count and a number"),
}  # fmt: skip
