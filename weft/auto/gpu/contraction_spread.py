"""Products of few rows whose warps share the depth: one launch, with blocks enough, that reads the other operand once.

What comes out, outermost first::

    block: tiles of columns
      pieces of the depth                       operands copied to shared memory some pieces ahead, or rows alone
        thread: warps, each with its part of a piece; lanes
          steps of that part, sums of all rows
      the sums of each warp, to shared memory
      those of all warps added up in order, and what is done with the result, stored
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil

from weft.auto.gpu.contraction_digits import COLUMNS, PAIR, Digits, cut_tile, digit_names, run_all, split_names
from weft.auto.gpu.contraction_instruction import find_instruction
from weft.auto.gpu.contraction_operands import (
    cooperate,
    padding_of,
    run_beyond,
    stage_operand,
)
from weft.auto.gpu.contraction_product import Product
from weft.auto.gpu.contraction_results import Nest, digits_of, find_reader, fold_sums
from weft.auto.gpu.contraction_tiles import FETCHED_BYTES, Tiles
from weft.auto.gpu.draft import WIDEST, GpuDraft
from weft.auto.stages import Stage, buffer_bytes
from weft.ir.buffer import Buffer
from weft.schedules.find import find_buffer
from weft.target.cuda.async_copies import SIZES
from weft.target.cuda.intrinsics import STEP_BYTES

#: Stages of what columns are made of, at most.
MOST_STAGES = 8


def schedule_spread(draft: GpuDraft, p: Product, tiles: Tiles, prologue: Stage | None) -> None:
    s, size = draft.s, p.rows.access.buffer.dtype.itemsize
    reader = find_reader(draft, p)
    rows, columns = (p.stage.loop_of(side.iterator.name) for side in p.sides)
    outer, columns = split_names(s, columns, tiles.columns)
    piece, warp, steps, step = digit_names(s, p.depth, tiles.depth, tiles.depth // tiles.spread, STEP_BYTES // size)
    s.reorder(outer, warp, rows, columns, piece, steps, step)
    if reader is not None:
        s.reverse_compute_at(reader[0].name, outer)
        s.store_at(p.sums, outer)
        fold_sums(draft, p, tiles, p.sums)
    block, sums = map(str, s.rfactor(warp, start="inside"))
    threads, own = cut_tile(s, p, tiles, (rows, columns))
    s.reorder(piece, warp, *threads, steps, *own, step)
    nest = Nest((outer,), (), piece, (warp, *threads), own)
    start = str(s.decompose_reduction(block, at=piece))
    copied, shared = _hand_over(draft, p, tiles, sums)
    fold_sums(draft, p, tiles, sums)
    sides = p.sides[:1] if tiles.fetched and prologue is None else p.sides
    operands = [stage_operand(draft, side, piece, tiles, share) for side, share in zip(sides, tiles.shares)]
    run_beyond(draft, replace(p, name=block), tiles, start)
    packed = [] if prologue is None else _packed(draft, prologue, operands[1][0], piece)
    for name in (p.name, *(() if reader is None else (reader[0].name,))):
        _finish(draft, name, tiles)
    s.bind(outer, "block")
    for loops, mine in ((nest.threads, ()), digits_of(draft, nest, start), copied):
        run_all(s, "thread", loops)
        run_all(s, "unroll", mine)
    around = len(nest.around_piece)
    for side, (load, storage) in zip(sides, operands):
        if side is p.columns and tiles.fetched:
            _make_in_lanes(draft, load, tiles, size, around)
            continue
        written_out = side.whole_bytes >= min(SIZES)
        cooperate(draft, load, storage, around, tiles.threads, written_out=written_out)
    s.tensorize(steps, find_instruction(draft, p, grouped=False) or "")
    for load, storage in packed:
        cooperate(draft, load, storage, around, tiles.threads, written_out=True)
    filled = [operands[0], *packed] if packed else operands
    s.pipeline(*(storage for _, storage in filled), stages=tiles.stages)
    for side, (_, storage) in zip(sides, operands):
        s.pad_rows(storage, padding_of(side, tiles), strided=bool(packed))
    for _, storage in packed:
        _pad_packed(draft, storage)
    s.pad_rows(shared, WIDEST // 4)


def _make_in_lanes(draft: GpuDraft, load: str, tiles: Tiles, size: int, around: int) -> None:
    """Columns made by the lanes that bring them to instructions: of each two steps and 8 columns 16 bytes of one."""
    s = draft.s
    with s.focus(load):
        columns, k = (str(x) for x in s.loops(load)[around:])
        across, tile, column = digit_names(s, columns, tiles.own_columns, COLUMNS)
        inside = (tiles.depth // tiles.spread, FETCHED_BYTES // size, WIDEST // size)
        warp, steps, quarter, element = digit_names(s, k, *inside)
        s.reorder(warp, across, column, quarter, steps, tile, element)
        run_all(s, "thread", (warp, across, column, quarter))
        run_all(s, "unroll", (steps, tile))
        s.vectorize(element)
    draft.scheduled.add(load)


def _pad_packed(draft: GpuDraft, storage: str) -> None:
    """Rows of what columns are made of 16 bytes further apart, so that lanes read those of 8 columns at a time."""
    buffer = find_buffer(draft.s.kernel, storage)
    row = int(buffer.shape[-1].value) * buffer.dtype.itemsize  # type: ignore[attr-defined]
    if row % WIDEST == 0:
        draft.s.pad_rows(storage, WIDEST // buffer.dtype.itemsize, strided=True)


def packed_stages(prologue: Stage, tiles: Tiles, room: int) -> int:
    """Stages of rows, and of what columns are made of, that fit so many bytes beside the warps' sums."""
    size = prologue.write.buffer.dtype.itemsize
    rows = tiles.rows * (tiles.depth * size + FETCHED_BYTES)
    packed = tiles.columns * (ceil(packed_part(prologue) * size * tiles.depth) + WIDEST)
    once = 4 * tiles.spread * tiles.rows * (tiles.columns + 4)
    return min(MOST_STAGES, (room - once) // (rows + packed))


def packed_part(prologue: Stage) -> float:
    """How large what columns are made of is, as a part of these."""
    return sum(map(buffer_bytes, _sources(prologue).values())) / buffer_bytes(prologue.write.buffer)


def _sources(prologue: Stage) -> dict[str, Buffer]:
    return {a.buffer.name: a.buffer for a in prologue.reads}


def comes_packed(prologue: Stage) -> bool:
    """Whether what columns are made of is at most half as large as these."""
    return 2 * packed_part(prologue) <= 1


def _packed(draft: GpuDraft, prologue: Stage, load: str, piece: str) -> list[tuple[str, str]]:
    """What an operand is made of, copied ahead in its stead where it is at most half as large: copies run on their
    own, and what is computed is waited for."""
    s = draft.s
    sources = _sources(prologue) if comes_packed(prologue) else {}
    s.compute_inline(prologue.name)
    copies = [s.cache_read(name, at=piece, scope="shared", readers=[load]) for name in sources]
    return [(str(copy), str(storage)) for copy, storage in copies]


def _hand_over(draft: GpuDraft, p: Product, tiles: Tiles, sums: str) -> tuple[Digits, str]:
    """The sums of all warps in shared memory: the loops that put them there, and the storage."""
    s = draft.s
    _, rows, *_ = map(str, s.loops(p.name))
    once, _ = split_names(s, rows, tiles.rows)
    copy, storage = map(str, s.cache_read(sums, scope="shared", at=once, readers=[p.name]))
    _, _, warp, *tile = map(str, s.loops(copy))
    threads, own = cut_tile(s, p, tiles, tile)
    s.reorder(warp, *threads, *own)
    draft.scheduled.add(copy)
    return ((warp, *threads), own), storage


def _finish(draft: GpuDraft, name: str, tiles: Tiles) -> None:
    """A block that goes through the results of a tile, each by one thread: pairs side by side."""
    s, stage = draft.s, draft.stage(name)
    summed = [i.loop for i in stage.reductions if i.loop is not None]
    *_, rows, columns = (x for x in stage.loops if x not in summed)
    pairs, pair = split_names(s, str(s.fuse(rows, columns)), PAIR)
    turns, thread = split_names(s, pairs, tiles.threads)
    s.reorder(thread, turns, *summed, pair)
    s.bind(thread, "thread")
    for loop in (turns, *summed):
        s.unroll(loop)
    s.vectorize(pair)
    draft.scheduled.add(name)
