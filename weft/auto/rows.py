"""Reductions that read most elements once: sums of rows and columns, norms, maxima, searches.

Memory is what counts, so elements are read in the order they lie in. Where they are reduced along memory, partial
results run in the lanes of a few registers (the code generator's own way with one innermost loop): dimensions that
follow one another are walked through as one, so that it is long. Where they are reduced across memory, lanes are
neighbouring results: a few vectors of them stay in registers; of more, some rows are added up before their sum is added
to what is in the first cache. Where results are too few for all threads, each thread makes parts of them; and sums of
many floats are sums of partial sums, which are rounded better.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from weft.auto.draft import AnyDraft, Draft
from weft.auto.parallel_loops import parallel_outermost
from weft.auto.pointwise import CHUNKS, contiguous_run
from weft.auto.sketch import Loop, Sketch, TileNest
from weft.auto.stages import Stage, StageAccess, StageIter
from weft.ir.stmt import LoopKind
from weft.ir.visit import free_vars
from weft.schedules.index_forms import Forms
from weft.schedules.nests import Place

#: Vectors of results side by side.
VECTORS = 8
#: Bytes in a row of memory that a thread reads at a time, at least, so that they are fetched ahead.
LONG_ROW = 16384
#: Rows added up before their sum is added to results in the cache.
ROWS = 8
#: Elements of a sum from which on it is one of partial sums: rounding grows with what one accumulator takes, for ten
#: million float32 of one sign to 2e-5 of the result.
LONG_SUM = 1 << 17


@dataclass(frozen=True, slots=True)
class RowsPlan:
    """Elements in the order of memory, innermost along iterator ``along`` (none: as the loops are)."""

    along: str | None

    @property
    def way(self) -> str:
        return "rows"

    def __str__(self) -> str:
        return f"in order along {self.along}" if self.along is not None else "in order"


def rows_plans(draft: Draft, stage: Stage) -> list[RowsPlan]:
    if not fits_rows(draft, stage):
        return []
    along = iterator_along_memory(stage)
    return [RowsPlan(along.name if along is not None else None)]


def rows_seconds(draft: Draft, stage: Stage, plan: RowsPlan) -> float:
    """The time of the nest in the order of memory, what is reduced innermost or results in lanes."""
    along = stage.by_name.get(plan.along or "")
    own = [i for i in stage.iters if i.loop is not None and i is not along and i.count > 1]
    order = sorted(own, key=lambda i: i.is_reduction)
    first: LoopKind = "parallel" if draft.pays_threads(stage) else "serial"
    loops = [Loop(i.name, 1, i.count, "serial" if n else first) for n, i in enumerate(order)]
    sketch = Sketch()
    places, forms = sketch.enter_outer(stage, draft.stages)
    if along is None or along.is_reduction:
        whole = [*loops, Loop(along.name, 1, along.count)] if along else loops
        sketch.draw_stage(places[-1], stage, whole, forms)
    else:
        _draw_across(draft, sketch, places, stage, along, loops, forms)
    return sketch.seconds(draft)


def _draw_across(
    draft: Draft,
    sketch: Sketch,
    places: list[Place],
    stage: Stage,
    along: StageIter,
    loops: Sequence[Loop],
    forms: Forms,
) -> None:
    """What `_reduce_across` makes."""
    rows = [x for x in loops if stage.by_name[x.of].is_reduction]
    run = contiguous_run(stage, along, VECTORS * draft.lanes(stage), stage.spatial)
    is_small = _count(run) <= VECTORS * draft.lanes(stage)
    many, width = (1, VECTORS * draft.lanes(stage)) if is_small else _rows_at_once(draft, stage, _count(run))
    width = min(along.count, width)
    tile, lanes = Loop(along.name, width, along.count / width), Loop(along.name, 1, width, "vector")
    if is_small:
        outer = (*(x for x in loops if x not in rows), tile)
        sketch.draw_tiles(places, stage, TileNest(outer, tuple(rows), (lanes,)), forms)
        return
    side = [x for x in loops if stage.by_name[x.of] in run]
    outer = tuple(x for x in loops if x not in side and x not in rows)
    around, inside = _cut_rows(rows, many)
    started = replace(stage, block=replace(stage.block, init=None))
    sketch.draw_stage(places[-1], started, [*outer, *around, *side, tile, *inside, lanes], forms)


def _cut_rows(rows: Sequence[Loop], many: int) -> tuple[list[Loop], list[Loop]]:
    """Loops through the rows of a reduction around those through its results, and those inside them."""
    if many == 1:
        return list(rows), []
    last, size = rows[-1], min(many, int(rows[-1].trips))
    return [*rows[:-1], replace(last, step=size, trips=last.trips / size)], [Loop(last.of, 1, size, "unroll")]


def _rows_at_once(draft: Draft, stage: Stage, results: int) -> tuple[int, int]:
    """How many rows are added up before their sum is added to the results, which are more than registers hold, and of
    how many results at a time.

    What comes from memory is fetched best in order, row after row. Where a thread reads pieces of rows, that ends
    with each of them: then many rows at once, a vector of each at a time (13 and 25 GB/s on a Zen 4).
    """
    tile = VECTORS * draft.lanes(stage)
    if sum(_elements(stage, a) * a.buffer.dtype.itemsize for a in stage.reads) <= draft.cache("L3") // 2:
        return ROWS, tile
    pieces = -(-results // _block_size(draft, stage, results))
    return (1, tile) if pieces <= (draft.threads if draft.pays_threads(stage) else 1) else (ROWS, draft.lanes(stage))


def fits_rows(draft: Draft, stage: Stage) -> bool:
    """Whether it reduces, in loops as lowering makes them, elements whose places are known."""
    if not stage.is_affine or not stage.is_plain or stage.reads_target:
        return False
    return stage.op != "=" and any(i.loop is not None for i in stage.reductions)


def apply_rows(draft: Draft, name: str, plan: RowsPlan) -> None:
    """``name``'s nest in the order of memory, in parts where it has too few results for the threads."""
    along = draft.stage(name).by_name.get(plan.along or "")
    if _needs_parts(draft, draft.stage(name), along):
        part = _in_parts(draft, name, along)
        _schedule_nest(draft, part, along)
        draft.scheduled.add(part)
        return
    in_parallel = draft.pays_threads(draft.stage(name))
    _schedule_nest(draft, name, along)
    if in_parallel:
        parallel_outermost(draft, name, [str(loop) for loop in draft.s.loops(name)][:-1])


def _schedule_nest(draft: Draft, name: str, along: StageIter | None) -> None:
    stage = draft.stage(name)
    if along is None or stage.by_name[along.name].loop is None:
        return
    if along.is_reduction:
        _reduce_along(draft, stage, along)
    else:
        _reduce_across(draft, stage, along)


def iterator_along_memory(stage: Stage) -> StageIter | None:
    """The iterator along which most of what is read lies side by side; one of the result's where both are as good."""
    own = [i for i in stage.iters if i.loop is not None and i.extent != 1]

    def score(i: StageIter) -> tuple[int, bool, int]:
        near = sum(_elements(stage, a) for a in stage.reads if a.stride(i.name) == 1)
        return near, not i.is_reduction, _count([i])

    best = max(own, key=score, default=None)
    return best if best is not None and score(best)[0] > 0 else None


def _elements(stage: Stage, access: StageAccess) -> int:
    """How many elements ``access`` touches, about."""
    return _count([i for i in stage.iters if access.uses(i.name)])


def _count(iters: Sequence[StageIter]) -> int:
    return prod(i.count for i in iters)


def may_reorder(draft: AnyDraft, stage: Stage) -> bool:
    """Whether partial results may be combined in any order."""
    return draft.is_fast or not stage.write.buffer.dtype.is_float or stage.op in ("min", "max")


def _names(run: Sequence[StageIter]) -> str:
    return " and ".join(f"`{i.name}`" for i in run)


def _loops(run: Sequence[StageIter]) -> list[str]:
    return [i.loop for i in run if i.loop is not None]


def _innermost(draft: Draft, stage: Stage, loops: Sequence[str]) -> None:
    """``loops`` innermost; of the others those of the result come first."""
    reduced = _loops(stage.reductions)
    others = sorted((x for x in stage.loops if x not in loops), key=lambda x: x in reduced)
    if [*others, *loops] != list(stage.loops):
        draft.s.reorder(*others, *loops)


def _fused(draft: Draft, run: Sequence[StageIter]) -> str:
    """The loops of ``run``, which are next to one another, as one."""
    loops = _loops(run)
    return str(draft.s.fuse(*loops)) if len(loops) > 1 else loops[0]


def _reduce_along(draft: Draft, stage: Stage, along: StageIter) -> None:
    """The reduction along memory innermost, with those in front of it that continue it."""
    run = contiguous_run(stage, along, _count(stage.iters), stage.reductions)
    _innermost(draft, stage, _loops(run))
    if len(run) > 1:
        _start_apart(draft, stage)
    _fused(draft, run)
    what = f"partial results along {_names(run)} in lanes" if may_reorder(draft, stage) else f"{_names(run)} innermost"
    draft.decide("vector", stage.name, what, f"{_count(run)} elements along memory")


def _start_apart(draft: Draft, stage: Stage) -> None:
    """Results start at their first values before the loops of the reduction, which then need no test for it."""
    rows = [x for x in draft.stage(stage.name).loops if x in _reduction_loops(stage)]
    if stage.block.init is not None:
        draft.s.decompose_reduction(stage.name, at=rows[0])


def _reduce_across(draft: Draft, stage: Stage, along: StageIter) -> None:
    """Lanes along the result: in registers where they are few, else in the cache, a few rows at a time."""
    lanes = draft.lanes(stage)
    run = contiguous_run(stage, along, VECTORS * lanes, stage.spatial)
    rows = [x for x in stage.loops if x in _reduction_loops(stage)]
    _innermost(draft, stage, [*rows, *_loops(run)])
    loop = _fused(draft, run)
    if _count(run) <= VECTORS * lanes:
        _in_registers(draft, stage, loop, rows[0])
    else:
        _in_cache(draft, stage, loop, rows)
    what = f"{_names(run)} in vectors of {lanes}"
    draft.decide("vector", stage.name, what, f"{_count(run)} results side by side in memory")


def _reduction_loops(stage: Stage) -> set[str]:
    """Loops that only reductions are bound to, also several loops to one of them."""
    others = (i for i in stage.block.iters if i.kind != "reduce")
    return set(stage.loops).difference(*(free_vars(i.binding) for i in others))


def _in_registers(draft: Draft, stage: Stage, loop: str, first: str) -> None:
    around = draft.stage(stage.name).loops
    own = around[: around.index(first)]
    draft.s.vectorize(loop)
    # In loops shared with readers of the result, registers are for this nest alone.
    at = own[-1] if own else draft.s.wrap(first) if stage.outer else None
    draft.s.cache_write(stage.write.buffer.name, "register", at=at)
    draft.decide("registers", stage.name, "results in registers while rows are added", "they are few")


def _in_cache(draft: Draft, stage: Stage, loop: str, rows: Sequence[str]) -> None:
    extent = next((i.extent for i in draft.stage(stage.name).iters if i.loop == loop), None)
    many, width = _rows_at_once(draft, stage, extent or _count(stage.spatial))
    _start_apart(draft, stage)
    block, rest = draft.s.split(loop, _block_size(draft, stage, extent))
    tile, lane = draft.s.split(rest, width)
    if many == 1:
        draft.s.reorder(block, *rows, tile, lane)
        what = "row after row added to the results"
    else:
        outer, inner = draft.s.split(rows[-1], many)
        draft.s.reorder(block, *rows[:-1], outer, tile, inner, lane)
        draft.s.unroll(inner)
        what = f"{many} rows added up in registers before their sum is added to the results"
    draft.s.vectorize(lane)
    draft.decide("registers", stage.name, what, "more results than registers; those stay in the first cache")


def _block_size(draft: Draft, stage: Stage, extent: int | None) -> int:
    """Results that one thread works on: whole rows of them, or pieces as long as the first cache holds."""
    most, tile = draft.cache("L1") // 2 // stage.write.buffer.dtype.itemsize, VECTORS * draft.lanes(stage)
    if extent is None:
        return most // tile * tile
    blocks = -(-extent // most)
    if draft.pays_threads(stage):
        blocks = -(-blocks // draft.threads) * draft.threads
    return -(-extent // (blocks * tile)) * tile


def _is_long(draft: Draft, stage: Stage) -> bool:
    """Whether so much goes into each sum that it is rounded better in parts, whose results the first cache holds."""
    dtype = stage.write.buffer.dtype
    if stage.op != "+" or not dtype.is_float or dtype.bits > 32 or not may_reorder(draft, stage):
        return False
    return _long_parts(stage) > 1 and _long_parts(stage) * _count(stage.spatial) * dtype.itemsize <= draft.cache("L1")


def _long_parts(stage: Stage) -> int:
    return -(-_count(stage.reductions) // LONG_SUM)


def _needs_parts(draft: Draft, stage: Stage, along: StageIter | None) -> bool:
    """Whether threads pay, and there is not a piece of the result for each that is worth reading by itself; or sums are
    long."""
    if _is_long(draft, stage):
        return True
    if not draft.pays_threads(stage) or not may_reorder(draft, stage):
        return False
    pieces = _count(stage.spatial)
    if along is not None and not along.is_reduction:
        run = contiguous_run(stage, along, VECTORS * draft.lanes(stage), stage.spatial)
        row = _count(run) * stage.write.buffer.dtype.itemsize
        pieces = pieces // _count(run) * max(1, row // LONG_ROW)
    return pieces < draft.threads and _count(stage.reductions) >= CHUNKS * draft.threads


def _in_parts(draft: Draft, name: str, along: StageIter | None) -> str:
    """The block of partial results: the longest reduction, one across memory if there is one, cut for the threads, and
    so that no part is long."""
    stage = draft.stage(name)
    threads = draft.threads if draft.pays_threads(stage) else 1
    wanted = max(CHUNKS * threads if threads > 1 else 1, _long_parts(stage) if _is_long(draft, stage) else 1)
    cut = max((i for i in stage.reductions if i.loop), key=lambda i: (i is not along and _count([i]) > 1, _count([i])))
    pieces = min(_count([cut]), wanted)
    part, inner = draft.s.split(stage.loop_of(cut.name), -(-_count([cut]) // pieces))
    draft.s.reorder(part, *(x for x in draft.stage(name).loops if x not in (str(part), str(inner))), inner)
    block, partial = draft.s.rfactor(part)
    if threads > 1:
        draft.s.parallel(part)
    if along is not None and not along.is_reduction and _count(stage.spatial) > VECTORS * draft.lanes(stage):
        # Threads that add to neighbouring rows of memory would take the line between them from one another.
        draft.s.cache_write(partial, scope="global", at=part)
    what = f"partial results of {pieces} parts of `{cut.name}`"
    if threads > 1:
        draft.decide("parallel", name, f"{what} on {threads} threads", "results are too few for all threads")
    else:
        draft.decide("tiling", name, what, "a long sum is rounded better in parts")
    return str(block)
