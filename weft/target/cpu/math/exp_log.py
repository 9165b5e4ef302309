"""Exponentials and logarithms, and what is made of them: sigmoid, hyperbolic functions and their inverses."""

from __future__ import annotations

import math

from weft.target.cpu.math.coefficients import fitted
from weft.target.cpu.math.formula import (
    F32,
    Format,
    Term,
    at_least,
    at_most,
    even_odd,
    float_bits,
    fma,
    horner,
    integer_to_float,
    nearest,
    pick,
    power_of_two,
    where,
)
from weft.target.cpu.math.pairs import Pair, constant_pair, multiply, quick_two_sum, two_product, two_sum
from weft.target.cpu.math.registers import can_scale, scale_by
from weft.target.cpu.math.rounding import rint

#: ln 2 as a part short enough that small integers times it are exact, and the rest.
LN2 = {
    "float": (0.693145751953125, 1.428606820309417e-06),
    "double": (0.6931471803691238, 1.9082149292705877e-10),
}


def _exp_limits(fmt: Format) -> tuple[float, float]:
    """Beyond these the result is 0 or infinity."""
    return (-104.0, 89.0) if fmt is F32 else (-746.0, 710.0)


def exp(x: Term) -> Term:
    low, high = _exp_limits(x.format)
    if can_scale(x) and x.is_single:  # the polynomial is positive everywhere: infinity comes out by itself
        return exp_scaled(at_least(x, low))
    return exp_scaled(at_least(at_most(x, high), low))


def exp_scaled(x: Term, tail: Term | None = None) -> Term:
    """e^(x + tail) within the limits, by x = n ln 2 + r."""
    if can_scale(x):
        whole = rint(x * (1.0 / math.log(2.0)))
        return scale_by(_exp_core(_subtract_multiple(x, whole, tail)) + 1.0, whole)
    count, low_bits = nearest(x, 1.0 / math.log(2.0), 2 * x.format.bias)
    r = _subtract_multiple(x, count, tail)
    return _scale_twice(_exp_core(r) + 1.0, low_bits)


def exp2(x: Term) -> Term:
    if can_scale(x):
        whole = rint(x)
        return scale_by(_exp_core((x - whole) * math.log(2.0)) + 1.0, whole)
    low, high = (-151.0, 129.0) if x.is_single else (-1076.0, 1025.0)
    x = at_least(at_most(x, high), low)
    count, low_bits = nearest(x, 1.0, 2 * x.format.bias)
    return _scale_twice(_exp_core((x - count) * math.log(2.0)) + 1.0, low_bits)


def _exp_core(r: Term) -> Term:
    """e^r - 1 for |r| up to half of ln 2."""
    return fma(r * r, horner(r, pick(r, "EXP")), r)


def _scale_twice(p: Term, low_bits: Term) -> Term:
    """p * 2^n by two factors of about half the exponent: both infinity and the subnormals are reached
    with normal factors, and rounded once. ``low_bits`` hold n + 2 * bias."""
    half = low_bits >> 1
    return p * power_of_two(half) * power_of_two(low_bits - half)


def _subtract_multiple(x: Term, n: Term, tail: Term | None = None) -> Term:
    """x + tail - n ln 2."""
    high, low = LN2[x.format.type]
    near = fma(n, -high, x)
    return fma(n, -low, near) if tail is None else near + fma(n, -low, tail)  # two short chains


def expm1_parts(x: Term, tail: Term | None = None) -> tuple[Term, Term]:
    """(n, w) with e^(x + tail) = 2^n (1 + w): an integer with n + bias in its low bits, and |w| < 0.42."""
    total = x if tail is None else x + tail
    count, low_bits = nearest(total, 1.0 / math.log(2.0), x.format.bias)
    return low_bits, _exp_core(_subtract_multiple(x, count, tail))


def expm1_small(x: Term, tail: Term | None = None) -> Term:
    """e^(x + tail) - 1 where 2^n does not overflow; x may be a NaN."""
    n, w = expm1_parts(x, tail)
    scale = power_of_two(n)
    return fma(scale, w, scale - 1.0)


def expm1(x: Term) -> Term:
    high = _exp_limits(x.format)[1]
    n, w = expm1_parts(at_least(at_most(x, high), -50.0))
    half = power_of_two(n - 1)  # 2^n itself may overflow
    result = 2.0 * fma(half, w, half - 0.5)
    return where(x.abs() < 1e-20, x, result)


def sigmoid(x: Term) -> Term:
    """e^-|x| never overflows, and is what is left of the result far below zero."""
    e = exp_scaled(-at_most(x.abs(), -_exp_limits(x.format)[0]))
    d = e + 1.0
    y = where(x < 0.0, e, 1.0) / d
    lost = e - (d - 1.0)
    return fma(y * lost, fma(e, 0.5, -1.0), y)  # 1 - e/2 is near enough to 1/d


def tanh(x: Term) -> Term:
    """(e^2a - 1) / (e^2a + 1), the numerator without cancellation."""
    e = expm1_small(2.0 * at_most(x.abs(), 10.0 if x.is_single else 20.0))
    d = e + 2.0
    q = e / d
    lost = where(d < 2.0**x.format.mantissa, e - (d - 2.0), 0.0)
    excess = fma(q, lost, fma(q, d, -e)) if x.b.features.fma else q * lost
    return fma(excess, fma(q, 0.5, -0.5), q).with_sign_of(x)  # 1/d is (1 - q)/2


def split_mantissa(x: Term) -> tuple[Term, Term]:
    """x = m 2^e with m in [sqrt(1/2), sqrt 2), for positive finite x; e as a float."""
    fmt = x.format
    tiny = x < fmt.least_normal
    bits = where(tiny, x * 2.0 ** (fmt.mantissa + 1), x).bits()
    exponent = (bits - float_bits(fmt, math.sqrt(0.5))) >> fmt.mantissa
    m = (bits - (exponent << fmt.mantissa)).as_float()
    return m, integer_to_float(exponent - where(tiny, exponent.like(fmt.mantissa + 1), 0))


def _log_edges(x: Term, result: Term) -> Term:
    """-inf at 0, NaN below, infinity and NaN as they are."""
    result = where(x < math.inf, result, x)
    return where(x > 0.0, result, where(x.equals(0.0), x.like(-math.inf), math.nan))


def log1p_core(f: Term) -> tuple[Term, Term]:
    """log(1 + f) = first + second for 1 + f in [sqrt(1/2), sqrt 2); |second| is the smaller."""
    half_square = 0.5 * f * f
    if f.is_single:
        return f, fma(f * f * f, even_odd(f, fitted("LOG_F32")), -half_square)
    s = f / (2.0 + f)
    z = s * s
    return f, s * (half_square + z * horner(z, fitted("LOG_F64"))) - half_square


def _natural(f: Term, e: Term) -> Term:
    """log(1 + f) + e ln 2."""
    high, low = LN2[f.format.type]
    first, second = log1p_core(f)
    return fma(e, high, first + fma(e, low, second))


def log(x: Term) -> Term:
    m, e = split_mantissa(x)
    return _log_edges(x, _natural(m - 1.0, e))


def log2(x: Term) -> Term:
    m, e = split_mantissa(x)
    return _log_edges(x, _scaled_log(m - 1.0, e, _LOG2_E))


def log10(x: Term) -> Term:
    m, e = split_mantissa(x)
    return _log_edges(x, _scaled_log(m - 1.0, e, _LOG10_E))


#: (1/ln b as a short part and the rest, log_b 2 as a short part and the rest) for each format.
_LOG2_E = {
    "float": ((1.4423828125, 0.00031222838896340733), (1.0, 0.0)),
    "double": ((1.4426950216293335, 1.9259629911266175e-08), (1.0, 0.0)),
}
_LOG10_E = {
    "float": ((0.43408203125, 0.00021245065325182765), (0.301025390625, 4.605038981195214e-06)),
    "double": ((0.4342944771051407, 4.798111141615973e-09), (0.30102999566395283, 2.8363394551044964e-14)),
}


def _scaled_log(f: Term, e: Term, scales: dict[str, tuple[tuple[float, float], tuple[float, float]]]) -> Term:
    (high, low), (unit_high, unit_low) = scales[f.format.type]
    first, second = log1p_core(f)
    total = first + second
    # Cut `total` to its leading half so that its product with the short part is exact.
    cut = (total.bits() & (-1 << (12 if f.is_single else 27))).as_float()
    rest = (first - cut) + second
    small = fma(cut, low, rest * (high + low))
    return fma(e, unit_high, fma(cut, high, fma(e, unit_low, small)))


def log1p(x: Term) -> Term:
    """log of u = 1 + x, with what the sum lost put back into the mantissa's distance from 1."""
    u = 1.0 + x
    lost = where(x < 1.0, x - (u - 1.0), 1.0 - (u - x))
    m, e = split_mantissa(u)
    scale = (m.bits() - u.bits() + float_bits(x.format, 1.0)).as_float()  # m / u
    f = (m - 1.0) + where(u < 2.0**60, lost * scale, 0.0)
    result = _log_edges(u, _natural(f, e))
    return where(x.abs() < 1e-20, x, result)


def log_pair(x: Term) -> Pair:
    """log x in twice the precision (float64, positive finite x): 2 atanh of s = (m - 1)/(m + 1)."""
    m, e = split_mantissa(x)
    f, d = m - 1.0, m + 1.0
    lost = m - (d - 1.0)
    s = f / d
    product = two_product(s, d)
    s_low = (((f - product.high) - product.low) - s * lost) / d
    square = multiply(Pair(s, s_low), Pair(s, s_low))
    cube = multiply(square, Pair(s, s_low))
    third = multiply(cube, constant_pair(x, 2.0 / 3.0, 3.700743415417188e-17))
    tail = cube.high * square.high * horner(square.high, fitted("LOG_PAIR_F64"))
    first = two_sum(e * 0.6931471805598903, 2.0 * s)
    second = two_sum(first.high, third.high)
    low = first.low + second.low + (third.low + tail + 2.0 * s_low + e * 5.497923018708371e-14)
    return quick_two_sum(second.high, low)


def _half_exp(a: Term) -> tuple[Term, Term]:
    """e^a / 2 = h * 2 for a >= 0, as h and the factor, so that cosh(a) can be finite where e^a is not."""
    limit = 91.0 if a.is_single else 712.0
    low, tail = LN2[a.format.type]
    reduced = at_most(a, limit) - 2.0 * low
    return exp_scaled(reduced, a.like(-2.0 * tail)), a.like(2.0)


def cosh(x: Term) -> Term:
    quarter, two = _half_exp(x.abs())
    return two * (quarter + 0.0625 / quarter)


def sinh(x: Term) -> Term:
    a = x.abs()
    u = a * a
    small = fma(u * a, horner(u, pick(x, "SINH")), a)
    quarter, two = _half_exp(a)
    large = two * (quarter - 0.0625 / quarter)
    return where(a < 1.0, small, large).with_sign_of(x)


def asinh(x: Term) -> Term:
    """log1p of a + a^2/(1 + sqrt(1 + a^2)); log(2a) where a^2 would overflow."""
    a = x.abs()
    huge = a > 2.0 ** (x.format.mantissa + 5)
    u = a * a
    argument = where(huge, a, a + u / (1.0 + (1.0 + u).sqrt()))
    return (log1p(argument) + where(huge, a.like(math.log(2.0)), 0.0)).with_sign_of(x)


def acosh(x: Term) -> Term:
    huge = x > 2.0 ** (x.format.mantissa + 5)
    t = x - 1.0
    argument = where(huge, x, t + (2.0 * t + t * t).sqrt())
    return where(x < 1.0, math.nan, log1p(argument) + where(huge, x.like(math.log(2.0)), 0.0))


def atanh(x: Term) -> Term:
    """log1p(2a / (1 - a)) / 2."""
    a = x.abs()
    result = 0.5 * log1p(2.0 * a / (1.0 - a))
    return where(a < 1e-10, x, result.with_sign_of(x))
