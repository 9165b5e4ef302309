"""pow, cbrt, hypot and fmod."""

from __future__ import annotations

import math

from weft.target.cpu.llvm_values import constant, vector
from weft.target.cpu.math.coefficients import fitted
from weft.target.cpu.math.exp_log import exp_scaled, log_pair, split_mantissa
from weft.target.cpu.math.formula import (
    F32,
    F64,
    Term,
    any_lane,
    at_least,
    at_most,
    even_odd,
    float_bits,
    fma,
    horner,
    nearest,
    sign_mask,
    through_double,
    when_any,
    where,
)
from weft.target.cpu.math.pairs import two_product
from weft.target.cpu.math.rounding import fma_exact, trunc


def pow(x: Term, y: Term) -> Term:
    a = x.abs()
    size = _pow_single(a, y) if x.is_single else _pow_double(a, y)
    whole = trunc(y).equals(y)
    half = y * 0.5
    odd = whole & trunc(half).differs(half)
    sign = where(odd, x.bits() & sign_mask(x.format), 0)
    result = size.flipped_by(sign)
    result = where((x < 0.0) & (x > -math.inf) & ~whole, math.nan, result)
    result = where(x.is_nan() | y.is_nan(), x + y, result)
    return where(y.equals(0.0) | x.equals(1.0), 1.0, result)


def _pow_single(a: Term, y: Term) -> Term:
    """2^(y log2 a) in float64, with polynomials no longer than a float32 result needs."""
    m, e = split_mantissa(a)
    f = (m - 1.0).widen()
    exponent = fma(f, even_odd(f, fitted("LOG2_MEDIUM")), e.widen())
    product = _edge_product(a, y, y.widen() * exponent, 1000.0)
    t = at_least(at_most(product, 200.0), -200.0)
    count, low_bits = nearest(t)
    p = horner(t - count, fitted("EXP2_MEDIUM"))
    return (p.bits() + (low_bits << F64.mantissa)).as_float().narrow()


def _pow_double(a: Term, y: Term) -> Term:
    logarithm = log_pair(a)
    product = two_product(y, logarithm.high)
    tail = fma(y, logarithm.low, product.low)
    t = _edge_product(a, y, product.high, 1e6)
    inside = (t.abs() < 800.0) & a.differs(1.0)
    return exp_scaled(at_least(at_most(t, 710.0), -746.0), where(inside, tail, 0.0))


def _edge_product(a: Term, y: Term, product: Term, beyond: float) -> Term:
    """y log a where the general formula fails: a of 0, 1 and infinity."""
    wide_y = y.widen() if y.is_single else y
    limit = wide_y.like(beyond).with_sign_of(wide_y)
    product = where(a.equals(0.0), -limit, product)
    product = where(a.equals(math.inf), limit, product)
    return where(a.equals(1.0), 0.0, product)


def cbrt(x: Term) -> Term:
    """A third of the exponent and mantissa bits as an estimate, two cubic steps, one exact correction."""
    fmt = x.format
    a = x.abs()
    tiny = a < 1e-20
    third = 2.0 ** (fmt.mantissa // 3 + 2)
    a = where(tiny, a * third**3, a * 0.125)  # no subnormals, and room above
    y = _third_of_exponent(a)
    for _ in range(2 if x.is_single else 3):
        cube = y * y * y
        y = y - y * ((cube - a) / (2.0 * cube + a))
    square = two_product(y, y)
    residual = fma_exact(square.high, y, -a) + square.low * y
    y = y - residual / (3.0 * square.high)
    y = y * where(tiny, y.like(1.0 / third), 2.0)
    ordinary = (a > 0.0) & (a < math.inf)
    return where(ordinary, y.with_sign_of(x), x)


def _third_of_exponent(a: Term) -> Term:
    """Bits / 3 plus two thirds of the bias: within 6 % of the cube root."""
    fmt = a.format
    b = a.b
    bits = a.bits()
    high = bits if fmt is F32 else Term(b, b.trunc(b.lshr(bits.v, constant(bits.v.type, 32)), "i32"))
    third = Term(b, b.fptosi(b.fmul(b.sitofp(high.v, "float"), constant(vector("float", a.v.lanes), 1.0 / 3.0)), "i32"))
    offset = int(float_bits(fmt, 1.0) * 2 / 3) - int(0.033 * 2**fmt.mantissa)
    if fmt is F32:
        return (third + offset).as_float()
    return ((Term(b, b.sext(third.v, "i64")) << 32) + offset).as_float()


def hypot(x: Term, y: Term) -> Term:
    """Infinite when either side is, even beside a NaN."""
    infinite = x.abs().equals(math.inf) | y.abs().equals(math.inf)
    result = _hypot_single(x, y) if x.is_single else _hypot_double(x, y)
    return where(infinite, math.inf, result)


def _hypot_single(x: Term, y: Term) -> Term:
    wide_x, wide_y = x.widen(), y.widen()
    return (wide_x * wide_x + wide_y * wide_y).sqrt().narrow()


def _hypot_double(x: Term, y: Term) -> Term:
    """Both scaled by a power of two near the larger; the squares' sum corrected by its lost part."""
    ax, ay = x.abs(), y.abs()
    most = where(ax < ay, ay, ax)
    least = where(ax < ay, ax, ay)
    up, down = most > 2.0**500, most < 2.0**-500
    scale = where(up, most.like(2.0**-600), where(down, most.like(2.0**600), 1.0))
    back = where(up, most.like(2.0**600), where(down, most.like(2.0**-600), 1.0))
    a, b = most * scale, least * scale
    first, second = two_product(a, a), two_product(b, b)
    total = first.high + second.high
    lost = (first.high - total) + second.high + first.low + second.low
    root = total.sqrt()
    square = two_product(root, root)
    better = root + ((total - square.high) - square.low + lost) / (root + root)
    return where(most.equals(0.0) | most.is_nan() | least.is_nan(), x + y, where(most > 0.0, better * back, 0.0)).abs()


@through_double
def fmod(x: Term, y: Term) -> Term:
    """Exact. One step when the quotient is a whole number a float64 holds; long division otherwise."""
    divisor, a = y.abs(), x.abs()
    valid = (a < math.inf) & (divisor > 0.0) & (divisor < math.inf)
    divisor = where(valid, divisor, 1.0)
    start = where(valid, a, 0.0)
    quotient = trunc(start / divisor)
    short = _settle(_subtract_product(start, quotient, divisor), divisor)
    (left,) = when_any(quotient >= 2.0**52, [short], lambda: [_long_division(start, divisor)])
    result = where(valid, left.with_sign_of(x), math.nan)
    return where((a < math.inf) & y.abs().equals(math.inf), x, result)


def _settle(left: Term, divisor: Term) -> Term:
    """The rounded quotient may be one off."""
    left = where(left < 0.0, left + divisor, left)
    return where(left >= divisor, left - divisor, left)


def _long_division(start: Term, divisor: Term) -> Term:
    """52 quotient bits at a time, until every lane is below its divisor."""
    b = start.b
    before, loop, done = b.label, b.new_label("fmod"), b.new_label("fmod.done")
    b.block(loop)
    rest = Term(b, b.phi(start.v.type, [(start.v, before)]))
    left = _fmod_step(rest, divisor)
    b.add_incoming(rest.v, left.v, b.label)
    b.cond_branch(any_lane(left >= divisor), loop, done)
    b.block(done)
    return left


def _fmod_step(rest: Term, divisor: Term) -> Term:
    """Take away the largest multiple of divisor * 2^k that has at most 52 quotient bits."""
    normal = divisor >= F64.least_normal
    scaled_exponent = _exponent(where(normal, divisor, divisor * 2.0**54)) - where(normal, divisor.bits().like(0), 54)
    ratio_bits = _exponent(rest) - scaled_exponent - 52
    k = where(ratio_bits > 0, ratio_bits, 0)
    half = k >> 1
    scaled = divisor * _exponent_to_float(half) * _exponent_to_float(k - half)
    quotient = trunc(rest / scaled)
    return _settle(_subtract_product(rest, quotient, scaled), scaled)


def _subtract_product(rest: Term, quotient: Term, scaled: Term) -> Term:
    """rest - quotient * scaled, which is exact; without FMA, splitting huge numbers needs room above."""
    if rest.b.features.fma:
        return fma(-quotient, scaled, rest)
    huge = rest > 2.0**900
    down = where(huge, rest.like(2.0**-60), 1.0)
    left = fma_exact(-quotient, scaled * down, rest * down)
    return left * where(huge, rest.like(2.0**60), 1.0)


def _exponent(x: Term) -> Term:
    return (x.bits() >> x.format.mantissa) & 0x7FF


def _exponent_to_float(n: Term) -> Term:
    return ((n + F64.bias) << F64.mantissa).as_float()
