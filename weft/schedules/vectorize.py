"""``vectorize``: the iterations of a loop become lanes of vector instructions."""

from __future__ import annotations

from weft.ir.stmt import Kernel
from weft.poly.verdict import Verdict, refuse
from weft.schedules.find import find_loop, ranges_at
from weft.schedules.loop_facts import check_number, trip_count
from weft.schedules.rewrite import Rewrite, remembered
from weft.schedules.set_kind import check_set_kind, set_kind
from weft.schedules.split import Tail, check_split, split
from weft.schedules.trace import Numerics


def check_vectorize(
    kernel: Kernel, loop: str, lanes: int | None = None, tail: Tail = "guard", *, numerics: Numerics
) -> Verdict:
    """Iterations must be independent; asked of the whole loop, so that the answer speaks of the user's loop."""
    find_loop(kernel, loop)
    if lanes is not None:
        number = check_number("number of lanes", lanes, 1)
        if not number.ok:
            return number
    verdict = check_set_kind(kernel, loop, "vector", numerics=numerics)
    if not verdict.ok or lanes is None:
        return verdict
    if tail == "clip":
        return refuse("a tile that is cut short does not fill a vector")
    return check_split(kernel, loop, lanes, tail, numerics=numerics)


@remembered
def vectorize(kernel: Kernel, loop: str, lanes: int | None = None, tail: Tail = "guard") -> Rewrite:
    """Without ``lanes`` the target chooses them; with, the loop is split unless it has just so many iterations."""
    old = find_loop(kernel, loop)
    if lanes is None or trip_count(old, ranges_at(kernel, old)) == lanes:
        return set_kind(kernel, loop, "vector")
    halves = split(kernel, loop, lanes, tail)
    return Rewrite(set_kind(halves.kernel, halves.made[1], "vector").kernel, halves.made, halves.fates)
