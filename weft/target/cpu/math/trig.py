"""Trigonometric functions and their inverses."""

from __future__ import annotations

from weft.target.cpu.math.formula import Term, fma, horner, pick, sign_mask, where
from weft.target.cpu.math.reduce_angle import Angle, reduce_angle

#: pi/2 less its rounding, in each format.
_HALF_PI_LOW = {"float": -4.371138828673793e-08, "double": 6.123233995736766e-17}
_HALF_PI = {"float": 1.5707963705062866, "double": 1.5707963267948966}


def sin(x: Term) -> Term:
    """Of |x| less a multiple of pi; an odd multiple flips the sign, and so does x's own."""
    angle = reduce_angle(x.abs())
    own = x.bits() & sign_mask(x.format)
    return _half_turn_sine(angle).flipped_by(own)


def cos(x: Term) -> Term:
    """sin(|x| + pi/2)."""
    return _half_turn_sine(reduce_angle(x.abs(), quarter_turn_added=True))


def _half_turn_sine(angle: Angle) -> Term:
    r = angle.rest
    u = r * r
    value = fma(u * r, horner(u, pick(r, "SIN_HALF")), r)
    return value.flipped_by(angle.steps << (r.format.bits - 1))


def tan(x: Term) -> Term:
    """sin/cos of the rest after multiples of pi/2; -cos/sin after an odd one."""
    angle = reduce_angle(x.abs(), steps_per_half_turn=2)
    r = angle.rest
    u = r * r
    sine = fma(u * r, horner(u, pick(r, "SIN")), r)
    half = 0.5 * u
    near_one = 1.0 - half
    cosine = near_one + fma(u * u, horner(u, pick(r, "COS")), (1.0 - near_one) - half)
    odd = (angle.steps & 1).differs(0)
    result = where(odd, -cosine, sine) / where(odd, sine, cosine)
    return result.flipped_by(x.bits() & sign_mask(x.format))


def _atan_unit(q: Term) -> Term:
    """What atan(q) has beyond q, for q in [0, 1]."""
    u = q * q
    return u * q * horner(u, pick(q, "ATAN"))


def atan(x: Term) -> Term:
    a = x.abs()
    large = a > 1.0
    q = where(large, 1.0 / a, a)
    beyond = _atan_unit(q)
    complement = _HALF_PI[x.format.type] - (q + (beyond - _HALF_PI_LOW[x.format.type]))
    return where(large, complement, q + beyond).with_sign_of(x)


def atan2(y: Term, x: Term) -> Term:
    """The angle of (x, y): atan of the smaller over the larger, then the octant."""
    ay, ax = y.abs(), x.abs()
    steep = ay > ax
    least, most = where(steep, ax, ay), where(steep, ay, ax)
    q = least / most
    q = where(ax.equals(ay), where(ax.equals(0.0), q.like(0.0), 1.0), q)  # 0/0 and inf/inf
    q = where(x.is_nan() | y.is_nan(), x + y, q)
    beyond = _atan_unit(q)
    kind = x.format.type
    first = where(steep, _HALF_PI[kind] - (q + (beyond - _HALF_PI_LOW[kind])), q + beyond)
    low = 2.0 * _HALF_PI_LOW[kind]
    second_steep = _HALF_PI[kind] + (q + (beyond + _HALF_PI_LOW[kind]))
    second = where(steep, second_steep, 2.0 * _HALF_PI[kind] - (q + (beyond - low)))
    return where(x.bits() < 0, second, first).with_sign_of(y)


def _asin_tail(z: Term, s: Term) -> Term:
    """asin(s) - s where z = s^2 <= 1/4."""
    return z * s * horner(z, pick(z, "ASIN"))


def asin(x: Term) -> Term:
    """Above 1/2: pi/2 - 2 asin(sqrt((1 - |x|)/2))."""
    a = x.abs()
    large = a > 0.5
    z = where(large, 0.5 * (1.0 - a), a * a)
    s = where(large, z.sqrt(), a)
    tail = _asin_tail(z, s)
    kind = x.format.type
    far = _HALF_PI[kind] - (2.0 * s + (2.0 * tail - _HALF_PI_LOW[kind]))
    return where(large, far, s + tail).with_sign_of(x)


def acos(x: Term) -> Term:
    a = x.abs()
    large = a > 0.5
    z = where(large, 0.5 * (1.0 - a), a * a)
    root = z.sqrt()
    s = where(large, root, a)
    tail = _asin_tail(z, s)
    kind = x.format.type
    near = 2.0 * (s + tail)
    opposite = 2.0 * _HALF_PI[kind] - (near - 2.0 * _HALF_PI_LOW[kind])
    signed = x + tail.with_sign_of(x)
    middle = _HALF_PI[kind] - (signed - _HALF_PI_LOW[kind])
    return where(large, where(x < 0.0, opposite, near), middle)
