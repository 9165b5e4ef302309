"""``widen``: a loop whose range depends on another one runs as far as it ever does, and a test leaves out the rest.

::

    for s in 0:32                    for s in 0:32
      for t in 0:s + 1         =>      for t in 0:32
        ...                              if t < s + 1
                                           ...

The two loops then are a rectangle, which can be tiled and reordered like any other.
"""

from __future__ import annotations

from dataclasses import replace

from weft.ir.expr import Compare, Const, Expr, idx
from weft.ir.simplify import simplify
from weft.ir.stmt import For, If, Kernel
from weft.ir.visit import free_vars
from weft.poly.infer_spans import extremes
from weft.poly.verdict import OK, Verdict, refuse
from weft.schedules.find import find_loop, loops_around, ranges_at
from weft.schedules.loop_facts import check_no_barrier, check_runs_through, first_no, is_true
from weft.schedules.rewrite import Rewrite, replace_stmt
from weft.schedules.trace import Numerics


def check_widen(kernel: Kernel, loop: str, outer: str, *, numerics: Numerics) -> Verdict:
    """The range must follow from that of ``outer``; what runs stays the same."""
    inner, around = find_loop(kernel, loop), find_loop(kernel, outer)
    if not any(f is around for f in loops_around(kernel, inner)):
        return refuse(f"`{outer}` is not around `{loop}`")
    if outer not in {*free_vars(inner.lo), *free_vars(inner.hi)}:
        return refuse(f"the range of `{loop}` does not depend on `{outer}`")
    if infer_whole(inner, around) is None:
        return refuse(f"how far `{loop}` runs at most is not known")
    return first_no([check_runs_through(inner), check_no_barrier(inner, "widening it"), OK])


def widen(kernel: Kernel, loop: str, outer: str) -> Rewrite:
    """``loop`` over its widest range, its body under a test."""
    inner, around = find_loop(kernel, loop), find_loop(kernel, outer)
    whole = infer_whole(inner, around)
    assert whole is not None, "the check answers this first"
    ranges = ranges_at(kernel, inner)
    lo, hi = (simplify(e, {n: r for n, r in ranges.items() if n != outer}) for e in whole)
    body = inner.body
    tests = [Compare("<", inner.var, inner.hi)] * (hi != inner.hi) + [Compare("<=", inner.lo, inner.var)] * (
        lo != inner.lo
    )
    for test in tests:
        if not is_true(simplify(test, ranges)):
            body = If(test, body, span=inner.span)
    return Rewrite(replace_stmt(kernel, inner, replace(inner, lo=lo, hi=hi, body=body)))


def infer_whole(inner: For, around: For) -> tuple[Expr, Expr] | None:
    """Where ``inner`` starts and ends over all iterations of ``around``; None where that is not known."""
    if isinstance(around.hi, Const) and isinstance(around.lo, Const) and around.hi.value <= around.lo.value:
        return None
    limits = {around.var.name: (around.lo, around.hi - idx(1))}
    low, high = extremes(inner.lo, limits), extremes(inner.hi, limits)
    if low is None or high is None:
        return None
    ends = (low[0], high[1])
    return None if any(around.var.name in free_vars(e) for e in ends) else ends
