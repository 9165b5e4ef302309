"""Recurrences side by side: several rows at once, each a few steps behind the one before.

An innermost loop in which every iteration waits for the one before leaves most of a processor idle. Rows of
the loop around it, skewed until none waits for another, run in its stead: ``for i: for j`` becomes
``for i_o: for j: unroll i_i``, with ``j`` standing for ``j - 2 * i_i`` in row ``i_i``. The ends of ``j``, where not
all rows have work, are peeled off.
"""

from __future__ import annotations

from weft.auto.draft import Draft
from weft.ir.errors import ScheduleError
from weft.ir.stmt import For
from weft.ir.visit import stores
from weft.poly.check_parallel import check_parallel
from weft.schedules.find import blocks_inside, find_loop, loops_around, ranges_at
from weft.schedules.loop_facts import trip_count
from weft.tensor.cost import count_operations

#: Steps that each row stays behind the one before: the first that makes rows independent is taken.
DELAYS = (1, 2, 3)
#: Operations in flight that keep a processor busy, and the most rows at once.
OPERATIONS, MOST_ROWS = 128, 16


def interleave(draft: Draft, inner: str) -> bool:
    """Rows of the loop around ``inner`` side by side in it, where that is legal and it runs long enough."""
    s = draft.s
    around = loops_around(s.kernel, find_loop(s.kernel, inner))
    outer = around[-1] if around else None
    if outer is None or outer.kind != "serial" or not isinstance(outer.body, For):
        return False
    rows = _rows(draft, inner)
    length = trip_count(outer.body, ranges_at(s.kernel, outer.body))
    most = trip_count(outer, ranges_at(s.kernel, outer))
    if length is None or (most is not None and most < 2 * rows):
        return False
    for delay in DELAYS:
        if length < 4 * delay * rows:
            break
        if draft.attempt(_steps, draft, outer, inner, rows, delay) is None:
            blocks = ", ".join(b.name for b in blocks_inside(find_loop(s.kernel, inner)))
            what = f"{rows} iterations of `{outer.var.name}` at once, each {delay} behind the one before"
            draft.decide("registers", blocks, what, f"iterations of `{inner}` wait for one another, these do not")
            return True
    return False


def _rows(draft: Draft, inner: str) -> int:
    found = stores(find_loop(draft.s.kernel, inner))
    work = max(1, sum(count_operations(store.value, False) for store in found))
    rows = MOST_ROWS
    while rows > 2 and rows * work > OPERATIONS:
        rows //= 2
    return rows


def _steps(draft: Draft, outer: For, inner: str, rows: int, delay: int) -> None:
    s = draft.s
    _, row = s.split(outer.var.name, rows, tail="separate")
    s.skew(inner, row, delay)
    s.reorder(inner, row)
    independent = check_parallel(s.kernel, str(row))
    if not independent.ok:
        raise ScheduleError("rows wait for one another", why=independent.reason)
    s.peel(inner, delay * (rows - 1), end="first")
    s.peel(inner, delay * (rows - 1), end="last")
    s.unroll(row)
