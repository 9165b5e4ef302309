"""Reductions across memory: sums of columns. Threads side by side have columns side by side, each a few in 16 bytes.

A block is some threads wide, so that what it reads of a row is long enough, and some deep: each thread reduces every
so many rows in its registers, then the results of a column are reduced through shared memory. Where columns are too few
for all multiprocessors, rows are cut into parts, each with results of its own, and a second nest reduces those.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd, prod

from weft.auto.gpu.draft import THREADS, GpuDraft, lanes_for
from weft.auto.gpu.grid import as_one
from weft.auto.gpu.row_plan import reads_again
from weft.auto.pointwise import contiguous_run
from weft.auto.rows import iterator_along_memory, may_reorder
from weft.auto.stages import Stage, StageIter
from weft.target.cuda.machine import WARP

#: Rows a thread has under way.
AHEAD = 4
#: Blocks for each multiprocessor.
BLOCKS = 4


def fits_columns(draft: GpuDraft, stage: Stage) -> bool:
    if stage.outer or stage.op == "=" or not stage.is_plain or not stage.is_affine or stage.reads_target:
        return False
    along = iterator_along_memory(stage)
    if along is None or along.is_reduction or not may_reorder(draft, stage) or reads_again(stage):
        return False
    if stage.write.stride(along.name) != 1 or any(i.extent is None or not i.exact for i in stage.iters):
        return False
    return prod(i.count for i in stage.reductions) >= 2 * AHEAD * THREADS // WARP


def schedule_columns(draft: GpuDraft, name: str) -> None:
    stage = draft.stage(name)
    along = iterator_along_memory(stage)
    assert along is not None
    run = contiguous_run(stage, along, prod(i.count for i in stage.spatial), stage.spatial)
    lanes = gcd(prod(i.count for i in run), lanes_for([stage]))
    width = min(WARP, prod(i.count for i in run) // lanes)
    depth = THREADS // WARP
    rows = prod(i.count for i in stage.reductions)
    parts = _parts(draft, stage, run, lanes * width, rows, depth)
    target = name
    others, vectors, reduced, lane = _order(draft, stage, run, lanes)
    if parts > 1:
        size = -(-rows // (parts * depth * AHEAD)) * depth * AHEAD
        part, reduced = map(str, draft.s.split(reduced, size))
        draft.s.reorder(part, *others, vectors, reduced, *lane)
        block, _ = draft.s.rfactor(part)
        target, others = str(block), [part, *others]
        why = f"{prod(i.count for i in run)} columns are too few for {draft.machine.sms} multiprocessors"
        draft.decide("parallel", name, f"rows in {parts} parts, reduced in a second nest", why)
    _schedule_block(draft, target, others, vectors, reduced, lane, width, depth)
    draft.scheduled.add(target)
    what = f"{width} threads side by side, {lanes} columns each, {depth} rows at a time"
    draft.decide("parallel", target, what, f"each reads {lanes * stage.reads[0].buffer.dtype.itemsize} bytes of a row")
    if parts > 1:
        _schedule_total(draft, name)


def _parts(draft: GpuDraft, stage: Stage, run: Sequence[StageIter], tile: int, rows: int, depth: int) -> int:
    """Parts of the rows, as many as give every multiprocessor its blocks, each long enough to be worth it."""
    others = prod(i.count for i in stage.spatial if i not in run)
    blocks = others * -(-prod(i.count for i in run) // tile)
    return max(1, min(-(-BLOCKS * draft.machine.sms // blocks), rows // (2 * AHEAD * depth)))


def _order(
    draft: GpuDraft, stage: Stage, run: Sequence[StageIter], lanes: int
) -> tuple[list[str], str, str, list[str]]:
    """Loops over other results, over vectors of columns, over rows; and over the lanes, where there are several."""
    s = draft.s
    others = [stage.loop_of(i.name) for i in stage.spatial if i not in run and i.loop is not None]
    columns = [stage.loop_of(i.name) for i in run]
    rows = [i.loop for i in stage.reductions if i.loop is not None]
    order = [*others, *columns, *rows]
    if order != list(stage.loops):
        s.reorder(*order)
    vectors, lane = as_one(draft, columns), []
    reduced = as_one(draft, rows)
    if lanes > 1:
        vectors, inner = map(str, s.split(vectors, lanes))
        s.reorder(vectors, reduced, inner)
        lane = [inner]
    return others, vectors, reduced, lane


def _schedule_block(
    draft: GpuDraft,
    name: str,
    others: Sequence[str],
    vectors: str,
    reduced: str,
    lane: list[str],
    width: int,
    depth: int,
) -> None:
    s = draft.s
    wide, x = map(str, s.split(vectors, width))
    rounds, y = map(str, s.split(reduced, depth))
    s.reorder(*others, wide, y, x, rounds, *lane)
    block, partial = s.rfactor(y)
    _reduce_in_registers(draft, str(block), str(partial), x, rounds, lane)
    for loop in (y, x):
        s.bind(loop, "thread")
    around = len(others) + 1
    for other in (f"{partial}_init", name):
        _on_threads(draft, other, around, y)
    for loop in (*others, wide):
        s.bind(loop, "block")
    draft.scheduled |= {str(block), f"{partial}_init"}


def _reduce_in_registers(draft: GpuDraft, name: str, partial: str, x: str, rounds: str, lane: list[str]) -> None:
    """Each thread has its sums in registers until its rows are done."""
    s = draft.s
    store, _ = s.cache_write(partial, "register", at=x)
    outer, inner = map(str, s.split(rounds, AHEAD))
    s.unroll(inner)
    for loop in lane:
        s.vectorize(loop)
    draft.scheduled.add(str(store))


def _on_threads(draft: GpuDraft, name: str, around: int, deep: str) -> None:
    """The loops of ``name`` over columns on the threads of a block."""
    s = draft.s
    stage = draft.stage(name)
    own = [str(x) for x in s.loops(name)][around:]
    reduced = {i.loop for i in stage.reductions}
    for loop in own:
        if loop not in reduced:
            s.bind(loop, "thread")


def _schedule_total(draft: GpuDraft, name: str) -> None:
    from weft.auto.gpu.points import schedule_points

    schedule_points(draft, name)
