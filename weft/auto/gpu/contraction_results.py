"""What is done with the sums of a tile: they start as zeros, and whoever reads them does so at the end of each tile.

Results narrower than sums go through shared memory, so that threads side by side store whole sectors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from weft.auto.align import counterparts
from weft.auto.gpu.box_loops import split_loops
from weft.auto.gpu.contraction_digits import BLOCK, VECTOR, column_block, cut_tile, split_names
from weft.auto.gpu.contraction_product import Product
from weft.auto.gpu.contraction_tiles import Tiles, uneven_sides
from weft.auto.gpu.draft import WIDEST, GpuDraft
from weft.auto.gpu.epilogue import epilogue_of
from weft.auto.gpu.grid import as_one
from weft.auto.stages import Stage
from weft.ir.errors import ScheduleError
from weft.passes.analysis.loop_ranges import constant_extent
from weft.schedules.find import find_buffer, find_loop
from weft.schedules.layouts import LETTERS
from weft.target.cuda.rates import RESERVED_SHARED


@dataclass(frozen=True, slots=True)
class Nest:
    """The loops of a product: ``outer`` over blocks, ``around`` and ``piece`` through the reduction, then the tile. Of
    a depth that is a single piece, ``piece`` is the last of the outer ones."""

    outer: tuple[str, ...]
    around: tuple[str, ...]
    piece: str
    threads: tuple[str, ...]
    own: tuple[str, ...]

    @property
    def around_piece(self) -> tuple[str, ...]:
        """Loops around what a piece does."""
        return self.outer if self.piece in self.outer else (*self.outer, *self.around, self.piece)

    @property
    def inside_tile(self) -> str:
        """The first loop of what sums a tile up."""
        return self.threads[0] if self.piece in self.outer else (*self.around, self.piece)[0]


def is_narrow(reader: Stage) -> bool:
    return reader.write.buffer.dtype.itemsize < VECTOR


def _staged_columns(tiles: Tiles) -> int:
    """Columns of a tile whose results are in shared memory at a time: so few that operands have all the stages."""
    return 2 * BLOCK if tiles.columns % (2 * BLOCK) == 0 else column_block(tiles.columns)


def has_room(draft: GpuDraft, p: Product, tiles: Tiles, reader: Stage, with_sums: bool, besides: int = 0) -> bool:
    """Whether shared memory also holds results, or sums, where they go through it, and so many bytes ``besides``."""
    size = p.stage.write.buffer.dtype.itemsize if with_sums else reader.write.buffer.dtype.itemsize
    columns = column_block(tiles.columns) if with_sums else _staged_columns(tiles)
    staged = tiles.rows * (columns + WIDEST // size) * size
    operands = tiles.shared_bytes(p.rows.access.buffer.dtype.itemsize)
    return operands + staged + besides + RESERVED_SHARED <= draft.machine.shared_per_block


@dataclass(frozen=True, slots=True)
class Kept:
    """The blocks that start the sums of a tile, and the ``threads`` and ``own`` loops of that which finishes them;
    ``results`` are stored by another block from other storage, where that is quicker."""

    starts: tuple[str, ...]
    threads: tuple[str, ...]
    own: tuple[str, ...]
    results: tuple[str, str] | None = None


#: Names of iterators along the rows of a tile, and along its columns.
Ways = tuple[list[str], ...]


def find_reader(draft: GpuDraft, p: Product) -> tuple[Stage, Ways] | None:
    """What is done with each sum, and its iterators that go along with rows and columns."""
    reader = epilogue_of(draft, p.stage) if p.name == p.stage.name else None
    if reader is None:
        return None
    return reader, _ways(p, reader)


def _ways(p: Product, reader: Stage) -> Ways:
    pairs = counterparts(p.stage, reader)
    return tuple([pairs[i.name] for i in side.tiled] for side in p.sides)


def keep_sums(
    draft: GpuDraft, every: Sequence[Product], tiles: Tiles, nest: Nest, reader: tuple[Stage, Ways] | None
) -> Kept:
    """The sums of a tile in storage of the block; what is done with each of them joins in, if that can be (as it must
    with those of several products)."""
    p = every[0]
    if reader is not None:
        found: list[Kept] = []
        refusal = draft.attempt(lambda: found.append(_join_reader(draft, every, tiles, nest, *reader)))
        if refusal is None:
            return found[0]
        if len(every) > 1:
            raise refusal
        draft.decide("fallback", reader[0].name, f"not done with the sums of `{p.name}`", refusal.why or refusal.what)
    before = {str(b) for b in draft.s.blocks()}
    store, storage = draft.s.cache_write(p.sums, scope="global", at=nest.outer[-1])
    (start,) = {str(b) for b in draft.s.blocks()} - before - {str(store)}
    of_parts = len(find_buffer(draft.s.kernel, str(storage)).shape) - p.stage.write.buffer.rank
    short = [(i, n) for side, size in zip(p.sides, (tiles.rows, tiles.columns))
             for i, n in zip(side.tiled, side.sizes_of(size)) if i.count < n]  # fmt: skip
    draft.fold(str(storage), [(of_parts + _written_dimension(p, i.name), n) for i, n in short])
    _join_box(draft, p, str(storage))
    return Kept((start,), *digits_of(draft, nest, str(store)))


def digits_of(draft: GpuDraft, nest: Nest, block: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The loops of ``block`` in a tile: over threads, and over what a thread has. Digits that are always 0 are none."""
    s = draft.s
    loops = tuple(str(x) for x in s.loops(block))[len(nest.outer) :]
    several = [x for x in nest.threads if constant_extent(find_loop(s.kernel, x)) != 1]
    count = len(nest.threads if len(loops) == len((*nest.threads, *nest.own)) else several)
    return loops[:count], loops[count:]


def _join_reader(
    draft: GpuDraft, every: Sequence[Product], tiles: Tiles, nest: Nest, reader: Stage, ways: Ways
) -> Kept:
    """``reader`` at the end of each tile, on its sums; storage for them as large as a tile."""
    s, p, at = draft.s, every[0], nest.outer[-1]
    s.reverse_compute_at(reader.name, at)
    for q in every:
        s.store_at(q.sums, at)
    starts = tuple(str(s.decompose_reduction(q.name, at=nest.inside_tile)) for q in every)
    for q in every:
        fold_sums(draft, q, tiles, q.sums)
        _join_box(draft, q, q.sums)
    own = draft.stage(reader.name)
    others, single, tile = _tile_loops(draft, p, tiles, own, ways)
    results = None
    if tiles.grouped and is_narrow(reader):
        with_sums = reads_beside(p, reader) and len(every) == 1 and not uneven_sides(p, tiles)
        staged = column_block(tiles.columns) if with_sums else _staged_columns(tiles)
        part, columns = split_names(s, tile[1], staged)
        single, tile = [*single, part], [tile[0], columns]
        s.reorder(*others, *single, *tile)
        results = None if with_sums else _stage_results(draft, reader, part)
        if results is not None:
            what = f"results of {staged} columns at a time go through shared memory"
            draft.decide("storage", reader.name, what, "threads side by side store whole sectors")
        s.unroll(part)
        if with_sums:
            return _stage_sums(draft, p, tiles, starts, reader, part)
    else:
        s.reorder(*others, *single, *tile)
    threads, mine = cut_tile(s, p, tiles, tile)
    s.reorder(*threads, *mine)
    draft.scheduled.add(reader.name)
    why = f"{reader.operations} operations an element, on sums still in registers"
    of_all = " and ".join(f"`{q.stage.name}`" for q in every)
    draft.decide("fusion", reader.name, f"done at the end of each tile of {of_all}", why)
    return Kept(starts, threads, mine, results)


def reads_beside(p: Product, reader: Stage) -> bool:
    """Whether ``reader`` reads as many elements of another array as there are results, such as a residual: those should
    come 16 bytes at a time, too."""
    others = (a for a in reader.reads if a.is_affine and a.buffer.dtype.itemsize <= reader.write.buffer.dtype.itemsize)
    return any(all(a.uses(name) for way in _ways(p, reader) for name in way) for a in others)


def _stage_sums(draft: GpuDraft, p: Product, tiles: Tiles, starts: tuple[str, ...], reader: Stage, part: str) -> Kept:
    """The sums of some columns in shared memory, from where threads side by side take them for ``reader``."""
    s = draft.s
    around = [str(x) for x in s.loops(reader.name)]
    around = around[: around.index(part) + 1]
    copy, storage = map(str, s.cache_read(p.sums, scope="shared", at=part, readers=[reader.name]))
    *rows, columns = [str(x) for x in s.loops(copy)][len(around) :]
    block = column_block(tiles.columns)
    threads, mine = cut_tile(s, p, replace(tiles, columns=block, own_columns=block), (as_one(draft, rows), columns))
    s.reorder(*threads, *mine)
    draft.scheduled |= {copy, reader.name}
    what = f"sums of {block} columns at a time go through shared memory"
    draft.decide("storage", reader.name, what, "threads side by side read and store whole sectors")
    why = f"{reader.operations} operations an element, of sums still on the chip"
    draft.decide("fusion", reader.name, f"done at the end of each tile of `{p.stage.name}`", why)
    return Kept(starts, threads, mine, (reader.name, storage))


def _join_box(draft: GpuDraft, p: Product, sums: str) -> None:
    """Sums with the rows of a box side by side, so that these are rows of one matrix."""
    rank = len(find_buffer(draft.s.kernel, sums).shape)
    of_parts = rank - p.stage.write.buffer.rank
    box = [of_parts + _written_dimension(p, i.name) for side in p.sides if side.sizes for i in side.box]
    order = [*(d for d in range(rank) if d not in box), *box]
    if box and box != list(range(box[0], box[0] + len(box))):
        draft.s.pack(sums, " ".join(LETTERS[d] for d in order))


def _tile_loops(
    draft: GpuDraft, p: Product, tiles: Tiles, reader: Stage, ways: Ways
) -> tuple[list[str], list[str], list[str]]:
    """The loops of ``reader``: others, over tiles (there is one), and through its rows and columns."""
    s, sizes = draft.s, [side.sizes_of(n) for side, n in zip(p.sides, (tiles.rows, tiles.columns))]
    along = [[(reader.by_name[name].loop, n) for name, n in zip(*way)] for way in zip(ways, sizes)]
    along = [[(loop, n) for loop, n in way if loop is not None or n > 1] for way in along]  # others stand still
    loops = [loop for way in along for loop, _ in way]
    others = [x for x in reader.loops if x not in loops]
    if None in loops:
        raise ScheduleError(f"`{reader.name}` goes through sums in another way")
    pairs = [split_loops(s, [str(loop) for loop, _ in way], [n for _, n in way]) for way in along]
    single = [x for outer, _ in pairs for x in outer]
    s.reorder(*others, *single, *(x for _, inner in pairs for x in inner))
    return others, single, [as_one(draft, inner) for _, inner in pairs]


def _tile_sizes(p: Product, tiles: Tiles) -> dict[str, int]:
    """How much of each iterator of the results a block has."""
    sizes = {i.name: 1 for i in p.stage.spatial if i.loop in p.batch and i.count > 1}
    for side, size in zip(p.sides, (tiles.rows, tiles.columns)):
        sizes |= {i.name: n for i, n in zip(side.tiled, side.sizes_of(size))}
    return sizes


def fold_sums(draft: GpuDraft, p: Product, tiles: Tiles, sums: str, sizes: Mapping[str, int] | None = None) -> None:
    """Storage of a block for ``sums`` as large as a tile, or of other ``sizes``; those of several parts come first."""
    of_parts = len(find_buffer(draft.s.kernel, sums).shape) - p.stage.write.buffer.rank
    folded = [(of_parts + _written_dimension(p, i), size) for i, size in (sizes or _tile_sizes(p, tiles)).items()]
    draft.fold(sums, folded)


def _written_dimension(p: Product, iterator: str) -> int:
    rows = p.stage.write.rows or ()
    return next(d for d, row in enumerate(rows) if row.get(iterator))


def _stage_results(draft: GpuDraft, reader: Stage, at: str) -> tuple[str, str] | None:
    """Results in shared memory, from where threads side by side store whole sectors; None where that is refused."""
    buffer = reader.write.buffer
    made: list[str] = []
    refusal = draft.attempt(lambda: made.extend(map(str, draft.s.cache_write(buffer.name, scope="shared", at=at))))
    return None if refusal else (made[0], made[1])
