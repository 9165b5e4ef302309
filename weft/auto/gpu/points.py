"""A thread for a few neighbouring results: formulas, stencils, pools, lookups, and any reduction that is short.

Threads next to one another work on results next to one another in memory, and each on as many as one access of 16
bytes takes. Reductions run inside the thread, their results in registers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import gcd, prod

from weft.auto.align import counterparts
from weft.auto.gpu.draft import GpuDraft, lanes_for
from weft.auto.gpu.epilogue import epilogue_of
from weft.auto.gpu.grid import Shape, Spread, as_one, possible_shapes, spread
from weft.auto.gpu.streams import Grid, stream_of, streams_seconds
from weft.auto.pointwise import contiguous_run, vector_iterator
from weft.auto.stages import Stage, StageIter
from weft.auto.strategy import Strategy
from weft.target.cuda.rates import rates_of

#: Steps of reductions that are written out, at most.
WRITTEN_OUT = 16
#: Accesses of 16 bytes from which on it does not matter that the last one is not full.
LONG = 32


@dataclass(frozen=True, slots=True)
class PointsPlan:
    """Blocks of ``shape``, ``lanes`` neighbouring results at a time; ``joined`` with what is done with each result."""

    shape: Shape
    lanes: int
    joined: bool = False

    @property
    def way(self) -> str:
        return "with what is done with each result" if self.joined else "alone"


def points_plans(draft: GpuDraft, stage: Stage) -> list[PointsPlan]:
    """With what reads the results joined, or alone; lanes, threads and vectors of a thread as the machine has them."""
    if stage.is_inside or not stage.is_plain or not any(i.loop is not None for i in stage.spatial):
        return []
    if stage.op == "=" and any(i.loop is not None for i in stage.reductions):
        return []  # iterators that share a subscript of the result: all of them may run at once
    reader = epilogue_of(draft, stage) if stage.reductions else None
    joined = [] if reader is None else _plans(draft, stage, reader, _joined_lanes(draft, stage, reader), True)
    return [*joined, *_plans(draft, stage, stage, _lanes(stage, _along_memory(stage)), False)]


def _plans(draft: GpuDraft, stage: Stage, over: Stage, most: int, joined: bool) -> list[PointsPlan]:
    points = [i for i in over.spatial if i.loop is not None]
    found = []
    for lanes in (n for n in (most, most // 2) if n):
        shapes = possible_shapes(draft, _count(points, lanes), _read_bytes(stage) * lanes)
        found += [PointsPlan(shape, lanes, joined) for shape in shapes if shape.each == 1 or not joined]
    return found


def apply_points(draft: GpuDraft, name: str, plan: PointsPlan) -> None:
    stage = draft.stage(name)
    if plan.joined:
        _schedule_with(draft, stage, plan)
        return
    points = [i for i in stage.spatial if i.loop is not None]
    run = _along_memory(stage)
    reduced = [i.loop for i in stage.reductions if i.loop is not None]
    loops, lane = _loops_in_order(draft, stage, points, run, plan.lanes)
    inner = [*reduced, *([lane] if lane else [])]
    made = spread(draft, as_one(draft, loops), plan.shape, inner)
    _finish(draft, stage, made, reduced, lane)
    _tell(draft, stage, plan, run)


def _count(points: Sequence[StageIter], lanes: int) -> int | None:
    """Vectors of results."""
    return None if any(i.extent is None for i in points) else -(-prod(i.count for i in points) // lanes)


def _joined_lanes(draft: GpuDraft, stage: Stage, reader: Stage) -> int:
    run = _along_memory(reader)[-1:]
    theirs = counterparts(stage, reader) if run else {}
    own = [i for i in stage.spatial if theirs.get(i.name) in [r.name for r in run]]
    return min(_lanes(reader, run), _lanes(stage, own))


def _schedule_with(draft: GpuDraft, stage: Stage, plan: PointsPlan) -> None:
    """Reductions and, in the same thread, what is done with their results."""
    s, reader = draft.s, epilogue_of(draft, stage)
    assert reader is not None
    run = _along_memory(reader)[-1:]
    points = [i for i in reader.spatial if i.loop is not None]
    loops, lane = _loops_in_order(draft, reader, points, run, plan.lanes)
    s.compute_at(stage.name, loops[-1])
    reduced = [x for i in stage.reductions if (x := draft.stage(stage.name).by_name[i.name].loop) is not None]
    own = [str(x) for x in s.loops(stage.name)][len(loops) :]
    spatial = [x for x in own if x not in reduced]
    if lane is not None:
        s.vectorize(lane)
        s.reorder(*spatial[:-1], *reduced, spatial[-1])
        s.vectorize(spatial[-1])
    _write_out(draft, stage, reduced)
    spread(draft, as_one(draft, loops), plan.shape)
    draft.scheduled |= {stage.name, reader.name}
    _tell(draft, stage, plan, run)
    draft.decide("fusion", reader.name, f"computed with each result of `{stage.name}`", "it need not be stored")


def _along_memory(stage: Stage) -> list[StageIter]:
    """The iterators whose run becomes accesses of 16 bytes: where rows do not come out even, what is read along with
    the results may decide alone, and all of it is one run; what fewer iterators subscript is then read as it comes."""
    along = vector_iterator(stage)
    if along is None or stage.write.stride(along.name) != 1:
        return []
    run = contiguous_run(stage, along, stage.points)
    if stage.reductions:  # their results are in registers, which lanes of two rows would need far too many of
        return run if _lanes(stage, run) == _lanes(stage, run[-1:]) else run[-1:]
    if _lanes(stage, run) >= _most_lanes(stage, run):
        return run
    names = [i.name for i in stage.spatial]
    main = replace(stage, reads=tuple(a for a in stage.reads if all(map(a.uses, names))))
    longer = contiguous_run(main, along, stage.points)
    return longer if len(longer) == len([i for i in stage.spatial if i.extent != 1]) else run


def _lanes(stage: Stage, run: Sequence[StageIter]) -> int:
    """Results a thread has side by side: what 16 bytes hold, or as much of it as divides their number.

    Of one long run through everything, that all but the last thread have.
    """
    if not run or any(i.extent is None or not i.exact for i in run) or stage.write.guarded:
        return 1
    most, count = _most_lanes(stage, run), prod(i.count for i in run)
    whole = not stage.reductions and count == prod(i.count for i in stage.spatial) >= LONG * most
    return most if whole else gcd(count, most)


def _most_lanes(stage: Stage, run: Sequence[StageIter]) -> int:
    steps = [(a, a.stride(run[-1].name)) for a in (stage.reads if stage.reductions else stage.accesses)]
    if any(step not in (0, 1, None) for _, step in steps):
        return _across_planes(stage, run)
    return lanes_for([a for a, step in steps if step != 0] or [stage.write])


def _across_planes(stage: Stage, run: Sequence[StageIter]) -> int:
    """Results side by side that are read from as many places, each next to those of the neighbouring thread's: all of
    a short axis, such as the channels of a pixel."""
    short, others = run[-1], [i for i in stage.spatial if i not in run and i.count > 1]
    near = min(others, key=lambda i: stage.write.stride(i.name) or 0, default=None)
    lanes = lanes_for([stage.write])
    beside = near is not None and all(a.stride(near.name) in (0, 1) for a in stage.reads)
    return gcd(lanes, short.count) if beside and not stage.reductions and short.count <= lanes else 1


def _read_bytes(stage: Stage) -> int:
    """Bytes a point reads of what its neighbours do not read too."""
    names = [i.name for i in stage.spatial]
    return sum(a.buffer.dtype.itemsize for a in stage.distinct_reads if all(map(a.uses, names))) or 4


def _loops_in_order(
    draft: GpuDraft, stage: Stage, points: list[StageIter], run: Sequence[StageIter], lanes: int
) -> tuple[list[str], str | None]:
    """Loops over all results in the order they lie in memory, reductions inside, then the lanes of a thread."""
    s = draft.s
    reduced = [i.loop for i in stage.reductions if i.loop is not None]
    last = [stage.loop_of(i.name) for i in run]
    strides = {i.loop: stage.write.stride(i.name) or 0 for i in points}
    rest = sorted((stage.loop_of(i.name) for i in points if i not in run), key=lambda x: -strides[x])
    order = [*rest, *last, *reduced]
    if order != list(stage.loops):
        s.reorder(*order)
    if lanes == 1:
        return [*rest, *last], None
    vectors, lane = map(str, s.split(as_one(draft, last), lanes))
    if reduced:
        s.reorder(*reduced, lane)
    return [*rest, vectors], lane


def _finish(draft: GpuDraft, stage: Stage, made: Spread, reduced: Sequence[str], lane: str | None) -> None:
    s = draft.s
    if lane is not None:
        s.vectorize(lane)
    if not reduced:
        return
    at = made.each or made.thread
    store, storage = s.cache_write(stage.write.buffer.name, "register", at=at)
    draft.check_registers(str(storage))
    inside = [str(x) for x in s.loops(store)]
    if lane is not None and inside[-1] not in (made.block, made.thread, made.each):
        draft.attempt(s.vectorize, inside[-1])
    _write_out(draft, stage, reduced)


def _write_out(draft: GpuDraft, stage: Stage, reduced: Sequence[str]) -> None:
    """Short reductions are written out."""
    counts = [i.extent for i in stage.reductions if i.loop is not None]
    if reduced and None not in counts and prod(n or 1 for n in counts) <= WRITTEN_OUT:
        for loop in reduced:
            draft.s.unroll(loop)


def _tell(draft: GpuDraft, stage: Stage, plan: PointsPlan, run: Sequence[StageIter]) -> None:
    shape, lanes = plan.shape, plan.lanes
    size = stage.write.buffer.dtype.itemsize * lanes
    if lanes > 1:
        names = " and ".join(f"`{i.name}`" for i in run)
        draft.decide("vector", stage.name, f"{lanes} results a thread along {names}", f"{size} bytes side by side")
    what = f"blocks of {shape.threads} threads" + (f", {shape.each} accesses under way each" if shape.each > 1 else "")
    draft.decide("parallel", stage.name, what, f"{draft.bytes_in_flight >> 10} KiB under way keep memory busy")


def points_prices(draft: GpuDraft, stage: Stage) -> Callable[[PointsPlan], float]:
    """Every thread reads what its results need; reductions go on in it, one access after another or written out."""
    along = next((i.name for i in _along_memory(stage)[-1:]), None)
    moving = [
        (a, prod(i.count for i in stage.reductions if a.uses(i.name))) for a in (*stage.distinct_reads, stage.write)
    ]
    results, steps = (prod(i.count for i in some) for some in (stage.spatial, stage.reductions))
    turns = 1 if steps <= WRITTEN_OUT else steps
    has_reader = bool(stage.reductions) and epilogue_of(draft, stage) is not None

    def seconds(plan: PointsPlan) -> float:
        lanes, each, threads = plan.lanes, plan.shape.each, plan.shape.threads
        streams = [stream_of(stage, a, along, lanes, each * times, turns if times > 1 else 1) for a, times in moving]
        blocks = -(-results // (lanes * each * threads))
        grid = Grid(blocks, threads, each * lanes * steps * (stage.operations + 1), registers=2 * each * lanes)
        again = _stored(draft, results) if has_reader and not plan.joined else 0.0
        return streams_seconds(draft.machine, grid, streams) + again

    return seconds


def _stored(draft: GpuDraft, results: int) -> float:
    """Results that are stored for another launch to read."""
    return rates_of(draft.machine.capability).launch + 8 * results / draft.machine.bandwidth


#: What every stage with results falls back to.
POINTS: Strategy[GpuDraft] = Strategy("points", points_plans, apply_points, points_prices)
