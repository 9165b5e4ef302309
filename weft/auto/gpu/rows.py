"""Rows: reductions along memory, and chains of stages that share rows, such as softmax and the norms.

A block of threads has a row, or a few short ones. What is read more than once, or reduced, is fetched first, 16 bytes
at a time, into the registers of the threads; stage after stage works on it there, and only results are written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import gcd, prod

from weft.auto.align import Chain, ChainTile, align_producer, own_alignment
from weft.auto.chain import ChainMover, share_loops
from weft.auto.gpu.draft import THREADS, GpuDraft, lanes_for
from weft.auto.gpu.epilogue import epilogue_of
from weft.auto.gpu.launch_time import combination_cycles
from weft.auto.gpu.row_loops import cut_row, map_row, reduce_row
from weft.auto.gpu.row_plan import AHEAD, Row, RowPlan, RowsNeeds, make_row, reads_again, row_plans
from weft.auto.gpu.streams import Grid, Stream, stream_of, streams_seconds
from weft.auto.rows import iterator_along_memory, may_reorder
from weft.auto.stages import Stage, buffer_bytes
from weft.auto.strategy import Strategy
from weft.ir.errors import ScheduleError
from weft.target.cuda.machine import WARP
from weft.target.cuda.rates import rates_of

#: Rows shorter than this are left to one thread each.
SHORT = 32
#: Blocks for each multiprocessor, at least, before rows are left whole.
BLOCKS = 2
#: Elements of an access from which on rows that begin anywhere are worth pieces that lie as memory does.
SHIFTED_LANES = 8


def fits_rows(draft: GpuDraft, stage: Stage) -> bool:
    """Whether it reduces along memory, in loops as lowering makes them."""
    if stage.is_inside or stage.op == "=" or not stage.is_plain or not stage.is_affine or stage.reads_target:
        return False
    along = iterator_along_memory(stage)
    if along is None or not along.is_reduction or not may_reorder(draft, stage) or reads_again(stage):
        return False
    row = make_row(stage, [i.name for i in stage.spatial])
    return row is not None and (row.length >= SHORT or row.length > prod(i.count for i in stage.spatial))


@dataclass(frozen=True, slots=True)
class RowsPlan:
    """Every row in ``parts``, whose results a second nest reduces."""

    parts: int

    @property
    def way(self) -> str:
        return "in parts" if self.parts > 1 else "whole"


def rows_plans(draft: GpuDraft, stage: Stage) -> list[RowsPlan]:
    """As many parts as usual, half and twice as many, or rows left whole."""
    if stage.is_empty or not fits_rows(draft, stage):
        return []
    row = _whole_row(stage)
    usual = _parts(draft, stage, row)
    counts = dict.fromkeys([usual, 1, max(1, usual // 2), *([2 * usual] if usual > 1 else [])])
    return [RowsPlan(n) for n in counts if n == 1 or row.length // n >= 2 * THREADS]


def apply_rows(draft: GpuDraft, name: str, plan: RowsPlan) -> None:
    """The rows of ``name``; long ones of which there are few in parts, and the results of these in a second nest."""
    stage = draft.stage(name)
    if plan.parts > 1:
        part = _in_parts(draft, _whole_row(stage), plan.parts)
        why = f"{prod(i.count for i in stage.spatial)} results are too few for {draft.machine.sms} multiprocessors"
        draft.decide("parallel", name, f"rows in {plan.parts} parts, reduced in a second nest", why)
        schedule_row_chain(draft, _chain_of(draft, part))
    schedule_row_chain(draft, _chain_of(draft, name))


def _whole_row(stage: Stage) -> Row:
    row = make_row(stage, [i.name for i in stage.spatial])
    assert row is not None, "as `fits_rows` says"
    return row


def _chain_of(draft: GpuDraft, name: str) -> Chain:
    """The rows of ``name`` alone, or with what is done with each result."""
    stage = draft.stage(name)
    reader = epilogue_of(draft, stage)
    if reader is None:
        return Chain(draft.stages, stage, {name: own_alignment(stage)})
    theirs = own_alignment(reader)
    mine = align_producer(stage, {reader.name: theirs}, draft.stages)
    return Chain(draft.stages, reader, {reader.name: theirs, name: mine})


def _parts(draft: GpuDraft, stage: Stage, row: Row) -> int:
    """Parts of each row, so that every multiprocessor has blocks; none shorter than a block's threads take at once."""
    rounds = prod(i.count for i in stage.spatial)
    least = 2 * THREADS * lanes_for(a for a in stage.reads if row.along(a))
    return max(1, min(-(-BLOCKS * draft.machine.sms // rounds), row.length // least))


def _in_parts(draft: GpuDraft, row: Row, parts: int) -> str:
    """The block of results of parts of rows: the outermost iterator that is long enough is cut."""
    s, stage = draft.s, row.stage
    cut = next((i for i in row.iters if i.count >= parts), max(row.iters, key=lambda i: i.count))
    lanes = lanes_for(a for a in stage.reads if row.along(a))
    size = _part_size(cut.count, parts, 1 if cut is not row.iters[-1] else THREADS * lanes)
    part, inner = map(str, s.split(stage.loop_of(cut.name), size))
    spatial = [stage.loop_of(i.name) for i in stage.spatial if i.loop is not None]
    along = [inner if i is cut else stage.loop_of(i.name) for i in row.iters]
    s.reorder(part, *spatial, *along)
    block, storage = s.rfactor(part, axis=stage.write.buffer.rank, start="inside")
    draft.attempt(s.store_at, storage)  # so that what follows may read it too
    return str(block)


def _part_size(count: int, parts: int, step: int) -> int:
    """Iterations of a part: a multiple of ``step``, where possible one that makes all parts alike."""
    least = -(-count // parts)
    even = (n for n in range(-(-least // step) * step, 2 * least + step, step) if count % n == 0)
    return next(even, -(-least // step) * step)


def rows_of(chain: Chain) -> list[Row] | None:
    """The rows of all stages of ``chain``; None where one has none."""
    rows = [make_row(s, _fixed(chain, s)) for s in chain.members]
    return None if None in rows else [r for r in rows if r is not None]


def _fixed(chain: Chain, stage: Stage) -> list[str]:
    """The iterators of ``stage`` that the shared loops give values."""
    return [own for own, theirs in chain.alignments[stage.name].items() if theirs in chain.shared]


def needs_of(chain: Chain, rows: Sequence[Row]) -> RowsNeeds:
    kept = sum(r.stage.write.buffer.dtype.itemsize for r in rows if is_kept(chain, r))
    reads = [a for r in rows for a in r.stage.reads]
    fetched = {a.buffer.name: a.buffer.dtype.itemsize for a in reads if _is_fetched(chain, rows, a.buffer.name)}
    along = [a.buffer.name for r in rows for a in r.stage.reads if r.along(a)]
    lanes = lanes_for(a for r in rows for a in r.stage.accesses if r.along(a) and _is_memory(chain, a.buffer.name))
    shifted = _shifted_length(chain, rows, lanes)
    return RowsNeeds(
        longest=max(r.length for r in rows),
        rounds=prod(map(chain.extent, chain.shared)),
        divisible=chain.extent(chain.shared[-1]) if chain.shared else 1,
        lanes=gcd(lanes, *(r.iters[-1].count for r in rows if r.iters)),
        kept=kept + sum(fetched.values()),
        again=kept > 0 or any(along.count(name) > 1 for name in fetched),
        hands_on=any(is_kept(chain, r) for r in rows),
        shifted=None if shifted is None else (shifted, lanes),
    )


def chain_seconds(draft: GpuDraft, chain: Chain, rows: Sequence[Row], needs: RowsNeeds, plan: RowPlan) -> float:
    """Rows come from memory once if they are kept, else for each stage; every reduction ends across the threads."""
    rates = rates_of(draft.machine.capability)
    elements = plan.pieces * plan.lanes
    passes = sum(any(row.along(a) for a in row.stage.reads) for row in rows)
    turns = 1.0 if plan.keeps_rows else passes * max(1.0, plan.pieces / AHEAD)
    found: dict[tuple[str, int], Stream] = {}
    for n, row in enumerate(rows):
        for a in (a for a in row.stage.accesses if _is_memory(chain, a.buffer.name)):
            once = plan.keeps_rows and _is_fetched(chain, rows, a.buffer.name)
            size = (plan.lanes if row.along(a) else 1) * a.buffer.dtype.itemsize
            count = plan.pieces if row.along(a) else 1
            whole = 0.0 if any(name == a.buffer.name for name, _ in found) else float(buffer_bytes(a.buffer))
            found.setdefault(
                (a.buffer.name, 0 if once else n),
                Stream(count, size, size, whole, a.is_write, turns if count > 1 else 1),
            )
    reductions = sum(r.is_reduction for r in rows)
    combined = reductions * combination_cycles(rates, plan.threads)
    steps = min(plan.threads, WARP).bit_length() - 1
    operations = elements * sum(r.stage.operations + 1 for r in rows if r.iters) + 3 * steps * reductions
    threads = plan.threads * plan.rows
    held = elements * needs.words if plan.keeps_rows else 4 * AHEAD
    grid = Grid(max(1, needs.rounds // plan.rows), threads, operations, held, chain=combined)
    return streams_seconds(draft.machine, grid, found.values())


def _shifted_length(chain: Chain, rows: Sequence[Row], lanes: int) -> int | None:
    """The length of all rows, where they do not begin at multiples of ``lanes`` elements but lie along memory alone."""
    lengths = {r.length for r in rows if r.iters}
    if len(lengths) != 1 or lanes < SHIFTED_LANES or any(len(r.iters) > 1 for r in rows):
        return None
    (length,) = lengths
    across = any(not r.along(a) for r in rows if r.iters for a in r.stage.accesses if a.uses(r.iters[0].name))
    return None if across or length % lanes == 0 else length


def _is_memory(chain: Chain, buffer: str) -> bool:
    """Whether it is not handed on from stage to stage of ``chain`` alone."""
    writers = chain.stages.writers(buffer)
    return not writers or chain.stages.is_output(writers[0]) or any(w.name not in chain.alignments for w in writers)


def is_kept(chain: Chain, row: Row) -> bool:
    """Whether a whole row lives between stages."""
    return row.is_map and row.length > 1 and not chain.stages.is_output(row.stage)


def _is_fetched(chain: Chain, rows: Sequence[Row], buffer: str) -> bool:
    """Whether rows of ``buffer`` are best held in registers: they come from memory, and are reduced or read again."""
    if chain.stages.writers(buffer):
        return False
    reads = [(r, a) for r in rows for a in r.stage.reads if a.buffer.name == buffer and r.along(a)]
    return any(r.is_reduction for r, _ in reads) or len(reads) > 1


def schedule_row_chain(draft: GpuDraft, chain: Chain) -> None:
    """The stages of ``chain`` in blocks over the rows they share."""
    rows = rows_of(chain)
    if rows is None or not any(r.iters for r in rows):
        raise ScheduleError("its stages do not go along rows")
    needs = needs_of(chain, rows)
    price = partial(chain_seconds, draft, chain, rows, needs)
    plans: list[RowPlan] = draft.rank(chain.anchor.name, row_plans(draft, needs), price)
    if not plans:
        raise ScheduleError("a row is too long for the registers of a block")
    plan = plans[0]
    nest = _share(draft, chain, plan)
    fetched = _fetch(draft, chain, nest, rows) if plan.keeps_rows else []
    for name, loops in fetched:
        map_row(draft, cut_row(draft, loops[0], loops[1], plan), plan)
        draft.scheduled.add(name)
    for row in (r for r in rows if r.stage.name in nest.moved):
        _schedule_stage(draft, chain, nest, row, plan)
        draft.scheduled.add(row.stage.name)
    for loop in nest.loops:
        draft.s.bind(loop, "block")
    _tell(draft, chain, plan, fetched)


@dataclass(frozen=True, slots=True)
class _Nest:
    """The ``loops`` over rows, the stages ``moved`` into them, and what ``tile`` of rows a block has."""

    loops: list[str]
    moved: list[str]
    tile: ChainTile | None


def _share(draft: GpuDraft, chain: Chain, plan: RowPlan) -> _Nest:
    shared = list(chain.shared)
    if not shared:
        at = str(draft.s.wrap((*chain.anchor.loops, chain.anchor.name)[0]))
        for name in (n for n in chain.alignments if n != chain.anchor.name):
            draft.s.compute_at(name, at)
        return _Nest([at], list(chain.alignments), None)
    tile = ChainTile(shared[-1], plan.rows, "") if plan.rows > 1 else None
    loops = share_loops(draft, chain.anchor, shared, tile)
    loops, moved = ChainMover(draft, chain, shared, tile, loops).run()
    if len(moved) < len(chain.alignments):
        raise ScheduleError("not all of its stages can be computed row by row")
    return _Nest(loops, moved, tile)


def _own_loops(draft: GpuDraft, nest: _Nest, name: str) -> list[str]:
    return [str(x) for x in draft.s.loops(name)][len(nest.loops) :]


def _tile_loop(draft: GpuDraft, chain: Chain, nest: _Nest, name: str) -> str | None:
    """The loop of ``name`` over the rows of a block."""
    if nest.tile is None:
        return None
    iterator = chain.counterpart(chain.stages[name], nest.tile.name)
    found = draft.stage(name).by_name[iterator].loop if iterator is not None else None
    return found or _own_loops(draft, nest, name)[0]


def _schedule_stage(draft: GpuDraft, chain: Chain, nest: _Nest, row: Row, plan: RowPlan) -> None:
    name = row.stage.name
    over = _tile_loop(draft, chain, nest, name)
    stage = draft.stage(name)
    along = [loop for i in row.iters if (loop := stage.by_name[i.name].loop) is not None]
    order = [*([over] if over else []), *along]
    own = [x for x in _own_loops(draft, nest, name) if x not in order]
    if [*own, *order] != _own_loops(draft, nest, name):
        draft.s.reorder(*own, *order)
    if not along:
        if over is not None:
            draft.s.bind(over, "thread")
    elif row.is_map:
        map_row(draft, cut_row(draft, over, along, plan), plan)
    elif may_reorder(draft, row.stage):
        pieces = [] if plan.keeps_rows else _along_memory(chain, row)
        reduce_row(draft, name, cut_row(draft, over, along, plan), plan, pieces)
    else:
        if over is not None:
            draft.s.bind(over, "thread")
        draft.decide("fallback", name, "one thread reduces a row", "strict numerics keep the order of sums")


def _along_memory(chain: Chain, row: Row) -> list[str]:
    """Inputs whose rows lie along memory."""
    names = dict.fromkeys(a.buffer.name for a in row.stage.reads if row.along(a))
    return [n for n in names if not chain.stages.writers(n)]


#: A block that copies, its loop over rows of a block, its loops along a row.
_Copied = tuple[str, tuple[str | None, list[str]]]


def _fetch(draft: GpuDraft, chain: Chain, nest: _Nest, rows: Sequence[Row]) -> list[_Copied]:
    """Rows of inputs copied at the start."""
    made: list[_Copied] = []
    for buffer in dict.fromkeys(a.buffer.name for r in rows for a in r.stage.reads):
        if not _is_fetched(chain, rows, buffer):
            continue
        readers = [r for r in rows if any(a.buffer.name == buffer and r.along(a) for a in r.stage.reads)]
        refusal = draft.attempt(_copy, draft, chain, nest, readers, buffer, made)
        if refusal is not None:
            draft.decide("fallback", buffer, "its rows are not held in registers", refusal.why or refusal.what)
    return made


def _copy(draft: GpuDraft, chain: Chain, nest: _Nest, readers: Sequence[Row], buffer: str, made: list[_Copied]) -> None:
    row = readers[0]
    access = next(a for a in row.stage.reads if a.buffer.name == buffer and row.along(a))
    block, storage = draft.s.cache_read(buffer, at=nest.loops[-1], readers=[r.stage.name for r in readers])
    draft.check_size(str(storage), row.length * (nest.tile.size if nest.tile else 1))
    copy = draft.stage(str(block))
    by_dimension = {copy.write.subscript_of(i.name): i.loop for i in copy.iters if i.loop is not None}
    along = [by_dimension.get(row.dimension(access, i.name)) for i in row.iters]
    if None in along:
        raise ScheduleError("its subscripts are not those of a row")
    over = None
    if nest.tile is not None:
        iterator = chain.counterpart(row.stage, nest.tile.name)
        over = by_dimension.get(row.dimension(access, iterator)) if iterator is not None else None
    order = [*([over] if over else []), *(x for x in along if x is not None)]
    rest = [x for x in copy.loops if x not in order]
    if [*rest, *order] != list(copy.loops):
        draft.s.reorder(*rest, *order)
    made.append((str(block), (over, [x for x in along if x is not None])))


def _tell(draft: GpuDraft, chain: Chain, plan: RowPlan, fetched: Sequence[tuple[str, object]]) -> None:
    name = chain.anchor.name
    others = ", ".join(f"`{n}`" for n in chain.alignments if n != name)
    if others:
        names = ", ".join(f"`{n}`" for n in chain.shared)
        draft.decide("fusion", name, f"computed together with {others}", f"all go along with {names}")
    each = "a row" if plan.rows == 1 else f"each of {plan.rows} rows"
    size = f"{plan.pieces} pieces of {plan.lanes} elements a thread"
    draft.decide("parallel", name, f"{plan.threads} threads for {each} of a block", size)
    if fetched:
        names = ", ".join(f"`{n}`" for n, _ in fetched)
        draft.decide("registers", name, f"{names}: rows are held in registers", "they are read from memory once")


def rows_prices(draft: GpuDraft, stage: Stage) -> Callable[[RowsPlan], float]:
    """A part of a row in each block, as usual threads take it; then a launch for the results of parts."""
    row, rates = _whole_row(stage), rates_of(draft.machine.capability)
    results = prod(i.count for i in stage.spatial)
    lanes = lanes_for(a for a in stage.reads if row.along(a))

    def seconds(plan: RowsPlan) -> float:
        pieces = -(-row.length // (plan.parts * THREADS * lanes))
        streams = [stream_of(stage, a, row.iters[-1].name, lanes, pieces, max(1, pieces / AHEAD)) for a in stage.reads]
        grid = Grid(results * plan.parts, THREADS, pieces * lanes * (stage.operations + 1), 4 * AHEAD)
        last = 0.0 if plan.parts == 1 else rates.launch + plan.parts * results * 8 / draft.machine.bandwidth
        return streams_seconds(draft.machine, grid, streams) + last

    return seconds


ROWS: Strategy[GpuDraft] = Strategy("rows", rows_plans, apply_rows, rows_prices)
