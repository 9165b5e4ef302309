"""Products of matrices and their like on a GPU: tiles of sums in registers, operands in shared memory.

What comes out, outermost first::

    block: batches, tiles of rows, tiles of columns
      sums of the tile
      pieces of the depth                       operands copied to shared memory some pieces ahead
        thread: rows and columns of the tile
          steps of a piece
            sums of a thread, unrolled
      what is done with each sum, stored

With matrix instructions the threads are the lanes of warps, and the steps and sums of a warp one instruction after
another. The sizes are `contraction_tiles`'s answer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import gcd

from weft.auto.align import counterparts
from weft.auto.gpu.contraction_copies import cut_depth, move_apart, surround_operands
from weft.auto.gpu.contraction_digits import BLOCK, VECTOR, cut_tile, plain_factors, split_names
from weft.auto.gpu.contraction_instruction import find_instruction
from weft.auto.gpu.contraction_product import Product, Side, read_product
from weft.auto.gpu.contraction_tiles import (
    ContractionPlan,
    Tiles,
    contraction_tiles,
    count_blocks,
    possible_plans,
)
from weft.auto.gpu.contraction_time import product_seconds
from weft.auto.gpu.draft import WIDEST, GpuDraft
from weft.auto.gpu.epilogue import epilogue_of
from weft.auto.gpu.points import POINTS
from weft.auto.stages import Stage
from weft.auto.strategy import Strategy
from weft.ir.errors import ScheduleError
from weft.ir.expr import Const
from weft.passes.analysis.loop_ranges import constant_extent
from weft.schedules.find import find_buffer, find_loop
from weft.schedules.layouts import LETTERS
from weft.schedules.schedule import Schedule
from weft.target.cuda.async_copies import SIZES
from weft.target.cuda.intrinsics import STEP_BYTES
from weft.target.cuda.rates import RESERVED_SHARED

#: Tiles of rows that blocks go through for each tile of columns, at most: neighbouring blocks share operands in the
#: cache.
GROUP = 8
#: Products of a thread that are written out, at most: more are no quicker, and take long to compile.
WRITTEN_OUT = 1024


def contraction_plans(draft: GpuDraft, stage: Stage) -> list[ContractionPlan]:
    """Tiles for all instructions that the machine has for this, and of each thread's own arithmetic, best first: no
    tiles are the usual ones."""
    product = read_product(stage, surrounded=False)
    if product is None:
        return []
    known = (("groups", True), ("warps", False))
    kinds = [kind for kind, grouped in known if find_instruction(draft, product, grouped=grouped)]
    tiles = contraction_tiles(product, draft.machine, (*kinds, "threads"))
    reader = epilogue_of(draft, stage)
    if reader is not None and _is_narrow(reader):
        tiles = [t for t in tiles if not t.grouped or _has_room(draft, product, t, reader)]
    plans = possible_plans(product, draft.machine, tiles, may_part=draft.is_fast)
    prices = draft.expected[stage.name] = {p: product_seconds(product, draft.machine, p) for p in plans}
    return sorted(plans, key=prices.__getitem__)


def _is_narrow(reader: Stage) -> bool:
    return reader.write.buffer.dtype.itemsize < VECTOR


def _staged_columns(tiles: Tiles) -> int:
    """Columns of a tile whose results are in shared memory at a time: so few that operands have all the stages."""
    return 2 * BLOCK if tiles.columns % (2 * BLOCK) == 0 else BLOCK


def _has_room(draft: GpuDraft, p: Product, tiles: Tiles, reader: Stage) -> bool:
    """Whether shared memory also holds results, where they go through it."""
    size = reader.write.buffer.dtype.itemsize
    staged = tiles.rows * (_staged_columns(tiles) + WIDEST // size) * size
    operands = tiles.shared_bytes(p.rows.access.buffer.dtype.itemsize)
    return operands + staged + RESERVED_SHARED <= draft.machine.shared_per_block


def contraction_prices(draft: GpuDraft, stage: Stage) -> Callable[[ContractionPlan], float]:
    return draft.expected[stage.name].__getitem__


def apply_contraction(draft: GpuDraft, name: str, plan: ContractionPlan) -> None:
    copies = [*surround_operands(draft, name), *(move_apart(draft, name) if plan.moved else ())]
    product = read_product(draft.stage(name))
    if product is None:
        raise ScheduleError(f"`{name}` tests what it reads")
    if plan.parts > 1:
        product = cut_depth(draft, product, plan.parts)
    _schedule(draft, product, plan.tiles)
    _tell(draft, product, plan)
    if plan.parts > 1:
        POINTS.schedule(draft, name)
    for copy in copies:  # as it was made until here, so that what it fills can be seen
        POINTS.schedule(draft, copy)
    draft.scheduled |= {*copies}


@dataclass(frozen=True, slots=True)
class _Nest:
    """The loops of a product: ``outer`` over blocks, ``around`` and ``piece`` through the reduction, then the tile."""

    outer: tuple[str, ...]
    around: tuple[str, ...]
    piece: str
    threads: tuple[str, ...]
    own: tuple[str, ...]

    @property
    def depth(self) -> int:
        """Loops around what a piece does."""
        return len(self.outer) + len(self.around) + 1


def _outer_loops(draft: GpuDraft, p: Product, tiles: Tiles) -> tuple[tuple[str, ...], str, str, str, str]:
    """Loops over blocks, and those through the rows, columns and pieces of a tile."""
    s = draft.s
    rows, i = split_names(s, p.stage.loop_of(p.rows.iterator.name), tiles.rows)
    columns, j = split_names(s, p.stage.loop_of(p.columns.iterator.name), tiles.columns)
    piece, k = split_names(s, p.depth, tiles.depth)
    outer = (*p.batch, rows, columns)
    count = -(-p.rows.iterator.count // tiles.rows)
    together = next(n for n in range(min(GROUP, count), 0, -1) if count % n == 0)
    if together == count:
        outer = (*p.batch, columns, rows)
    elif together > 1:
        groups, rows = split_names(s, rows, together)
        outer = (*p.batch, groups, columns, rows)
    return outer, i, j, piece, k


def _schedule(draft: GpuDraft, p: Product, tiles: Tiles) -> None:
    s, size = draft.s, p.rows.access.buffer.dtype.itemsize
    reader = _find_reader(draft, p)
    outer, i, j, piece, k = _outer_loops(draft, p, tiles)
    steps, step = split_names(s, k, STEP_BYTES // size if tiles.warps else VECTOR)
    rounds, steps = ((), steps) if tiles.warps else _written_out(s, steps, tiles)
    nest = _Nest(outer, p.around, piece, *cut_tile(s, p, tiles, (i, j)))
    inside = (steps, *nest.own, step) if tiles.warps else (*rounds, steps, step, *nest.own)
    s.reorder(*outer, *p.around, piece, *nest.threads, *inside)
    kept = _keep_sums(draft, p, tiles, nest, reader)
    operands = [_stage_operand(draft, side, piece, tiles, share) for side, share in zip(p.sides, tiles.shares)]
    _run_beyond(draft, p, tiles, kept.start)
    for side, (_, storage) in zip(p.sides, () if tiles.warps else operands):
        keep_in_registers(draft, storage, steps if side.along_depth else step)
    _bind(draft, p, nest, kept)
    for side, (load, storage) in zip(p.sides, operands):
        cooperate(draft, load, storage, nest.depth, tiles.threads, written_out=_whole_bytes(side) >= min(SIZES))
    if kept.results is not None:
        around = len(s.loops(kept.results[0])) - 2
        cooperate(draft, *kept.results, around, tiles.threads, written_out=True)
        s.pad_rows(kept.results[1], WIDEST // find_buffer(s.kernel, kept.results[1]).dtype.itemsize)
    if tiles.warps:
        s.tensorize(steps, find_instruction(draft, p, grouped=tiles.grouped) or "")
    for loop in () if tiles.warps else (steps, step, *nest.own):
        s.unroll(loop)
    s.pipeline(*(storage for _, storage in operands), stages=tiles.stages)
    for side, (_, storage) in zip(p.sides, operands):
        if padding := _padding(side, tiles):
            s.pad_rows(storage, padding)


def _padding(side: Side, tiles: Tiles) -> int:
    """Elements between rows in shared memory, so that rows that are read together are in other banks.

    By single words matrix instructions read four rows at a time, else eight.
    """
    size = side.access.buffer.dtype.itemsize
    if tiles.grouped or not (tiles.warps or side.along_depth):
        return 0
    return (WIDEST if side.along_depth or size < VECTOR else 2 * WIDEST) // size


def _written_out(s: Schedule, quads: str, tiles: Tiles) -> tuple[tuple[str, ...], str]:
    """The loop through a piece, four steps at a time, as rounds that are written out."""
    most = WRITTEN_OUT // (tiles.own_rows * tiles.own_columns * VECTOR)
    if tiles.depth // VECTOR <= most:
        return (), quads
    rounds, quads = split_names(s, quads, max(1, most))
    return (rounds,), quads


@dataclass(frozen=True, slots=True)
class _Kept:
    """The block that starts the sums of a tile, and the ``threads`` and ``own`` loops of that which finishes them;
    ``results`` are stored by another block from other storage, where that is quicker."""

    start: str
    threads: tuple[str, ...]
    own: tuple[str, ...]
    results: tuple[str, str] | None = None


def _find_reader(draft: GpuDraft, p: Product) -> tuple[Stage, tuple[str, str]] | None:
    """What is done with each sum, and its iterators that go along with rows and columns."""
    reader = epilogue_of(draft, p.stage) if p.name == p.stage.name else None
    if reader is None:
        return None
    pairs = counterparts(p.stage, reader)
    return reader, (pairs[p.rows.iterator.name], pairs[p.columns.iterator.name])


def _keep_sums(
    draft: GpuDraft, p: Product, tiles: Tiles, nest: _Nest, reader: tuple[Stage, tuple[str, str]] | None
) -> _Kept:
    """The sums of a tile in storage of the block; what is done with each of them joins in, if that can be."""
    if reader is not None:
        found: list[_Kept] = []
        refusal = draft.attempt(lambda: found.append(_join_reader(draft, p, tiles, nest, *reader)))
        if refusal is None:
            return found[0]
        draft.decide("fallback", reader[0].name, f"not done with the sums of `{p.name}`", refusal.why or refusal.what)
    before = {str(b) for b in draft.s.blocks()}
    store, storage = draft.s.cache_write(p.sums, scope="global", at=nest.outer[-1])
    (start,) = {str(b) for b in draft.s.blocks()} - before - {str(store)}
    if p.rows.iterator.count < tiles.rows:
        of_parts = len(find_buffer(draft.s.kernel, str(storage)).shape) - p.stage.write.buffer.rank
        draft.s.fold_storage(storage, of_parts + _written_dimension(p, p.rows.iterator.name), tiles.rows)
    return _Kept(start, *_digits_of(draft, nest, str(store)))


def _digits_of(draft: GpuDraft, nest: _Nest, block: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The loops of ``block`` in a tile: over threads, and over what a thread has. Digits that are always 0 are none."""
    s = draft.s
    loops = tuple(str(x) for x in s.loops(block))[len(nest.outer) :]
    several = [x for x in nest.threads if constant_extent(find_loop(s.kernel, x)) != 1]
    count = len(nest.threads if len(loops) == len((*nest.threads, *nest.own)) else several)
    return loops[:count], loops[count:]


def _join_reader(
    draft: GpuDraft, p: Product, tiles: Tiles, nest: _Nest, reader: Stage, iterators: tuple[str, str]
) -> _Kept:
    """``reader`` at the end of each tile, on its sums; storage for them as large as a tile."""
    s, sums, at = draft.s, p.sums, nest.outer[-1]
    s.reverse_compute_at(reader.name, at)
    s.store_at(sums, at)
    start = s.decompose_reduction(p.name, at=(*nest.around, nest.piece)[0])
    own = draft.stage(reader.name)
    loops = [own.by_name[name].loop for name in iterators]
    others = [x for x in own.loops if x not in loops]
    if None in loops:
        raise ScheduleError(f"`{reader.name}` goes through sums in another way")
    single, tile = zip(*(split_names(s, str(x), n) for x, n in zip(loops, (tiles.rows, tiles.columns))))
    results = None
    if tiles.grouped and _is_narrow(reader):
        part, columns = split_names(s, tile[1], _staged_columns(tiles))
        single, tile = (*single, part), (tile[0], columns)
        s.reorder(*others, *single, *tile)
        results = _stage_results(draft, reader, part)
        if results is not None:
            what = f"results of {_staged_columns(tiles)} columns at a time go through shared memory"
            draft.decide("storage", reader.name, what, "threads side by side store whole sectors")
        s.unroll(part)
    else:
        s.reorder(*others, *single, *tile)
    threads, mine = cut_tile(s, p, tiles, tile)
    s.reorder(*threads, *mine)
    for i, size in _tile_sizes(p, tiles).items():
        s.fold_storage(sums, _written_dimension(p, i), size)
    draft.scheduled.add(reader.name)
    why = f"{reader.operations} operations an element, on sums still in registers"
    draft.decide("fusion", reader.name, f"done at the end of each tile of `{p.stage.name}`", why)
    return _Kept(str(start), threads, mine, results)


def _tile_sizes(p: Product, tiles: Tiles) -> dict[str, int]:
    """How much of each iterator of the results a block has."""
    sizes = {i.name: 1 for i in p.stage.spatial if i.loop in p.batch and i.count > 1}
    return {p.rows.iterator.name: tiles.rows, p.columns.iterator.name: tiles.columns, **sizes}


def _written_dimension(p: Product, iterator: str) -> int:
    rows = p.stage.write.rows or ()
    return next(d for d, row in enumerate(rows) if row.get(iterator))


def _stage_operand(draft: GpuDraft, side: Side, piece: str, tiles: Tiles, share: tuple[int, int]) -> tuple[str, str]:
    """What a piece reads of an operand in shared memory, what lies side by side last; loaded by which block.

    Neighbours of a tile are taken apart into groups so that what a thread reads is a box, or into rows as instructions
    of warp groups read them.
    """
    rank = side.access.buffer.rank
    tiled, deep = side.dimension, side.deep
    others = [LETTERS[d] for d in range(rank) if d not in (tiled, deep)]
    letter = LETTERS[tiled]
    width = BLOCK if tiles.grouped else plain_factors(side, *share)[0]
    if tiles.warps and side.iterator.count < share[0]:  # what a tile has more than there is are zeros
        width = share[0]
    is_whole = tiles.warps and side.iterator.count >= share[0]
    words = [letter] if is_whole else [f"{letter}/{width}", f"{letter}%{width}"]
    order = [*words, LETTERS[deep]] if side.along_depth else [LETTERS[deep], *words]
    if tiles.grouped and not side.along_depth:
        order = [f"{letter}/{width}", LETTERS[deep], f"{letter}%{width}"]
    load, storage = draft.s.pack(side.buffer, " ".join([*others, *order]), at=piece, scope="shared", pad=True)
    return str(load), str(storage)


def _stage_results(draft: GpuDraft, reader: Stage, at: str) -> tuple[str, str] | None:
    """Results in shared memory, from where threads side by side store whole sectors; None where that is refused."""
    buffer = reader.write.buffer
    made: list[str] = []
    refusal = draft.attempt(lambda: made.extend(map(str, draft.s.cache_write(buffer.name, scope="shared", at=at))))
    return None if refusal else (made[0], made[1])


def _run_beyond(draft: GpuDraft, p: Product, tiles: Tiles, start: str) -> None:
    """Tiles that are not full are computed as if they were; nothing of that is stored."""
    uneven = [i.count % n != 0 for i, n in zip((s.iterator for s in p.sides), (tiles.rows, tiles.columns))]
    if any(uneven):
        draft.s.pad(start)
    if any(uneven) or p.deep % tiles.depth:
        draft.s.pad(p.name)


def keep_in_registers(draft: GpuDraft, storage: str, at: str) -> None:
    """What one step (or some) reads of shared memory, loaded once, as wide as it lies side by side."""
    s = draft.s
    copy, _ = s.cache_read(storage, at=at, scope="register")
    loops = [str(x) for x in s.loops(copy)]
    own = loops[loops.index(at) + 1 :]
    for loop in own[:-1]:
        s.unroll(loop)
    s.vectorize(own[-1])


def _bind(draft: GpuDraft, p: Product, nest: _Nest, kept: _Kept) -> None:
    s = draft.s
    threads, own = _digits_of(draft, nest, kept.start)
    for loop in nest.outer:
        s.bind(loop, "block")
    for loop in (*nest.threads, *threads, *kept.threads):
        s.bind(loop, "thread")
    for loop in (*own, *kept.own[:-1]):
        s.unroll(loop)
    s.vectorize(kept.own[-1])


def cooperate(draft: GpuDraft, load: str, storage: str, outer: int, threads: int, *, written_out: bool) -> None:
    """The copy into ``storage`` by all threads, each of them 16 bytes at a time where that divides a row.

    It is to be ``written_out``, unless elements come one by one and are too small to be copied while threads go on.
    """
    s = draft.s
    buffer = find_buffer(s.kernel, storage)
    length = int(buffer.shape[-1].value)  # type: ignore[attr-defined]
    *loops, last = (str(x) for x in s.loops(load)[outer:])
    vectors, lanes = split_names(s, last, gcd(length, WIDEST // buffer.dtype.itemsize))
    turns, thread = split_names(s, str(s.fuse(*loops, vectors)), threads)
    s.reorder(thread, turns, lanes)
    s.bind(thread, "thread")
    s.vectorize(lanes)
    if written_out:
        s.unroll(turns)
    draft.scheduled.add(load)


def _whole_bytes(side: Side) -> int:
    """What rows of an operand are a multiple of in memory, up to 16 bytes."""
    buffer = side.access.buffer
    row = buffer.shape[-1]
    return gcd(int(row.value) * buffer.dtype.itemsize, WIDEST) if isinstance(row, Const) else buffer.dtype.itemsize


def _tell(draft: GpuDraft, p: Product, plan: ContractionPlan) -> None:
    tiles, blocks = plan.tiles, count_blocks(p, plan.tiles)
    who = "warp" if tiles.warps else "thread"
    why = f"{blocks} blocks for {draft.machine.sms} multiprocessors"
    draft.decide("tiling", p.name, f"blocks of {tiles.name} sums", why)
    how = "matrix instructions" if tiles.warps else f"{tiles.own_rows + tiles.own_columns} loads for each step"
    draft.decide("registers", p.name, f"{tiles.own_rows} x {tiles.own_columns} sums a {who}", how)
    size = max(s.access.buffer.dtype.itemsize for s in p.sides)
    deep = f"operands {tiles.depth} steps at a time in shared memory, {tiles.stages - 1} ahead"
    room = f"{tiles.shared_bytes(size) >> 10} KiB of {draft.machine.shared_per_block >> 10}"
    draft.decide("storage", p.name, deep, room)
    if tiles.grouped:
        problem = p.why_not_fetched(draft.machine)
        by = "all threads" if problem else "the copy engine, for blocks that go from tile to tile"
        draft.decide("storage", p.name, f"copied by {by}", problem or "if arrays begin at multiples of 16 bytes")
    draft.scheduled.add(p.name)


CONTRACTION: Strategy[GpuDraft] = Strategy("contraction", contraction_plans, apply_contraction, contraction_prices)
