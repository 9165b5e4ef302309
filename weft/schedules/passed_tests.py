"""How many iterations pass a test: its sides are taken to be evenly spread over the iterations of the loops."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from math import prod
from typing import NamedTuple

from weft.schedules.index_forms import Term


class TestShare(NamedTuple):
    """A condition around a statement: the loops it asks about, and the share of iterations in which it holds, of those
    that pass the tests around it. It ``ends`` where it holds up to a number whose digits these loops count: in all
    tiles but the last ones."""

    loops: frozenset[str]
    share: float
    ends: bool = False


def share_of(op: str, constant: int, terms: Mapping[Term, int], trips: Mapping[str, float]) -> float:
    """The share of points where ``terms + constant op 0``."""
    low = high = float(constant)
    for term, times in terms.items():
        reach = times * (term.values(trips.get(term.variable, 1)) - 1)
        low, high = low + min(0, reach), high + max(0, reach)
    count = high - low + 1
    if op in (">", ">="):
        op, low, high = {">": "<", ">=": "<="}[op], -high, -low
    if op in ("==", "!="):
        inside = 1 / count if low <= 0 <= high else 0.0
        return inside if op == "==" else 1 - inside
    below = (0 if op == "<" else 1) - low
    return min(1.0, max(0.0, below / count))


def are_first(op: str, terms: Mapping[Term, int], trips: Mapping[str, float]) -> bool:
    """Whether ``terms + constant op 0`` holds for the first points of loops that are digits of one number."""
    sign = {"<": 1, "<=": 1, ">": -1, ">=": -1}.get(op)
    counted = [(sign * n, term) for term, n in terms.items() if n and trips.get(term.variable, 1) > 1] if sign else []
    digits = sorted(counted, key=lambda digit: digit[0])
    if not digits or digits[0][0] <= 0 or not all(term.is_plain for _, term in digits):
        return False
    return all(b == a * trips.get(term.variable, 1) for (a, term), (b, _) in pairwise(digits))


def passing(found: TestShare, around: Iterable[TestShare]) -> TestShare:
    """``found`` inside tests of the same number, where part of what it keeps out is kept out already."""
    alike = [t for t in around if t.ends and (t.loops <= found.loops or found.loops <= t.loops)] if found.ends else []
    passed = prod(t.share for t in alike)
    return found._replace(share=min(1.0, found.share / passed)) if passed > 0 else found
