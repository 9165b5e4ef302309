"""The loops of a row on threads: neighbouring threads have neighbouring pieces of it.

A row of 4096 elements on 256 threads in pieces of 8: ``thread t { unroll c in 0:2 { vector v in 0:8 { ... } } }`` at
``c * 2048 + t * 8 + v``. Every stage takes the row apart in the same way, so that what one thread computes is what it
needs later, and stays in its registers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from weft.auto.gpu.draft import GpuDraft
from weft.auto.gpu.grid import as_one, split_lanes
from weft.auto.gpu.row_plan import AHEAD, WRITTEN_OUT, RowPlan


@dataclass(frozen=True, slots=True)
class RowLoops:
    """The loops of one block: over ``rows`` (where a block has several), ``threads``, ``pieces``, ``lanes``."""

    rows: tuple[str, ...]
    threads: str
    pieces: str
    lanes: tuple[str, ...]


def cut_row(draft: GpuDraft, rows: str | None, loops: Sequence[str], plan: RowPlan) -> RowLoops:
    """``loops`` over a row, one in the other, taken apart as ``plan`` says; threads outermost."""
    outer, lanes = split_lanes(draft, loops[-1], plan.lanes)
    pieces, threads = map(str, draft.s.split(as_one(draft, [*loops[:-1], outer]), plan.threads))
    made = RowLoops((rows,) if rows else (), threads, pieces, lanes)
    draft.s.reorder(threads, *made.rows, pieces, *lanes)
    return made


def map_row(draft: GpuDraft, made: RowLoops, plan: RowPlan) -> None:
    """Each thread computes its own elements."""
    s = draft.s
    _bind(draft, made)
    for loop in made.lanes:
        s.vectorize(loop)
    _write_out(draft, made, plan)


def reduce_row(draft: GpuDraft, name: str, made: RowLoops, plan: RowPlan, fetched: Sequence[str] = ()) -> None:
    """Each thread reduces its own elements, then the results of all threads are reduced to one.

    Of buffers ``fetched`` it gets one piece after the other, each in one access.
    """
    s = draft.s
    around = len(s.loops(name)) - len((*made.rows, made.threads, made.pieces, *made.lanes))
    axis = len(made.rows)
    block, partial = s.rfactor(made.threads, axis=axis)
    _bind(draft, made)
    for loop in made.lanes:
        s.unroll(loop)
        for buffer in fetched:
            draft.attempt(_fetch_piece, draft, buffer, str(block), made, plan.lanes)
    _write_out(draft, made, plan)
    start = f"{partial}_init"
    _bind_all(draft, start, axis, [str(x) for x in s.loops(start)][around:])
    if made.rows:
        s.bind([str(x) for x in s.loops(name)][around], "thread")
    draft.scheduled |= {str(block), start}


def _bind_all(draft: GpuDraft, name: str, axis: int, loops: list[str]) -> None:
    """``loops`` that start partial results on threads, those of the threads innermost."""
    stage = draft.stage(name)
    dimension = {i.loop: stage.write.subscript_of(i.name) for i in stage.iters}
    order = sorted(loops, key=lambda x: dimension.get(x) == axis)
    if order != loops:
        draft.s.reorder(*order)
    for loop in order:
        draft.s.bind(loop, "thread")


def _bind(draft: GpuDraft, made: RowLoops) -> None:
    for loop in made.rows:
        draft.s.reorder(loop, made.threads)
        draft.s.bind(loop, "thread")
    draft.s.bind(made.threads, "thread")


def _fetch_piece(draft: GpuDraft, buffer: str, reader: str, made: RowLoops, lanes: int) -> None:
    block, storage = draft.s.cache_read(buffer, at=made.pieces, scope="register", readers=[reader])
    draft.check_size(str(storage), lanes)
    draft.s.vectorize(draft.s.loops(block)[-1])
    draft.scheduled.add(str(block))


def _write_out(draft: GpuDraft, made: RowLoops, plan: RowPlan) -> None:
    """Pieces of a row that is kept are written out; of others, a few at a time, so that all are under way at once."""
    if plan.keeps_rows and plan.pieces <= WRITTEN_OUT:
        draft.s.unroll(made.pieces)
    elif plan.pieces > AHEAD:
        draft.s.unroll(draft.s.split(made.pieces, AHEAD)[1])
