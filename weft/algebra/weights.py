"""Weights of points: polynomials in coordinates and sizes, as counts of what reads one element are."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import TypeAlias

from weft.algebra.linear import Linear

#: Sorted names of a monomial, and its coefficient.
Weight: TypeAlias = dict[tuple[str, ...], Fraction]


def plus(a: Weight, b: Weight, times: Fraction | int = 1) -> Weight:
    total = dict(a)
    for monomial, c in b.items():
        value = total.get(monomial, Fraction(0)) + c * times
        if value:
            total[monomial] = value
        else:
            total.pop(monomial, None)
    return total


def times(a: Weight, b: Weight) -> Weight:
    total: Weight = {}
    for m, c in a.items():
        total = plus(total, {tuple(sorted(m + n)): d for n, d in b.items()}, c)
    return total


def of_linear(form: Linear) -> Weight:
    return {((n,) if n else ()): Fraction(c) for n, c in form}


def put(weight: Weight, by: Mapping[str, Linear]) -> Weight:
    if not any(n in by for m in weight for n in m):
        return weight
    total: Weight = {}
    for monomial, c in weight.items():
        factor: Weight = {(): c}
        for name in monomial:
            factor = times(factor, of_linear(by.get(name, ((name, 1),))))
        total = plus(total, factor)
    return total


def mentions(weight: Weight, name: str) -> bool:
    return any(name in m for m in weight)
