"""``shift`` and ``skew``: a loop counts from another start; what it computes stays the same.

A skewed loop starts later (or earlier) with every iteration of an outer one. Loop skewing alone changes nothing; it
makes wavefronts straight, so that the two loops can be reordered and the inner one run in parallel afterwards.
"""

from __future__ import annotations

from dataclasses import replace

from weft.ir.expr import Expr, idx
from weft.ir.stmt import For, Kernel
from weft.ir.visit import substitute
from weft.poly.verdict import OK, Verdict, refuse
from weft.schedules.find import find_loop, loops_around
from weft.schedules.rewrite import Rewrite, primitive, replace_loop
from weft.schedules.trace import Numerics


def check_shift(kernel: Kernel, loop: str, by: int, *, numerics: Numerics) -> Verdict:
    """A change of variables: legal for any whole number."""
    find_loop(kernel, loop)
    return _check_distance("distance", by)


@primitive(check_shift, "cannot shift loop `{0}`")
def shift(kernel: Kernel, loop: str, by: int) -> Rewrite:
    """``m`` runs from ``lo + by`` and stands for ``m - by`` inside."""
    return _moved(kernel, find_loop(kernel, loop), idx(by))


def check_skew(kernel: Kernel, loop: str, outer: str, factor: int = 1, *, numerics: Numerics) -> Verdict:
    """A change of variables: legal wherever ``outer`` is around ``loop``."""
    find_loop(kernel, outer)
    around = [f.var.name for f in loops_around(kernel, find_loop(kernel, loop))]
    if outer not in around:
        legal = tuple(f's.skew("{loop}", "{name}")' for name in around)
        return refuse(f"`{outer}` is not around `{loop}`", alternatives=legal)
    return _check_distance("factor", factor)


@primitive(check_skew, "cannot skew loop `{0}`")
def skew(kernel: Kernel, loop: str, outer: str, factor: int = 1) -> Rewrite:
    """``j`` runs from ``lo + factor * i`` and stands for ``j - factor * i`` inside."""
    return _moved(kernel, find_loop(kernel, loop), find_loop(kernel, outer).var * idx(factor))


def _check_distance(what: str, value: object) -> Verdict:
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 31:
        return OK
    return refuse(f"the {what} is {value!r}; it is a whole number below 2**31")


def _moved(kernel: Kernel, old: For, by: Expr) -> Rewrite:
    body = substitute(old.body, {old.var: old.var - by})
    return Rewrite(replace_loop(kernel, old, replace(old, lo=old.lo + by, hi=old.hi + by, body=body)))
