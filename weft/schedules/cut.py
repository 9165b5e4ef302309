"""``cut``: a loop in two parts, the second from a given value on.

Where one iteration is different from all others (the pivot of an elimination, say), the loop cut before and after it
leaves parts in which all are alike.
"""

from __future__ import annotations

from dataclasses import replace

from weft.ir.expr import Binary, Var
from weft.ir.nesting import sequence
from weft.ir.simplify import simplify
from weft.ir.stmt import Kernel
from weft.ir.visit import fresh_name, substitute
from weft.poly.verdict import Verdict, refuse
from weft.schedules.find import find_loop, ranges_at
from weft.schedules.loop_facts import check_no_barrier, check_runs_through, first_no
from weft.schedules.rewrite import Rewrite, fresh_copy, remembered, replace_stmt, simplify_bounds, taken_names
from weft.schedules.trace import Numerics
from weft.schedules.wrap import loop_value


def check_cut(kernel: Kernel, loop: str, at: int | str, *, numerics: Numerics) -> Verdict:
    """Cutting keeps the order of iterations."""
    old = find_loop(kernel, loop)
    loop_value(kernel, old, at)
    if old.kind in ("block", "thread"):
        return refuse(f"`{loop}` is a {old.kind} loop: all of its iterations start together")
    return first_no([check_runs_through(old), check_no_barrier(old, "running it in two parts")])


@remembered
def cut(kernel: Kernel, loop: str, at: int | str) -> Rewrite:
    """``m`` runs up to, not including, ``at``; the new loop from there to the end."""
    old = find_loop(kernel, loop)
    taken, ranges = taken_names(kernel), ranges_at(kernel, old)
    border = simplify(Binary("min", Binary("max", loop_value(kernel, old, at), old.lo), old.hi), ranges)
    rest = Var(fresh_name(loop, taken), span=old.var.span)
    copied = fresh_copy(substitute(old.body, {old.var: rest}), taken)
    both = sequence([replace(old, hi=border), replace(old, var=rest, lo=border, body=copied)])
    return Rewrite(replace_stmt(kernel, old, simplify_bounds(both, ranges)), (rest.name,))
