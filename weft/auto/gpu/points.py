"""A thread for a few neighbouring results: formulas, stencils, pools, lookups, and any reduction that is short.

Threads next to one another work on results next to one another in memory, and each on as many as one access of 16
bytes takes. Reductions run inside the thread, their results in registers.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd, prod

from weft.auto.gpu.draft import GpuDraft, lanes_for
from weft.auto.gpu.grid import Spread, as_one, choose_shape, spread
from weft.auto.pointwise import contiguous_run, vector_iterator
from weft.auto.stages import Stage, StageIter
from weft.ir.errors import ScheduleError

#: Steps of reductions that are written out, at most.
WRITTEN_OUT = 16


def schedule_points(draft: GpuDraft, name: str) -> None:
    stage = draft.stage(name)
    if stage.outer or not stage.is_plain or not stage.loops:
        raise ScheduleError("its loops are not those of its iterators")
    run = _along_memory(stage)
    lanes = _lanes(stage, run)
    points = [i for i in stage.spatial if i.loop is not None]
    if not points:
        raise ScheduleError("it has one result")
    reduced = [i.loop for i in stage.reductions if i.loop is not None]
    loop, lane = _one_loop(draft, stage, points, run, lanes)
    inner = [*reduced, *([lane] if lane else [])]
    count = None if any(i.extent is None for i in points) else prod(i.count for i in points) // lanes
    shape = choose_shape(draft, count, _read_bytes(stage) * lanes)
    made = spread(draft, loop, shape, inner)
    _finish(draft, stage, made, reduced, lane)
    _tell(draft, stage, shape.threads, shape.each, lanes, run)


def _along_memory(stage: Stage) -> list[StageIter]:
    """The iterators whose run becomes accesses of 16 bytes."""
    along = vector_iterator(stage)
    if along is None or stage.write.stride(along.name) != 1:
        return []
    return contiguous_run(stage, along, prod(i.count for i in stage.iters))


def _lanes(stage: Stage, run: Sequence[StageIter]) -> int:
    """Results a thread has side by side: what 16 bytes hold, or as much of it as divides their number."""
    if not run or any(i.extent is None or not i.exact for i in run) or stage.write.guarded:
        return 1
    if any(a.stride(run[-1].name) not in (0, 1, None) for a in stage.reads):
        return 1
    return gcd(prod(i.count for i in run), lanes_for([stage]))


def _read_bytes(stage: Stage) -> int:
    """Bytes a point reads of what its neighbours do not read too."""
    names = [i.name for i in stage.spatial]
    return sum(a.buffer.dtype.itemsize for a in stage.reads if all(map(a.uses, names))) or 4


def _one_loop(
    draft: GpuDraft, stage: Stage, points: list[StageIter], run: Sequence[StageIter], lanes: int
) -> tuple[str, str | None]:
    """One loop over all results in the order they lie in memory, and inside it one over the lanes of a thread."""
    s = draft.s
    reduced = [i.loop for i in stage.reductions if i.loop is not None]
    last = [stage.loop_of(i.name) for i in run]
    strides = {i.loop: stage.write.stride(i.name) or 0 for i in points}
    rest = sorted((stage.loop_of(i.name) for i in points if i not in run), key=lambda x: -strides[x])
    order = [*rest, *last, *reduced]
    if order != list(stage.loops):
        s.reorder(*order)
    if lanes == 1:
        return as_one(draft, [*rest, *last]), None
    vectors, lane = map(str, s.split(as_one(draft, last), lanes))
    if reduced:
        s.reorder(*reduced, lane)
    return as_one(draft, [*rest, vectors]), lane


def _finish(draft: GpuDraft, stage: Stage, made: Spread, reduced: Sequence[str], lane: str | None) -> None:
    s = draft.s
    if lane is not None:
        s.vectorize(lane)
    if not reduced:
        return
    at = made.each or made.thread
    store, _ = s.cache_write(stage.write.buffer.name, "register", at=at)
    if lane is not None and len(own := s.loops(store)) > 0:
        innermost = str(own[-1])
        if innermost not in (made.block, made.thread, made.each):
            draft.attempt(lambda: _vectorize(draft, innermost))
    short = [x for x in reduced if (stage_extent(draft, stage, x) or WRITTEN_OUT + 1) <= WRITTEN_OUT]
    if short and prod(stage_extent(draft, stage, x) or 1 for x in short) <= WRITTEN_OUT:
        for x in short:
            s.unroll(x)


def _vectorize(draft: GpuDraft, loop: str) -> None:
    draft.s.vectorize(loop)


def stage_extent(draft: GpuDraft, stage: Stage, loop: str) -> int | None:
    return next((i.extent for i in stage.iters if i.loop == loop), None)


def _tell(draft: GpuDraft, stage: Stage, threads: int, each: int, lanes: int, run: Sequence[StageIter]) -> None:
    size = stage.write.buffer.dtype.itemsize * lanes
    if lanes > 1:
        names = " and ".join(f"`{i.name}`" for i in run)
        draft.decide("vector", stage.name, f"{lanes} results a thread along {names}", f"one access of {size} bytes")
    what = f"blocks of {threads} threads" + (f", {each} accesses under way each" if each > 1 else "")
    draft.decide("parallel", stage.name, what, f"{draft.bytes_in_flight >> 10} KiB under way keep memory busy")
