"""``peel``: the first or the last iterations of a loop get a loop of their own: loop peeling."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from weft.ir.expr import Binary, Expr, Var, idx
from weft.ir.nesting import sequence
from weft.ir.simplify import simplify
from weft.ir.stmt import For, Kernel
from weft.ir.visit import fresh_name, substitute
from weft.poly.verdict import Verdict, refuse
from weft.schedules.find import find_loop, ranges_at
from weft.schedules.loop_facts import check_no_barrier, check_number, check_runs_through, first_no
from weft.schedules.rewrite import Rewrite, fresh_copy, remembered, replace_stmt, simplify_bounds, taken_names
from weft.schedules.trace import Numerics

End = Literal["first", "last"]


def check_peel(kernel: Kernel, loop: str, count: int = 1, end: End = "first", *, numerics: Numerics) -> Verdict:
    """Peeling keeps the order of iterations."""
    old = find_loop(kernel, loop)
    if end not in ("first", "last"):
        return refuse(f"end={end!r} is not known", alternatives=('end="first"', 'end="last"'))
    return first_no(
        [check_number("count", count, 1), check_runs_through(old), check_no_barrier(old, "running it in two parts")]
    )


@remembered
def peel(kernel: Kernel, loop: str, count: int = 1, end: End = "first") -> Rewrite:
    """Makes ``m_first`` or ``m_last``; ``m`` itself goes on as the rest."""
    old = find_loop(kernel, loop)
    taken, ranges = taken_names(kernel), ranges_at(kernel, old)
    peeled_var = Var(fresh_name(f"{loop}_{end}", taken), span=old.var.span)
    copied = fresh_copy(substitute(old.body, {old.var: peeled_var}), taken, f"_{end}")
    border = simplify(_border(old, count, end), ranges)
    if end == "first":
        peeled = replace(old, var=peeled_var, hi=border, body=copied)
        both = [peeled, replace(old, lo=border)]
    else:
        peeled = replace(old, var=peeled_var, lo=border, body=copied)
        both = [replace(old, hi=border), peeled]
    return Rewrite(replace_stmt(kernel, old, simplify_bounds(sequence(both), ranges)), (peeled_var.name,))


def _border(old: For, count: int, end: End) -> Expr:
    """Where one part stops and the other starts; within the range, however short that is."""
    if end == "first":
        return Binary("min", old.lo + idx(count), old.hi)
    return Binary("max", old.hi - idx(count), old.lo)
