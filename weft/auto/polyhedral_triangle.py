"""Sums over all rows before: substitution in a triangle, a block of rows at a time.

``for i: { for j in 0:i: x[i] -= L[i, j] * x[j];  x[i] /= L[i, i] }`` waits for the row before. But what a block of rows
takes from rows before the block is a matrix times a vector: ``j`` is cut where the block starts, the first part of all
its rows runs at once, rows in lanes, squares of the matrix transposed in registers (as in `dots`), and only the small
triangle on the diagonal runs row by row.
"""

from __future__ import annotations

from collections.abc import Sequence

from weft.auto.draft import Draft
from weft.auto.polyhedral_facts import read_facts
from weft.ir.affine import linear_form
from weft.ir.errors import ScheduleError
from weft.ir.expr import Const, Var
from weft.ir.stmt import For
from weft.schedules.find import blocks_inside, find_block, find_loop, loops_around, ranges_at
from weft.schedules.fission import body_parts
from weft.schedules.loop_facts import trip_count

#: Rows at a time, at least: two vectors where lanes are few.
ROWS = 16


def block_triangle(draft: Draft, blocks: Sequence[str], level: int) -> None:
    """The nest of ``blocks`` a block of rows at a time; refused where it is no such triangle."""
    s = draft.s
    found = next((b for b in blocks if _is_triangle(draft, b, blocks, level)), None)
    if found is None:
        raise ScheduleError("no sum over all rows before")
    outer, inner = loops_around(s.kernel, found)[level:]
    rows = max(ROWS, draft.machine.lanes(_bits(draft, found)))
    before = {b.name for b in blocks_inside(s.kernel)} - set(blocks)
    tile, row = map(str, s.split(outer.var.name, rows, tail="separate"))
    start = outer.lo.value if isinstance(outer.lo, Const) else 0
    s.cut(inner.var.name, f"{rows}*{tile} + {start}")
    row = _isolate(draft, row, found)
    s.reorder(inner.var.name, row)
    _, column = s.split(inner.var.name, rows, tail="separate")
    s.vectorize(row)
    s.unroll(column)
    draft.scheduled.update(b.name for b in blocks_inside(s.kernel) if b.name not in before)
    what = f"{rows} rows of `{outer.var.name}` at once in all but the diagonal"
    draft.decide("vector", found, what, "what they take from rows before is final by then")


def _isolate(draft: Draft, row: str, block: str) -> str:
    """The loop ``row`` around ``block`` alone; the others get loops of their own before and behind it."""
    s = draft.s
    parts = body_parts(find_loop(s.kernel, row).body) or ()
    names = [[b.name for b in blocks_inside(p)] for p in parts]
    place = next(n for n, found in enumerate(names) if block in found)
    if place:
        row = str(s.fission(row, names[place - 1][-1]))
    if place < len(parts) - 1:
        s.fission(row, block)
    return row


def _bits(draft: Draft, block: str) -> int:
    return find_block(draft.s.kernel, block).writes[0].buffer.dtype.bits


def _is_triangle(draft: Draft, block: str, blocks: Sequence[str], level: int) -> bool:
    """Whether ``block`` sums along memory, up to the row that a loop around all ``blocks`` is at."""
    kernel = draft.s.kernel
    nest = loops_around(kernel, block)[level:]
    if len(nest) != 2 or not isinstance(nest[0].lo, Const) or not _is_up_to(nest[1], nest[0].var):
        return False
    outer, inner = (f.var.name for f in nest)
    if any(outer not in [f.var.name for f in loops_around(kernel, b)] for b in blocks):
        return False
    length = trip_count(nest[0], ranges_at(kernel, nest[0]))
    accesses = read_facts(kernel).accesses[block]
    sums = all(not any(f.get(inner) for f in a.subscripts) for a in accesses if a.writes)
    along = any(a.step(inner) == 1 and any(f.get(outer) for f in a.subscripts[:-1]) for a in accesses)
    return sums and along and length is not None and length >= 4 * ROWS


def _is_up_to(loop: For, row: Var) -> bool:
    return isinstance(loop.lo, Const) and linear_form(loop.hi).terms == {row: 1}
