"""``tile``: two nested loops split and reordered, so that the inner pair walks through one tile (blocking)."""

from __future__ import annotations

from weft.ir.stmt import Kernel
from weft.poly.verdict import Verdict, refuse
from weft.schedules.loop_facts import first_no
from weft.schedules.reorder import check_reorder, reorder
from weft.schedules.rewrite import Rewrite, primitive
from weft.schedules.split import Tail, check_split, split
from weft.schedules.trace import Numerics


def check_tile(
    kernel: Kernel, i: str, j: str, rows: int, columns: int, tail: Tail = "guard", *, numerics: Numerics
) -> Verdict:
    if i == j:
        return refuse("these are one loop")
    verdict = first_no([check_split(kernel, loop, n, tail, numerics=numerics) for loop, n in ((i, rows), (j, columns))])
    if not verdict.ok:
        return verdict
    nested = check_reorder(kernel, i, j, numerics=numerics)
    if not nested.ok:
        return nested
    first = split(kernel, i, rows, tail)
    if tail == "separate":
        out = check_reorder(first.kernel, j, first.made[1], numerics=numerics)
        if not out.ok:
            return out
        second = split(reorder(first.kernel, j, first.made[1]).kernel, j, columns, tail)
        return check_reorder(second.kernel, *_order(first, second)[2:], numerics=numerics)
    second = split(first.kernel, j, columns, tail)
    return check_reorder(second.kernel, *_order(first, second), numerics=numerics)


@primitive(check_tile, "cannot tile loops `{0}` and `{1}`")
def tile(kernel: Kernel, i: str, j: str, rows: int, columns: int, tail: Tail = "guard") -> Rewrite:
    """Makes ``i_o, j_o, i_i, j_i``, in that order from outside in."""
    first = split(kernel, i, rows, tail)
    inside = first.kernel
    if tail == "separate":
        # The two parts of j would stand between the loops, so j goes out first.
        inside = reorder(inside, j, first.made[1]).kernel
    second = split(inside, j, columns, tail)
    order = _order(first, second)
    done = reorder(second.kernel, *(order[2:] if tail == "separate" else order))
    return Rewrite(done.kernel, order, {**first.fates, **second.fates})


def _order(first: Rewrite, second: Rewrite) -> tuple[str, str, str, str]:
    return first.made[0], second.made[0], first.made[1], second.made[1]
