"""Hyperbolic functions and their inverses (tanh is with the exponentials it is made of)."""

from __future__ import annotations

import math

from weft.target.cpu.math import coefficients as c
from weft.target.cpu.math.exp_log import LN2, exp_scaled, log1p
from weft.target.cpu.math.formula import Term, at_most, fma, horner, pick, where


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
    small = fma(u * a, horner(u, pick(x, c.SINH_F32, c.SINH_F64)), a)
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
