"""Reductions across memory: sums of columns. Threads side by side have columns side by side, each a few in 16 bytes.

A block is some threads wide, so that what it reads of a row is long enough, and some deep: each thread reduces every
so many rows in its registers, then the results of a column are reduced through shared memory. Where columns are too few
for all multiprocessors, rows are cut into parts, each with results of its own, and a second nest reduces those.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import gcd, prod

from weft.auto.align import counterparts
from weft.auto.gpu.draft import THREADS, GpuDraft, lanes_for
from weft.auto.gpu.epilogue import epilogue_of
from weft.auto.gpu.grid import split_lanes
from weft.auto.gpu.points import POINTS
from weft.auto.gpu.row_plan import reads_again
from weft.auto.gpu.streams import Grid, stream_of, streams_seconds
from weft.auto.rows import iterator_along_memory, may_reorder
from weft.auto.stages import Stage, StageIter
from weft.auto.strategy import Strategy
from weft.ir.errors import ScheduleError
from weft.target.cuda.machine import WARP
from weft.target.cuda.rates import L1_BYTES, rates_of

#: Bytes of a row that a block reads at once: whole lines; and where lines are cut, so many that few are.
SEGMENT, CUT_SEGMENT = 128, 256
#: Bytes a thread has under way, and accesses, at most.
BYTES_AHEAD, AHEAD = 128, 16
#: Threads deep, at most; and at least, where columns alone are not enough threads for each multiprocessor.
DEPTH, SHALLOW, FEW_THREADS = 32, 4, 64
#: Blocks for each multiprocessor.
BLOCKS = 4
#: Steps of a loop that the compiler writes out by itself.
UNROLLED = 4


@dataclass(frozen=True, slots=True)
class ColumnsPlan:
    """``width`` threads side by side, ``lanes`` columns and ``size`` bytes each, ``depth`` deep, ``ahead`` rows under
    way; rows in ``parts``, whose results a second nest reduces."""

    width: int
    lanes: int
    size: int
    depth: int
    ahead: int
    parts: int = 1

    @property
    def way(self) -> str:
        return "in parts" if self.parts > 1 else "whole"

    @property
    def columns(self) -> int:
        return self.width * self.lanes

    @property
    def threads(self) -> int:
        return self.width * self.depth


def _fits_columns(draft: GpuDraft, stage: Stage) -> bool:
    if stage.op == "=" or not stage.reductions:
        return False
    if stage.is_inside or not stage.is_plain or not stage.is_affine or stage.reads_target:
        return False
    along = iterator_along_memory(stage)
    if along is None or along.is_reduction or not may_reorder(draft, stage) or reads_again(stage):
        return False
    return stage.write.stride(along.name) == 1 and all(i.extent is not None and i.exact for i in stage.iters)


def _rows(stage: Stage) -> StageIter:
    """The longest reduction."""
    return max(stage.reductions, key=lambda i: i.count)


def columns_plans(draft: GpuDraft, stage: Stage) -> list[ColumnsPlan]:
    """The usual plan; then other depths and widths, rows under way, and parts, where every thread has rows enough."""
    if not _fits_columns(draft, stage):
        return []
    along = iterator_along_memory(stage)
    assert along is not None
    usual = _usual_plan(draft, stage, along)
    if _rows(stage).count < 2 * usual.depth:
        return []
    widths = {usual.width, *(n for n in (8, 16, 32, 64) if n * usual.lanes <= along.count)}
    tiles = [
        replace(usual, width=width, depth=depth, ahead=ahead, parts=1)
        for width in sorted(widths)
        for depth in (4, 8, 16, DEPTH)
        for ahead in (4, AHEAD)
        if 2 * WARP <= width * depth <= draft.machine.max_threads_per_block and ahead * usual.size <= 2 * BYTES_AHEAD
    ]
    return list(dict.fromkeys([usual, *(p for tile in tiles for p in _with_parts(draft, stage, along, tile))]))


def _with_parts(draft: GpuDraft, stage: Stage, along: StageIter, tile: ColumnsPlan) -> list[ColumnsPlan]:
    rows, usual = _rows(stage).count, _parts(draft, stage, along, tile)
    counts = {max(1, usual // 2), usual, 2 * usual}
    return [replace(tile, parts=n) for n in sorted(counts) if rows // n >= 2 * tile.depth]


def apply_columns(draft: GpuDraft, name: str, plan: ColumnsPlan) -> None:
    stage = draft.stage(name)
    along = iterator_along_memory(stage)
    assert along is not None
    if plan.parts > 1:
        part = _in_parts(draft, stage, plan)
        why = f"{prod(i.count for i in stage.spatial)} columns are too few for {draft.machine.sms} multiprocessors"
        draft.decide("parallel", name, f"rows in {plan.parts} parts, reduced in a second nest", why)
        _schedule(draft, draft.stage(part), along, plan)
        _schedule_total(draft, name)
        return
    _schedule(draft, stage, along, plan)


def _schedule_total(draft: GpuDraft, name: str) -> None:
    """The second nest: few rows, so a thread for some results where there are many of these."""
    stage = draft.stage(name)
    along = iterator_along_memory(stage)
    if along is not None and _fits_columns(draft, stage):
        plan = replace(_usual_plan(draft, stage, along), parts=1)
        if _rows(stage).count >= 2 * plan.depth:
            _schedule(draft, stage, along, plan)
            return
    if not POINTS.schedule(draft, name):
        raise ScheduleError("results of parts are not added up")


def _usual_plan(draft: GpuDraft, stage: Stage, along: StageIter) -> ColumnsPlan:
    """As many lanes as divide the columns; threads for a segment, or fewer where they then come out even."""
    reads = [a for a in stage.reads if a.stride(along.name) == 1]
    most = lanes_for(reads)
    lanes = gcd(along.count, most)
    size = lanes * max((a.buffer.dtype.itemsize for a in reads), default=1)
    vectors = along.count // lanes
    wide = min((SEGMENT if lanes == most else CUT_SEGMENT) // size, THREADS, vectors)
    even = next(n for n in range(wide, 0, -1) if vectors % n == 0)
    width = even if 2 * even >= wide else wide
    depth = min(DEPTH, THREADS // width, _most_depth(draft, stage, lanes))
    tile = ColumnsPlan(width, lanes, size, depth, min(AHEAD, max(1, BYTES_AHEAD // size)))
    return replace(tile, parts=_parts(draft, stage, along, tile))


def _most_depth(draft: GpuDraft, stage: Stage, lanes: int) -> int:
    """Few rows are shared out all the same where a thread for each result would leave most of the GPU idle."""
    is_idle = prod(i.count for i in stage.spatial) < lanes * FEW_THREADS * draft.machine.sms
    return max(SHALLOW, _rows(stage).count // 2) if is_idle else DEPTH


def _parts(draft: GpuDraft, stage: Stage, along: StageIter, tile: ColumnsPlan) -> int:
    """Parts of the rows, as many as give every multiprocessor its blocks, each long enough to be worth it."""
    others = prod(i.count for i in stage.spatial if i is not along)
    blocks = others * -(-along.count // tile.columns)
    wanted = BLOCKS if tile.ahead * tile.size >= BYTES_AHEAD else 2 * BLOCKS
    return max(1, min(-(-wanted * draft.machine.sms // blocks), _rows(stage).count // (2 * tile.ahead * tile.depth)))


def _in_parts(draft: GpuDraft, stage: Stage, plan: ColumnsPlan) -> str:
    """The block of results of parts of the rows."""
    s, rows = draft.s, _rows(stage)
    part, inner = map(str, s.split(stage.loop_of(rows.name), _part_size(rows.count, plan.parts, plan)))
    s.reorder(part, *(x for x in draft.stage(stage.name).loops if x not in (part, inner)), inner)
    block, storage = s.rfactor(part, start="inside")
    draft.attempt(s.store_at, storage)  # so that what follows may read it too
    return str(block)


def _part_size(rows: int, parts: int, tile: ColumnsPlan) -> int:
    """Rows of a part: so many that all parts are alike, or that what a thread has under way comes out even in most."""
    least, step = -(-rows // parts), tile.depth * tile.ahead
    rounded = -(-least // step) * step
    even = next((n for n in range(rounded, 2 * least + 1, step) if rows % n == 0), None)
    if even is not None:
        return even
    return rounded if 8 * rounded <= 9 * least else -(-least // tile.depth) * tile.depth


def _schedule(draft: GpuDraft, stage: Stage, along: StageIter, tile: ColumnsPlan) -> None:
    """Blocks over tiles of columns, with what is done with each result where that can join."""
    reader = epilogue_of(draft, stage)
    if reader is None or draft.attempt(_schedule_tiles, draft, stage, along, tile, reader) is not None:
        _schedule_tiles(draft, stage, along, tile, None)
    what = f"{tile.width} threads side by side, {tile.lanes} columns each, {tile.depth} rows at a time"
    draft.decide("parallel", stage.name, what, f"each reads {tile.size} bytes of a row at once")


def _schedule_tiles(draft: GpuDraft, stage: Stage, along: StageIter, tile: ColumnsPlan, reader: Stage | None) -> None:
    """The loops of ``stage``, or of its ``reader`` with ``stage`` inside, over tiles of columns."""
    s, over = draft.s, reader or stage
    column = over.loop_of(counterparts(stage, reader)[along.name] if reader else along.name)
    rows = {} if reader else {i.name: i.loop for i in stage.reductions if i.loop is not None}
    others = [x for x in over.loops if x not in (column, *rows.values())]
    if [*others, column, *rows.values()] != list(over.loops):
        s.reorder(*others, column, *rows.values())
    blocks, inside = map(str, s.split(column, tile.columns))
    if reader is None:
        _reduce_tile(draft, stage.name, len(others) + 1, inside, rows, stage, tile)
    else:
        s.compute_at(stage.name, blocks)
        now = draft.stage(stage.name)
        rows = {i.name: loop for i in stage.reductions if (loop := now.by_name[i.name].loop) is not None}
        _reduce_tile(draft, stage.name, len(others) + 1, now.loop_of(along.name), rows, stage, tile)
        _on_threads(draft, inside, tile)
        draft.decide("fusion", reader.name, f"computed with each result of `{stage.name}`", "it need not be stored")
    for loop in (*others, blocks):
        s.bind(loop, "block")
    draft.scheduled |= {stage.name, over.name}


def _reduce_tile(
    draft: GpuDraft, name: str, around: int, column: str, rows: Mapping[str, str], stage: Stage, tile: ColumnsPlan
) -> None:
    """A tile of columns by all threads of a block: ``rows`` are its loops over what is reduced, by iterator, the
    longest dealt to the threads."""
    s = draft.s
    x, lane = split_lanes(draft, column, tile.lanes)
    longest = rows[_rows(stage).name]
    rounds, y = map(str, s.split(longest, tile.depth))
    reduced = [rounds if r == longest else r for r in rows.values()]
    s.reorder(y, x, *reduced, *lane)
    block, partial = _partial(draft, y)
    s.cache_write(partial, "register", at=x)
    if len(reduced) == 1:
        s.unroll(s.split(rounds, tile.ahead)[1])
    for loop in lane:
        s.vectorize(loop)
    s.bind(y, "thread")
    s.bind(x, "thread")
    _combine(draft, name, around, lane)
    start = f"{partial}_init"
    if start in draft.stages:
        own = [str(x) for x in s.loops(start)][around:]
        for loop in own[: len(own) - len(lane)]:
            s.bind(loop, "thread")
    draft.scheduled |= {block, start}


def _partial(draft: GpuDraft, loop: str) -> tuple[str, str]:
    """Results of each of the threads deep; they start where they are computed, if each has rows for sure."""
    made: list[str] = []

    def inside() -> None:
        made.extend(map(str, draft.s.rfactor(loop, start="inside")))

    if draft.attempt(inside) is not None:
        made.extend(map(str, draft.s.rfactor(loop)))
    return made[0], made[1]


def _combine(draft: GpuDraft, name: str, around: int, lane: Sequence[str]) -> None:
    """Results of a column from those of the threads deep: the threads side by side do it, lanes side by side."""
    s = draft.s
    own = [str(x) for x in s.loops(name)][around:]
    across, deep = own[: len(own) - 1 - len(lane)] or own[:-1], own[-1]
    draft.attempt(_combine_lanes, draft, name, across[-1], own[len(across) : -1], deep)
    for loop in across:
        s.bind(loop, "thread")


def _combine_lanes(draft: GpuDraft, name: str, at: str, lanes: Sequence[str], deep: str) -> None:
    s = draft.s
    stage = draft.stage(name)
    for loop in lanes:
        s.reorder(deep, loop)
    s.cache_write(stage.write.buffer.name, "register", at=at)
    s.unroll(deep)
    for loop in lanes:
        s.vectorize(loop)


def _on_threads(draft: GpuDraft, loop: str, tile: ColumnsPlan) -> None:
    x, lane = split_lanes(draft, loop, tile.lanes)
    draft.s.bind(x, "thread")
    for inner in lane:
        draft.s.vectorize(inner)


def columns_prices(draft: GpuDraft, stage: Stage) -> Callable[[ColumnsPlan], float]:
    """Every thread goes down its columns, ``ahead`` rows at a time; then a block adds up, then a launch the parts."""
    along, rates = iterator_along_memory(stage), rates_of(draft.machine.capability)
    assert along is not None
    results, summed = (prod(i.count for i in some) for some in (stage.spatial, stage.reductions))
    down = [abs(a.stride(_rows(stage).name) or 0) * a.buffer.dtype.itemsize for a in stage.reads]

    def seconds(plan: ColumnsPlan) -> float:
        steps = summed / (plan.parts * plan.depth)
        blocks = plan.parts * results // max(1, along.count) * -(-along.count // plan.columns)
        turns = steps / max(UNROLLED, plan.ahead)
        found = (stream_of(stage, a, along.name, plan.lanes, steps, turns) for a in stage.reads)
        streams = [replace(stream, beside=plan.width, aligned=step) for stream, step in zip(found, down)]
        room = plan.threads * plan.lanes * 4
        combined = plan.depth * rates.shared_latency + 2 * rates.barrier
        operations = steps * plan.lanes * (stage.operations + 1) + plan.depth * plan.lanes
        held = plan.lanes * (2 + plan.ahead * plan.size / (4 * plan.lanes))
        grid = Grid(blocks, plan.threads, operations, held, room, combined, 2 * room / L1_BYTES)
        return streams_seconds(draft.machine, grid, streams) + _total_seconds(draft, plan.parts, results)

    return seconds


def _total_seconds(draft: GpuDraft, parts: int, results: int) -> float:
    """A launch that adds up ``parts`` for each of ``results``, which lie in the second cache."""
    if parts == 1:
        return 0.0
    rates = rates_of(draft.machine.capability)
    waits = (parts / DEPTH + 1) * rates.l2_latency / draft.machine.clock
    return rates.launch + waits + parts * results * 8 / draft.machine.bandwidth


COLUMNS: Strategy[GpuDraft] = Strategy("columns", columns_plans, apply_columns, columns_prices)
