"""Unevaluated sums of two floats: about twice the precision, from error-free additions and products."""

from __future__ import annotations

from dataclasses import dataclass

from weft.target.cpu.math.formula import Term, fma


@dataclass(frozen=True, slots=True)
class Pair:
    """high + low, with |low| at most half an ulp of high."""

    high: Term
    low: Term


def two_sum(a: Term, b: Term) -> Pair:
    """a + b exactly."""
    total = a + b
    part = total - a
    return Pair(total, (a - (total - part)) + (b - part))


def quick_two_sum(a: Term, b: Term) -> Pair:
    """a + b exactly, where |a| >= |b|."""
    total = a + b
    return Pair(total, b - (total - a))


def two_product(a: Term, b: Term) -> Pair:
    """a * b exactly (barring overflow and underflow)."""
    product = a * b
    if a.b.features.fma:
        return Pair(product, fma(a, b, -product))
    ah, al = _halves(a)
    bh, bl = _halves(b)
    return Pair(product, ((ah * bh - product) + ah * bl + al * bh) + al * bl)


def _halves(a: Term) -> tuple[Term, Term]:
    """Two numbers of half the digits that add up to ``a``."""
    scaled = a * (4097.0 if a.is_single else 134217729.0)
    high = scaled - (scaled - a)
    return high, a - high


def multiply(a: Pair, b: Pair) -> Pair:
    product = two_product(a.high, b.high)
    return quick_two_sum(product.high, product.low + (a.high * b.low + a.low * b.high))


def constant_pair(like: Term, high: float, low: float) -> Pair:
    return Pair(like.like(high), like.like(low))
