"""``cut`` and ``peel``: a loop in two parts, one after the other.

``cut``: the second from a given value on. Where one iteration is different from all others (the pivot of an
elimination, say), the loop cut before and after it leaves parts in which all are alike.

``peel``: the first or the last iterations get a loop of their own: loop peeling.
"""

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
from weft.schedules.rewrite import Rewrite, fresh_copy, primitive, replace_loop, taken_names
from weft.schedules.trace import Numerics
from weft.schedules.wrap import loop_value

End = Literal["first", "last"]


def check_cut(kernel: Kernel, loop: str, at: int | str, *, numerics: Numerics) -> Verdict:
    """Cutting keeps the order of iterations."""
    old = find_loop(kernel, loop)
    loop_value(kernel, old, at)
    if old.kind in ("block", "thread"):
        return refuse(f"`{loop}` is a {old.kind} loop: all of its iterations start together")
    return first_no([check_runs_through(old), check_no_barrier(old, "running it in two parts")])


@primitive(check_cut, "cannot cut loop `{0}` at {1}")
def cut(kernel: Kernel, loop: str, at: int | str) -> Rewrite:
    """``m`` runs up to, not including, ``at``; the new loop from there to the end."""
    old = find_loop(kernel, loop)
    border = Binary("min", Binary("max", loop_value(kernel, old, at), old.lo), old.hi)
    return _in_two(kernel, old, border, "last", "")


def check_peel(kernel: Kernel, loop: str, count: int = 1, end: End = "first", *, numerics: Numerics) -> Verdict:
    """Peeling keeps the order of iterations."""
    old = find_loop(kernel, loop)
    if end not in ("first", "last"):
        return refuse(f"end={end!r} is not known", alternatives=('end="first"', 'end="last"'))
    return first_no(
        [check_number("count", count, 1), check_runs_through(old), check_no_barrier(old, "running it in two parts")]
    )


@primitive(check_peel, "cannot peel loop `{0}`")
def peel(kernel: Kernel, loop: str, count: int = 1, end: End = "first") -> Rewrite:
    """Makes ``m_first`` or ``m_last``; ``m`` itself goes on as the rest."""
    old = find_loop(kernel, loop)
    # Within the range, however short that is.
    first, last = Binary("min", old.lo + idx(count), old.hi), Binary("max", old.hi - idx(count), old.lo)
    return _in_two(kernel, old, first if end == "first" else last, end, f"_{end}")


def _in_two(kernel: Kernel, old: For, border: Expr, end: End, suffix: str) -> Rewrite:
    """``old`` up to ``border`` and from there on; the part at its ``end`` is a new loop, called with ``suffix``."""
    taken, border = taken_names(kernel), simplify(border, ranges_at(kernel, old))
    var = Var(fresh_name(old.var.name + suffix, taken), span=old.var.span)
    new = replace(old, var=var, body=fresh_copy(substitute(old.body, {old.var: var}), taken, suffix))
    before, behind = (new, old) if end == "first" else (old, new)
    both = sequence([replace(before, hi=border), replace(behind, lo=border)])
    return Rewrite(replace_loop(kernel, old, both), (var.name,))
