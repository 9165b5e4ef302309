"""Products whose depth is in blocks, with something done to the sum of each, such as factors of quantized blocks.

``P(m,n,g) +=! A(m,g,k) * B(n,g,k)`` and ``C(m,n) +=! P(m,n,g) * p(m,g) * q(n,g)`` are one launch: matrix instructions
sum up a block of the depth, and what the second sum adds of it is added to sums that stay in registers, too::

    block: batches, tiles of rows, tiles of columns
      sums of the tile
      blocks of the depth                       operands copied to shared memory some blocks ahead
        thread: sums of the block, by matrix instructions
        thread: what is made of each, added to the sums of the tile
      what is done with each sum, stored

One sum with factors that are the same for a block (``p(m,k/128)``) is taken apart into these two before
(`split_blocks`): the sum of each block, of which such factors are taken out (`unscale`), and the sum of those.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from weft.auto.block_factors import block_steps
from weft.auto.gpu.block_plan import BlockSums, block_plans, block_prices, find_blocks, is_fetched_along
from weft.auto.gpu.contraction_digits import cut_tile, row_digits, run_all, split_names
from weft.auto.gpu.contraction_instruction import find_instruction
from weft.auto.gpu.contraction_operands import cooperate, in_groups, padding_of, run_beyond, store_results
from weft.auto.gpu.contraction_product import Product, Side
from weft.auto.gpu.contraction_results import Kept, Nest, digits_of, find_reader, fold_sums, keep_sums
from weft.auto.gpu.contraction_tiles import GROUP, ContractionPlan, Tiles
from weft.auto.gpu.draft import WIDEST, GpuDraft
from weft.auto.gpu.points import POINTS
from weft.auto.gpu.tile_pass import layout_words
from weft.auto.gpu.tiles import TILES
from weft.auto.stages import StageAccess
from weft.auto.strategy import Strategy
from weft.ir.errors import ScheduleError
from weft.schedules.layouts import LETTERS
from weft.target.cuda.async_copies import SIZES
from weft.target.cuda.intrinsics import STEP_BYTES
from weft.target.cuda.swizzle import ROW


@dataclass(frozen=True, slots=True)
class _Cut:
    """The nest of a product, or of the sums of its blocks; loops through rows of shared memory, and steps of these."""

    nest: Nest
    rows: tuple[str, ...] = ()
    steps: str = ""


def apply_blocks(draft: GpuDraft, name: str, plan: ContractionPlan) -> None:
    tiles, copies = plan.tiles, list[str]()
    found = find_blocks(draft, draft.stage(name))
    if found is not None and tiles.grouped:
        copies = [_copy_factor(draft, found, a) for a in found.column_factors if not is_fetched_along(found, a)]
        found = find_blocks(draft, draft.stage(name))
    if found is None:
        raise ScheduleError(f"`{name}` is no product in blocks")
    instruction = find_instruction(draft, found.product, grouped=tiles.grouped)
    if instruction is None:
        raise ScheduleError(f"no matrix instruction computes `{name}`")
    _BlockPass(draft, found, tiles, instruction).make()
    total, product = found.total.stage.name, found.product.stage.name
    draft.decide("fusion", total, f"adds up `{product}` as its blocks of {found.product.deep} steps are summed",
                 "sums of blocks never leave registers")  # fmt: skip
    draft.decide("tiling", total, f"blocks of {tiles.name} sums", f"{tiles.stages - 1} blocks of the depth ahead")
    for copy in copies:
        next((s for s in (TILES, POINTS) if s.schedule(draft, copy)), None)
    draft.scheduled |= {total, product, *copies}


def _copy_factor(draft: GpuDraft, found: BlockSums, a: StageAccess) -> str:
    """A copy of what columns are multiplied by, with that of neighbours side by side: the block that makes it."""
    dimension = a.subscript_of(found.total.columns.iterator.name)
    order = [LETTERS[d] for d in range(a.buffer.rank) if d != dimension]
    copy, storage = draft.s.pack(a.buffer.name, " ".join([*order, LETTERS[dimension or 0]]), readers=[found.total.name])
    if apart := -found.total.columns.iterator.count % (WIDEST // a.buffer.dtype.itemsize):
        draft.s.pad_rows(storage, apart, strided=True)
    draft.s.swap(found.product.name, str(copy))
    draft.decide("packing", found.total.name, f"a copy of `{a.buffer.name}` with columns side by side",
                 "then the copy engine can fetch it with the operands")  # fmt: skip
    return str(copy)


class _BlockPass:
    """The nest under way."""

    def __init__(self, draft: GpuDraft, found: BlockSums, tiles: Tiles, instruction: str) -> None:
        self.draft, self.s, self.found, self.tiles, self.instruction = draft, draft.s, found, tiles, instruction
        self.reader = find_reader(draft, found.total)

    def make(self) -> None:
        product, total = self.found.product, self.found.total
        one, all_ = self.cut_product(product), self.cut(total, self.found.loops[1])
        for own, other in zip(one.nest.around_piece, all_.nest.around_piece):
            self.s.fuse_loops(own, other)
        inner = replace(all_.nest, outer=one.nest.outer, piece=one.nest.piece)
        kept = keep_sums(self.draft, (total,), self.tiles, inner, self.reader)
        start = self.keep_blocks(product, one)
        operands = [self.stage(side, one.nest.piece, size) for side, size in self.sides()]
        for a in self.found.row_factors if self.tiles.grouped else ():  # warps side by side would share them
            self.keep_row_factor(a, one.nest)
        along = self.found.column_factors if self.tiles.grouped else ()
        factors = [self.stage_factor(a, one.nest.piece) for a in along]
        run_beyond(self.draft, product, self.tiles, start)
        # Where factors are read from memory there are none beyond an edge: then tests stay.
        self.draft.attempt(run_beyond, self.draft, total, self.tiles, kept.starts[0])
        self.bind(one, inner, start, kept)
        self.copy(one.nest, operands)
        for load, storage in factors:
            cooperate(self.draft, load, storage, len(one.nest.outer) + 1, self.tiles.threads, written_out=True)
        store_results(self.draft, kept, self.reader, self.tiles)
        self.s.pipeline(*(storage for _, storage in (*operands, *factors)), stages=self.tiles.stages)
        for side, (_, storage) in zip(product.sides, operands):
            if padding := padding_of(side, self.tiles):
                self.s.pad_rows(storage, padding)
        self.s.tensorize(one.steps, self.instruction)

    def sides(self) -> list[tuple[Side, int]]:
        return [*zip(self.found.product.sides, (self.tiles.rows, self.tiles.columns))]

    # Loops

    def cut(self, p: Product, blocks: str, inside: tuple[str, ...] = (), last: tuple[str, ...] = ()) -> _Cut:
        """The loops of ``p`` over tiles, ``blocks`` of the depth, threads and what each has, with those ``inside`` and
        ``last`` where instructions need them."""
        s, (rows, columns) = self.s, (p.stage.loop_of(side.iterator.name) for side in p.sides)
        rows, down = split_names(s, rows, self.tiles.rows)
        columns, across = split_names(s, columns, self.tiles.columns)
        groups, some = in_groups(s, rows, p.rows.last_tiles_of(self.tiles.rows), GROUP)
        outer = (*p.batch, *groups, columns, *some)
        threads, own = cut_tile(s, p, self.tiles, (down, across))
        *around, steps = inside or ("",)
        nest = Nest(outer, (), blocks, threads, own)
        s.reorder(*outer, blocks, *around, *threads, *inside[-1:], *own, *last)
        return _Cut(nest, tuple(around), steps)

    def cut_product(self, p: Product) -> _Cut:
        """A block in as many rows of shared memory as it is long."""
        size = p.rows.access.buffer.dtype.itemsize
        deep, row = p.depth, ROW // size
        around: tuple[str, ...] = ()
        if self.is_long:
            part, deep = split_names(self.s, deep, row)
            around = (part,)
        steps, step = split_names(self.s, deep, STEP_BYTES // size)
        return self.cut(p, self.found.loops[0], (*around, steps), (step,))

    @property
    def is_long(self) -> bool:
        """Whether a block is several rows of shared memory as instructions of warp groups read them."""
        p = self.found.product
        return self.tiles.grouped and p.deep * p.rows.access.buffer.dtype.itemsize > ROW

    def bind(self, one: _Cut, inner: Nest, start: str, kept: Kept) -> None:
        s, blocks = self.s, (*one.nest.outer, one.nest.piece)
        of_start = digits_of(self.draft, replace(one.nest, outer=blocks), start)
        of_sums = digits_of(self.draft, inner, kept.starts[0])
        run_all(s, "block", one.nest.outer)
        run_all(s, "thread", one.nest.threads)
        run_all(s, "unroll", one.rows)
        for threads, own in (of_start, of_sums):
            run_all(s, "thread", threads)
            run_all(s, "unroll", own)
        run_all(s, "thread", inner.threads)
        run_all(s, "unroll", inner.own[:-1])
        s.vectorize(inner.own[-1])
        run_all(s, "thread", kept.threads)
        run_all(s, "unroll", kept.own[:-1])
        s.vectorize(kept.own[-1])

    # Storage

    def keep_blocks(self, p: Product, cut: _Cut) -> str:
        """Sums of a block of the depth in storage of their own, as large as a tile: what starts them."""
        self.s.store_at(p.sums, cut.nest.piece)
        start = str(self.s.decompose_reduction(p.name, at=(*cut.rows, cut.nest.threads[0])[0]))
        sizes = {i.name: 1 for i in p.stage.spatial if i.count > 1}
        sizes |= {side.iterator.name: size for side, size in self.sides()}
        fold_sums(self.draft, p, self.tiles, p.sums, sizes)
        return start

    def stage(self, side: Side, at: str, size: int) -> tuple[str, str]:
        """What a block reads of an operand in shared memory, the depth last; loaded by which block."""
        others = [LETTERS[d] for d in range(side.access.buffer.rank) if d not in (side.dimension, side.deep)]
        letter, deep = LETTERS[side.dimension], LETTERS[side.deep]
        rows = [letter] if side.iterator.count >= size else [f"{letter}/{size}", f"{letter}%{size}"]
        row = ROW // side.access.buffer.dtype.itemsize
        order = [f"{deep}/{row}", *rows, f"{deep}%{row}"] if self.is_long else [*rows, deep]
        load, storage = self.s.pack(side.buffer, " ".join([*others, *order]), at=at, scope="shared", pad=True)
        return str(load), str(storage)

    def stage_factor(self, a: StageAccess, at: str) -> tuple[str, str]:
        """What the columns of a tile are multiplied by, in rows of shared memory: fetched with the operands."""
        *others, along = list(LETTERS[: a.buffer.rank])
        row = ROW // a.buffer.dtype.itemsize
        order = " ".join([*others, f"{along}/{row}", f"{along}%{row}"])
        load, storage = self.s.pack(
            a.buffer.name, order, at=at, scope="shared", pad=True, readers=[self.found.total.name]
        )
        return str(load), str(storage)

    def keep_row_factor(self, a: StageAccess, nest: Nest) -> None:
        """What the rows of a tile are multiplied by in a block, loaded before its products are waited for: by each
        thread that has a part of a row."""
        s, tiled = self.s, self.found.total.rows.iterator
        dimension = next(d for d, row in enumerate(a.rows or ()) if row.get(tiled.name))
        words = layout_words(dimension, tiled.count, self.tiles.rows)
        order = [*(LETTERS[d] for d in range(a.buffer.rank) if d != dimension), *words]
        load, _ = s.pack(a.buffer.name, " ".join(order), at=nest.piece, pad=True, readers=[self.found.total.name])
        with s.focus(str(load)):
            threads, own = row_digits(s, self.tiles, str(s.loops(str(load))[-1]))
            s.reorder(*threads, *own)
            run_all(s, "thread", threads)
            run_all(s, "unroll", own)

    def copy(self, nest: Nest, operands: list[tuple[str, str]]) -> None:
        for side, (load, storage) in zip(self.found.product.sides, operands):
            written_out = side.whole_bytes >= min(SIZES)
            cooperate(self.draft, load, storage, len(nest.outer) + 1, self.tiles.threads, written_out=written_out)


BLOCKS: Strategy[GpuDraft] = Strategy("sums of blocks", block_plans, apply_blocks, block_prices)


def take_blocks(draft: GpuDraft) -> None:
    """All of them, before the sums of each block get a launch of their own."""
    for name in [s.name for s in draft.stages]:
        if name in draft.stages and name not in draft.scheduled and not BLOCKS.schedule(draft, name):
            draft.attempt(_take_apart, draft, name)


def _take_apart(draft: GpuDraft, name: str) -> None:
    """One sum in two, where these are products of blocks, or blocks are rows that are summed as such: those of a matrix
    times one row."""
    is_row = sum(i.count > 1 for i in draft.stage(name).spatial) < 2
    product = _split_blocks(draft, name)
    if not is_row and not BLOCKS.schedule(draft, product):
        raise ScheduleError(f"`{product}` is no product in blocks")


def _split_blocks(draft: GpuDraft, name: str) -> str:
    """One sum as the sum of those of blocks of its depth, which factors that are the same for a block are taken out of:
    the stage that sums blocks."""
    s, stage = draft.s, draft.stage(name)
    depth = block_steps(stage)
    if depth is None:
        raise ScheduleError(f"no factor in `{name}` is that of a block")
    loop, steps = stage.loop_of(depth[0]), depth[1]
    blocks, inner = split_names(s, loop, steps)
    s.reorder(blocks, *(x for x in stage.loops if x != loop), inner)
    product, sums = map(str, s.rfactor(blocks, axis=stage.write.buffer.rank, start="inside"))
    draft.attempt(s.store_at, sums)  # so that the sum of all may read it too
    s.unscale(product)
    draft.decide("tiling", name, f"sums of {steps} steps in `{product}`, then the sum of these",
                 "factors are the same for so many")  # fmt: skip
    return product
