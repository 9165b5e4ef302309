"""Rounding, signs, tests and other functions that are a few instructions.

Each has a way without SSE4.1 or FMA: there LLVM would call a C library the object does not have.
"""

from __future__ import annotations

import math

from weft.ir.dtype import DType
from weft.target.cpu.builder import Builder
from weft.target.cpu.llvm_values import Value, mangled
from weft.target.cpu.math.formula import Term, where
from weft.target.cpu.math.pairs import two_product, two_sum


def rint(x: Term) -> Term:
    """To nearest, halves to even."""
    if x.b.features.rounding:
        return Term(x.b, x.b.intrinsic("rint", x.v))
    big = 2.0**x.format.mantissa
    a = x.abs()
    rounded = where(a < big, (a + big) - big, a)
    return rounded.with_sign_of(x)


def floor(x: Term) -> Term:
    if x.b.features.rounding:
        return Term(x.b, x.b.intrinsic("floor", x.v))
    r = rint(x)
    return where(r > x, r - 1.0, r).with_sign_of(x)


def ceil(x: Term) -> Term:
    if x.b.features.rounding:
        return Term(x.b, x.b.intrinsic("ceil", x.v))
    r = rint(x)
    return where(r < x, r + 1.0, r).with_sign_of(x)


def trunc(x: Term) -> Term:
    if x.b.features.rounding:
        return Term(x.b, x.b.intrinsic("trunc", x.v))
    a = x.abs()
    r = rint(a)
    return where(r > a, r - 1.0, r).with_sign_of(x)


def round_away(x: Term) -> Term:
    """C's round: halves away from zero."""
    whole = trunc(x)
    rest = (x - whole).abs()
    return where(rest >= 0.5, whole + x.like(1.0).with_sign_of(x), whole).with_sign_of(x)


def sqrt(x: Term) -> Term:
    return x.sqrt()


def rsqrt(x: Term) -> Term:
    return 1.0 / x.sqrt()


def is_nan(x: Term) -> Term:
    return x.is_nan()


def is_inf(x: Term) -> Term:
    return x.abs().equals(math.inf)


def is_finite(x: Term) -> Term:
    return x.abs() < math.inf


def fmin(a: Term, b: Term) -> Term:
    """The other one when one is NaN."""
    return where(a.is_nan(), b, where(b < a, b, a))


def fmax(a: Term, b: Term) -> Term:
    return where(a.is_nan(), b, where(b > a, b, a))


def copysign(a: Term, b: Term) -> Term:
    return a.with_sign_of(b)


def fdim(a: Term, b: Term) -> Term:
    difference = a - b
    return where(a <= b, 0.0, difference)


def fma_exact(a: Term, b: Term, c: Term) -> Term:
    """a*b + c rounded once, except float64 without FMA instructions (see `_fma_by_pairs`)."""
    if a.b.features.fma:
        return Term(a.b, a.b.intrinsic("fma", a.v, b.v, c.v))
    if a.is_single:
        return _fma_by_double(a.widen(), b.widen(), c.widen())
    return _fma_by_pairs(a, b, c)


def _fma_by_double(a: Term, b: Term, c: Term) -> Term:
    """float32 operands as float64: the product is exact; the sum is rounded to odd, so that the
    second rounding, to float32, is the only one that counts."""
    total = two_sum(a * b, c)
    bits = total.high.bits()
    inexact = total.low.differs(0.0) & (total.high.abs() < math.inf)
    even = (bits & 1).equals(0)
    away = total.low.bits() ^ bits  # sign bit set: the exact sum is nearer to zero than `high`
    to_odd = where(away < 0, bits - 1, bits + 1)
    return where(inexact & even, to_odd, bits).as_float().narrow()


def _fma_by_pairs(a: Term, b: Term, c: Term) -> Term:
    """An exact product and an exact sum, then one more rounding of the tails: at most a few 2^-100 of
    a*b from the exact value before the last rounding. Where the splitting overflows, a*b + c."""
    product = two_product(a, b)
    total = two_sum(product.high, c)
    result = total.high + (total.low + product.low)
    return where(result.is_nan() | (result.abs().equals(math.inf)), a * b + c, result)


def emit_abs(b: Builder, args: list[Value], dtype: DType) -> Value:
    (x,) = args
    if dtype.is_float:
        return b.intrinsic("fabs", x)
    if not dtype.is_signed:
        return x
    return b.call(f"llvm.abs.{mangled(x.type)}", x.type, [x, Value("false", "i1")])


def emit_popcount(b: Builder, args: list[Value], dtype: DType) -> Value:
    return b.intrinsic("ctpop", args[0])
