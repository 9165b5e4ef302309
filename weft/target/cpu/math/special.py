"""Error functions and the gamma function."""

from __future__ import annotations

import math
from collections.abc import Callable

from weft.target.cpu.math.coefficients import fitted
from weft.target.cpu.math.exp_log import exp_scaled, expm1_small, log, log_pair
from weft.target.cpu.math.formula import (
    Term,
    at_least,
    at_most,
    even_odd,
    fma,
    horner,
    nearest,
    pick,
    through_double,
    when_any,
    where,
)
from weft.target.cpu.math.pairs import Pair, quick_two_sum, two_product, two_sum
from weft.target.cpu.math.registers import can_look_up, look_up
from weft.target.cpu.math.rounding import floor, trunc


def erf(x: Term) -> Term:
    return _erf_single(x) if x.is_single else _erf_double(x)


def _erf_single(x: Term) -> Term:
    if can_look_up(x):
        return _erf_by_pieces(x)
    return _erf_by_exponential(x)


def _erf_by_pieces(x: Term) -> Term:
    """A polynomial for each of 16 pieces of [0, 4], about the middle: middle + t + t q(t).

    In the first piece, whose middle is 0, only the small part is rounded before the last step.
    """
    a = at_most(x.abs(), 4.0)
    (width,) = fitted("ERF_PIECE")
    count, piece = nearest(a, 1.0 / width)
    t = fma(count, -width, a)  # exact
    middle, *coefficients = (look_up(fitted(f"ERF_PIECES_F32_{n}"), piece) for n in range(6))
    return fma(t, horner(t, coefficients), middle + t).with_sign_of(x)


def _erf_by_exponential(x: Term) -> Term:
    """1 - e^-(a + a q(a)): one polynomial for the whole range and no cancellation; the sign comes last."""
    a = at_most(x.abs(), 4.0)
    return expm1_small(-a, a * even_odd(a, [-k for k in fitted("ERF_EXPONENT_F32")])).with_sign_of(x)


def _erf_double(x: Term) -> Term:
    a = x.abs()
    far = 1.0 - _erfc_far(at_most(at_least(a, 0.6), 27.5))
    return where(a < 1.0, _erf_near(x), far.with_sign_of(x))


def _erf_near(x: Term) -> Term:
    """|x| <= 1; NaN and larger give something finite or NaN."""
    return fma(x, horner(x * x, pick(x, "ERF_SLOPE")), x)


def _erfc_far(a: Term) -> Term:
    """erfc for a >= 0.6: e^(-a^2) times a function of (a - k)/(a + k) that hardly bends."""
    k = 2.0 if a.is_single else 2.5
    w = (a - k) / (a + k)
    shape = even_odd(w, pick(a, "ERFCX")) / fma(a, 2.0, 1.0)
    square = two_product(a, a)
    return exp_scaled(-square.high, -square.low) * shape


def erfc(x: Term) -> Term:
    a = x.abs()
    far = _erfc_far(at_most(at_least(a, 0.6), 10.2 if x.is_single else 27.3))
    return where(a < 0.6, 1.0 - _erf_near(x), where(x < 0.0, 2.0 - far, far))


@through_double
def tgamma(x: Term) -> Term:
    """A polynomial on [1, 2] times or over the factors between; Stirling from 12; reflection below 0.

    Poles at the negative whole numbers give NaN, zero gives infinity of its sign.
    """
    mirrored = x < 0.0
    z = x.abs()
    near = _gamma_near(at_most(z, 13.0))
    large = at_least(at_most(z, 350.0), 10.0)
    half, half_again = _gamma_far(large)
    z_small = z < 12.0
    s = sin_pi(z)
    direct = where(z_small, near, half * half_again)
    opposite = where(z_small, math.pi / (s * near), math.pi / s / half / half_again) / -z
    result = where(mirrored, opposite, direct)
    result = where(z < 1e-17, 1.0 / x, result)
    result = where((x < 0.0) & floor(x).equals(x), math.nan, result)
    return where(x.is_nan() | x.equals(math.inf), x, result)


def _gamma_near(z: Term) -> Term:
    """0 < z <= 13."""
    below = z < 1.0
    factor = where(below, z, 1.0)
    z = where(below, z + 1.0, z)
    product = z.like(1.0)
    for _ in range(11):
        more = z > 2.0
        z = where(more, z - 1.0, z)
        product = where(more, product * z, product)
    return product * horner(z - 1.5, fitted("GAMMA_CORE")) / factor


def _stirling_pair(z: Term) -> Pair:
    """log of gamma(z) for z >= 8, in twice the precision but for the series."""
    logarithm = log_pair(z)
    shifted = z - 0.5
    product = two_product(logarithm.high, shifted)
    inverse = 1.0 / z
    series = inverse * horner(inverse * inverse, fitted("STIRLING"))
    low = product.low + logarithm.low * shifted
    total = two_sum(product.high, -z)
    half_log = quick_two_sum(total.high, z.like(0.9189385332046728))
    low = low + total.low + half_log.low + (series - 3.878294158067242e-17)
    return quick_two_sum(half_log.high, low)


def _gamma_far(z: Term) -> tuple[Term, Term]:
    """Two numbers whose product is gamma(z); the product may overflow, they do not."""
    total = _stirling_pair(z)
    whole = exp_scaled(0.5 * at_most(total.high, 1400.0), 0.5 * total.low)
    return whole, whole


def sin_pi(a: Term) -> Term:
    """sin(pi a) for a >= 0, exactly 0 at whole numbers."""
    whole = trunc(a)
    rest = a - whole
    folded = where(rest > 0.5, 1.0 - rest, rest)
    r = folded * math.pi
    u = r * r
    value = fma(u * r, horner(u, fitted("SIN_HALF_F64")), r)
    half = whole * 0.5
    return where(trunc(half).differs(half), -value, value)


def lgamma(x: Term) -> Term:
    """log |gamma(x)|: the zeros at 1 and 2 divided out of a polynomial; Stirling from 8; reflection below 0."""
    if x.is_single:
        wide = x.widen()
        return _lgamma(wide, _lgamma_plain(wide.abs())).narrow()
    a = x.abs()
    total = _stirling_pair(at_least(at_most(a, 1e300), 8.0))
    near = _lgamma_near(at_most(a, 9.0), log)
    return _lgamma(x, where(a < 8.0, near, total.high + total.low))


def _lgamma(x: Term, plain: Term) -> Term:
    """Given log gamma(|x|) up to 1e17: huge, negative and special arguments."""
    a = x.abs()
    # Far out the product may overflow before the result does; a (log a - 1) is the same there.
    (plain,) = when_any(a > 1e17, [plain], lambda: [where(a > 1e17, a * (log(a) - 1.0), plain)])
    mirrored = (x < 0.0) & (a > 1e-17)
    (result,) = when_any(mirrored, [plain], lambda: [where(mirrored, _log_mirror(a) - plain, plain)])
    pole = (x <= 0.0) & floor(x).equals(x)
    return where(x.is_nan(), x, where(pole | a.equals(math.inf), math.inf, result))


def _log_mirror(a: Term) -> Term:
    """log |gamma(a) gamma(-a)|."""
    return log(math.pi / (a * sin_pi(a).abs()))


def _lgamma_plain(a: Term) -> Term:
    """In float64 good for a float32 result: one logarithm serves the product and Stirling's formula."""
    logarithm: list[Term] = []

    def shared(product: Term) -> Term:
        logarithm.append(log(where(a < 8.0, product, a)))
        return logarithm[0]

    near = _lgamma_near(at_most(a, 9.0), shared)
    inverse = 1.0 / a
    series = fma(inverse, horner(inverse * inverse, fitted("STIRLING")), 0.9189385332046728)
    return where(a < 8.0, near, fma(a - 0.5, logarithm[0], series - a))


def _lgamma_near(a: Term, logarithm: Callable[[Term], Term]) -> Term:
    """0 < a <= 9: down to (1.5, 2.5] by a product of factors, or up by one."""
    low = a < 0.75
    z = where(low, a + 1.0, a)
    product = a.like(1.0)
    for _ in range(7):
        more = z > 2.5
        z = where(more, z - 1.0, z)
        product = where(more, product * z, product)
    t = z - 2.0
    core = t * (z - 1.0) * even_odd(t, fitted("LGAMMA_CORE"))
    factor = logarithm(where(low, a, product))
    return where(low, core - factor, core + factor)
