"""``shift``: a loop counts from another start; what it computes stays the same."""

from __future__ import annotations

from dataclasses import replace

from weft.ir.expr import idx
from weft.ir.stmt import Kernel
from weft.ir.visit import substitute
from weft.poly.verdict import OK, Verdict, refuse
from weft.schedules.find import find_loop, ranges_at
from weft.schedules.rewrite import Rewrite, replace_stmt, simplify_bounds
from weft.schedules.trace import Numerics


def check_shift(kernel: Kernel, loop: str, by: int, *, numerics: Numerics) -> Verdict:
    """A change of variables: legal for any whole number."""
    find_loop(kernel, loop)
    if not isinstance(by, int) or isinstance(by, bool) or abs(by) >= 1 << 31:
        return refuse(f"the distance is {by!r}; it is a whole number below 2**31")
    return OK


def shift(kernel: Kernel, loop: str, by: int) -> Rewrite:
    """``m`` runs from ``lo + by`` and stands for ``m - by`` inside."""
    old = find_loop(kernel, loop)
    body = substitute(old.body, {old.var: old.var - idx(by)})
    moved = replace(old, lo=old.lo + idx(by), hi=old.hi + idx(by), body=body)
    return Rewrite(replace_stmt(kernel, old, simplify_bounds(moved, ranges_at(kernel, old))))
