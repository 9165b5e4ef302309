"""``tile``: two nested loops split and reordered, so that the inner pair walks through one tile."""

from __future__ import annotations

from weft.ir.stmt import Kernel
from weft.poly.verdict import Verdict
from weft.schedules.reorder import check_reorder, reorder
from weft.schedules.rewrite import Rewrite
from weft.schedules.split import Tail, check_split, split
from weft.schedules.trace import Numerics


def check_tile(
    kernel: Kernel, i: str, j: str, rows: int, columns: int, tail: Tail = "guard", *, numerics: Numerics
) -> Verdict:
    verdict = check_split(kernel, i, rows, tail, numerics=numerics)
    if not verdict.ok:
        return verdict
    first = split(kernel, i, rows, tail)
    verdict = check_split(first.kernel, j, columns, tail, numerics=numerics)
    if not verdict.ok:
        return verdict
    second = split(first.kernel, j, columns, tail)
    return check_reorder(second.kernel, *_order(first, second), numerics=numerics)


def tile(kernel: Kernel, i: str, j: str, rows: int, columns: int, tail: Tail = "guard") -> Rewrite:
    """Makes ``i_o, j_o, i_i, j_i``, in that order from outside in."""
    first = split(kernel, i, rows, tail)
    second = split(first.kernel, j, columns, tail)
    order = _order(first, second)
    done = reorder(second.kernel, *order)
    return Rewrite(done.kernel, order, {**first.fates, **second.fates})


def _order(first: Rewrite, second: Rewrite) -> tuple[str, str, str, str]:
    return first.made[0], second.made[0], first.made[1], second.made[1]
