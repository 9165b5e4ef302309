"""``unroll``: a loop written out, all of it or ``factor`` iterations at a time."""

from __future__ import annotations

from weft.ir.printer import print_expr
from weft.ir.stmt import Kernel
from weft.poly.verdict import Verdict, refuse
from weft.schedules.find import find_loop, ranges_at
from weft.schedules.loop_facts import extent, trip_count
from weft.schedules.rewrite import Rewrite, remembered
from weft.schedules.set_kind import check_set_kind, set_kind
from weft.schedules.split import Tail, check_split, split
from weft.schedules.trace import Numerics


def check_unroll(
    kernel: Kernel, loop: str, factor: int | None = None, tail: Tail = "guard", *, numerics: Numerics
) -> Verdict:
    old = find_loop(kernel, loop)
    if factor is None:
        ranges = ranges_at(kernel, old)
        if trip_count(old, ranges) is None:
            runs = print_expr(extent(old, ranges))
            return refuse(f"`{loop}` runs {runs} times, not a known number", alternatives=(f's.unroll("{loop}", 4)',))
        return check_set_kind(kernel, loop, "unroll", numerics=numerics)
    verdict = check_split(kernel, loop, factor, tail, numerics=numerics)
    if tail == "clip":
        verdict = refuse("a tile that is cut short cannot be written out")
    if not verdict.ok:
        return verdict
    halves = split(kernel, loop, factor, tail)
    return check_set_kind(halves.kernel, halves.made[1], "unroll", numerics=numerics)


@remembered
def unroll(kernel: Kernel, loop: str, factor: int | None = None, tail: Tail = "guard") -> Rewrite:
    """With a factor, makes the loops a split makes; the inner one is unrolled."""
    if factor is None:
        return set_kind(kernel, loop, "unroll")
    halves = split(kernel, loop, factor, tail)
    return Rewrite(set_kind(halves.kernel, halves.made[1], "unroll").kernel, halves.made, halves.fates)
