"""``skew``: an inner loop starts later (or earlier) with every iteration of an outer one.

Loop skewing alone changes nothing; it makes wavefronts straight, so that the two loops can be reordered
and the inner one run in parallel afterwards.
"""

from __future__ import annotations

from dataclasses import replace

from weft.ir.expr import idx
from weft.ir.stmt import Kernel
from weft.ir.visit import substitute
from weft.poly.verdict import OK, Verdict, refuse
from weft.schedules.find import find_loop, loops_around, ranges_at
from weft.schedules.rewrite import Rewrite, replace_stmt, simplify_bounds
from weft.schedules.trace import Numerics


def check_skew(kernel: Kernel, loop: str, outer: str, factor: int = 1, *, numerics: Numerics) -> Verdict:
    """A change of variables: legal wherever ``outer`` is around ``loop``."""
    find_loop(kernel, outer)
    around = [f.var.name for f in loops_around(kernel, find_loop(kernel, loop))]
    if outer not in around:
        legal = tuple(f's.skew("{loop}", "{name}")' for name in around)
        return refuse(f"`{outer}` is not around `{loop}`", alternatives=legal)
    if not isinstance(factor, int) or isinstance(factor, bool) or abs(factor) >= 1 << 31:
        return refuse(f"the factor is {factor!r}; it is a whole number below 2**31")
    return OK


def skew(kernel: Kernel, loop: str, outer: str, factor: int = 1) -> Rewrite:
    """``j`` runs from ``lo + factor * i`` and stands for ``j - factor * i`` inside."""
    old = find_loop(kernel, loop)
    distance = find_loop(kernel, outer).var * idx(factor)
    body = substitute(old.body, {old.var: old.var - distance})
    moved = replace(old, lo=old.lo + distance, hi=old.hi + distance, body=body)
    return Rewrite(replace_stmt(kernel, old, simplify_bounds(moved, ranges_at(kernel, old))))
