"""Loops over the tiles of a product, and its operands in shared memory: who copies them, in which order they lie."""

from __future__ import annotations

from math import gcd

from weft.auto.gpu.box_loops import box_layout, deep_layout, split_loops
from weft.auto.gpu.contraction_digits import BLOCK, VECTOR, plain_factors, split_names
from weft.auto.gpu.contraction_product import Product, Side, whole_bytes
from weft.auto.gpu.contraction_results import Kept, Ways
from weft.auto.gpu.contraction_tiles import FETCHED_BYTES, GROUP, Tiles, streamed_side, tiles_together, uneven_sides
from weft.auto.gpu.draft import WIDEST, GpuDraft
from weft.auto.gpu.grid import as_one
from weft.auto.stages import Stage
from weft.schedules.find import find_buffer
from weft.schedules.layouts import LETTERS
from weft.schedules.schedule import Schedule


def outer_loops(draft: GpuDraft, p: Product, tiles: Tiles) -> tuple[tuple[str, ...], list[str], list[str], str, str]:
    """Loops over blocks, through the rows and columns of a tile, over pieces of the depth, through one.

    Of a single piece there is none to be ahead of: then the last loop over blocks, through some tiles of a side, takes
    its place (`streamed_side`), and further sums, of one element each, go with the depth.
    """
    s = draft.s
    loops = [[p.stage.loop_of(i.name) for i in side.tiled] for side in p.sides]
    (*boxes, rows), down = split_loops(s, loops[0], p.rows.sizes_of(tiles.rows))
    columns, across = split_loops(s, loops[1], p.columns.sizes_of(tiles.columns))
    streamed = streamed_side(p, tiles, draft.machine)
    wanted = GROUP if streamed is None else tiles.stages
    groups, some = in_groups(s, rows, p.rows.last_tiles_of(tiles.rows), wanted)
    outer = (*p.batch, *boxes, *groups, *columns, *some)
    if streamed is p.columns:
        groups, some = in_groups(s, columns[-1], p.columns.last_tiles_of(tiles.columns), wanted)
        outer = (*p.batch, rows, *groups, *some)
    if p.cut is not None:
        return outer, down, across, *p.cut
    if streamed is None:
        return outer, down, across, *split_names(s, p.depth, tiles.depth)
    if p.around:
        s.reorder(*p.around, p.depth)
    return outer, down, across, outer[-1], as_one(draft, (*p.around, p.depth))


def in_groups(s: Schedule, loop: str, count: int, wanted: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """``loop`` over so many tiles, as those over groups of them, if any, and through a group, if that is several."""
    together = tiles_together(count, wanted)
    if together == count:
        return (), (loop,)
    if together == 1:
        return (loop,), ()
    groups, some = split_names(s, loop, together)
    return (groups,), (some,)


def stage_operand(draft: GpuDraft, side: Side, piece: str, tiles: Tiles, share: tuple[int, int]) -> tuple[str, str]:
    """What a piece reads of an operand in shared memory, what lies side by side last; loaded by which block.

    Neighbours of a tile are taken apart into groups so that what a thread reads is a box, or into rows as instructions
    of warp groups read them.
    """
    if side.sizes or side.deep_sizes:
        layout = box_layout(side) if side.sizes else deep_layout(side, BLOCK)
        load, storage = draft.s.pack(side.buffer, layout, at=piece, scope="shared", pad=True)
        return str(load), str(storage)
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


def run_beyond(draft: GpuDraft, p: Product, tiles: Tiles, start: str) -> None:
    """Tiles that are not full are computed as if they were; nothing of that is stored."""
    uneven = uneven_sides(p, tiles)
    if uneven:
        draft.s.pad(start)
    if uneven or p.deep % tiles.depth or any(i.count % n for i, n in zip(p.rows.deep_box, p.rows.deep_sizes)):
        draft.s.pad(p.name)


def padding_of(side: Side, tiles: Tiles) -> int:
    """Elements between rows in shared memory, so that rows that are read together are in other banks.

    By single words matrix instructions read four rows at a time, else eight, and 64 bytes of each to fetched columns.
    """
    size = side.access.buffer.dtype.itemsize
    if tiles.fetched:
        return FETCHED_BYTES // size
    if tiles.grouped or not (tiles.warps or side.along_depth):
        return 0
    return (WIDEST if side.along_depth or size < VECTOR else 2 * WIDEST) // size


def keep_in_registers(draft: GpuDraft, storage: str, at: str) -> None:
    """What one step (or some) reads of shared memory, loaded once, as wide as it lies side by side."""
    s = draft.s
    copy, _ = s.cache_read(storage, at=at, scope="register")
    loops = [str(x) for x in s.loops(copy)]
    own = loops[loops.index(at) + 1 :]
    for loop in own[:-1]:
        s.unroll(loop)
    s.vectorize(own[-1])


def cooperate(
    draft: GpuDraft, load: str, storage: str, outer: int, threads: int, *, written_out: bool, widest: int = WIDEST
) -> None:
    """The copy into ``storage``, or from it, by all threads, each of them ``widest`` bytes at a time where that divides
    a row: threads side by side are not to be further apart in memory than one access reaches.

    It is to be ``written_out``, unless elements come one by one and are too small to be copied while threads go on.
    """
    s = draft.s
    buffer = find_buffer(s.kernel, storage)
    length = int(buffer.shape[-1].value)  # type: ignore[attr-defined]
    with s.focus(load):
        *loops, last = (str(x) for x in s.loops(load)[outer:])
        vectors, lanes = split_names(s, last, gcd(length, max(1, widest // buffer.dtype.itemsize)))
        turns, thread = split_names(s, str(s.fuse(*loops, vectors)), threads)
        s.reorder(thread, turns, lanes)
        s.bind(thread, "thread")
        s.vectorize(lanes)
        if written_out:
            s.unroll(turns)
    draft.scheduled.add(load)


def store_results(draft: GpuDraft, kept: Kept, reader: tuple[Stage, Ways] | None, tiles: Tiles) -> None:
    """Results that go through shared memory, stored from there by threads side by side."""
    if kept.results is None or reader is None:
        return
    s, (block, storage), written = draft.s, kept.results, reader[0].write.buffer
    size = find_buffer(s.kernel, storage).dtype.itemsize
    wide = whole_bytes(written) * size // written.dtype.itemsize
    cooperate(draft, block, storage, len(s.loops(block)) - 2, tiles.threads, written_out=True, widest=wide)
    s.pad_rows(storage, WIDEST // size, strided=block == reader[0].name)
