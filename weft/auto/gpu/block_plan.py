"""What is found of a product whose depth is in blocks (`block_sums`), and the tiles for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from weft.auto.gpu.contraction_instruction import find_instruction
from weft.auto.gpu.contraction_product import Product, Side, read_product
from weft.auto.gpu.contraction_results import has_room, is_narrow, reads_beside
from weft.auto.gpu.contraction_tiles import OTHER_REGISTERS, ContractionPlan, Tiles, matrix_tiles
from weft.auto.gpu.contraction_time import product_seconds
from weft.auto.gpu.draft import GpuDraft
from weft.auto.gpu.epilogue import epilogue_of
from weft.auto.stages import Stage, StageAccess, StageIter
from weft.target.cuda.intrinsics import STEP_BYTES
from weft.target.cuda.launch_bounds import choose_roles
from weft.target.cuda.machine import GpuMachine
from weft.target.cuda.rates import rates_of
from weft.target.cuda.read_boxes import FETCHED, why_not_fetched
from weft.target.cuda.swizzle import ROW

#: Registers of a thread for what its rows and columns are multiplied by.
FACTORS = 16
#: Instructions of a thread that add up a sum of a block, and cycles that a warp waits for the last ones.
ADDED, WAITED = 2, 100
#: How many times as long as expected warps took where that was timed: they wait for one another in each block.
BY_WARPS = 1.6


@dataclass(frozen=True, slots=True)
class BlockSums:
    """``product`` sums each block, ``total`` is the sum of what is made of these, read as a product of as many rows and
    columns; ``loops`` over blocks of both, ``count`` of them."""

    product: Product
    total: Product
    loops: tuple[str, str]
    count: int

    @property
    def row_factors(self) -> tuple[StageAccess, ...]:
        """What is read in ``total`` once for each row and block."""
        return self._factors(self.total.rows, self.total.columns)

    @property
    def column_factors(self) -> tuple[StageAccess, ...]:
        return self._factors(self.total.columns, self.total.rows)

    def _factors(self, own: Side, other: Side) -> tuple[StageAccess, ...]:
        reads = [a for a in self.total.stage.distinct_reads if a.buffer.name != self.product.sums]
        fit = [a for a in reads if a.rows is not None and not a.uses(other.iterator.name) and not a.guarded]
        return tuple(a for a in fit if a.subscript_of(own.iterator.name) is not None)


def find_blocks(draft: GpuDraft, stage: Stage) -> BlockSums | None:
    """``stage`` as sums of blocks that another sum alone reads, each once; None where it is none."""
    product = read_product(stage)
    readers = draft.stages.consumers(stage)
    if product is None or product.around or len(readers) != 1 or not draft.is_fast or draft.stages.is_output(stage):
        return None
    (reader,) = readers
    pairs = _pairs(stage, reader)
    if reader.op != "+" or reader.is_inside or reader.name in draft.scheduled or pairs is None:
        return None
    blocks = [i for i in stage.spatial if pairs[i.name].is_reduction]
    if len(blocks) != 1 or blocks[0].loop not in product.batch or len(reader.reductions) != 1:
        return None
    product = _as_results_lie(product, reader, pairs)
    loop, count = blocks[0].loop or "", blocks[0].count
    batch = tuple(x for x in product.batch if x != loop)
    product = replace(product, batch=batch, batches=product.batches // count)
    return BlockSums(product, _total(product, reader, pairs), (loop, reader.loop_of(reader.reductions[0].name)), count)


def _pairs(stage: Stage, reader: Stage) -> dict[str, StageIter] | None:
    """The iterator of ``reader`` for each of ``stage`` that goes along with it: all of both, but for steps."""
    reads = [a for a in reader.reads if a.buffer.name == stage.write.buffer.name]
    if len(reads) != 1 or reads[0].rows is None or stage.write.rows is None or reads[0].guarded:
        return None
    found: dict[str, StageIter] = {}
    for own, other, *offsets in zip(stage.write.rows, reads[0].rows, stage.write.offsets, reads[0].offsets):
        (one, *more), (two, *others) = ([n for n in row.items() if n[1]] or [("", 0)] for row in (own, other))
        if more or others or one[1] != 1 or two[1] != 1 or offsets != [0, 0]:
            return None
        found[one[0]] = reader.by_name[two[0]]
    alike = all(stage.by_name[i].extent == other.extent and other.exact for i, other in found.items())
    whole = found.keys() == {i.name for i in stage.spatial}
    return found if alike and whole and {i.name for i in found.values()} == {i.name for i in reader.iters} else None


def _as_results_lie(product: Product, reader: Stage, pairs: dict[str, StageIter]) -> Product:
    """Columns are those along which results lie side by side."""
    along = reader.write.stride(pairs[product.rows.iterator.name].name) == 1
    return replace(product, rows=product.columns, columns=product.rows) if along else product


def _total(product: Product, reader: Stage, pairs: dict[str, StageIter]) -> Product:
    rows, columns = (replace(side, iterator=pairs[side.iterator.name]) for side in product.sides)
    batch = {i.loop: pairs[i.name] for i in product.stage.spatial}
    return replace(
        product,
        stage=reader,
        rows=rows,
        columns=columns,
        name=reader.name,
        sums=reader.write.buffer.name,
        batch=tuple(reader.loop_of(batch[x].name) for x in product.batch),
        stored=reader.write.buffer.dtype.itemsize,
        boxes={},
    )


def is_fetched_along(found: BlockSums, a: StageAccess) -> bool:
    """Whether the copy engine can fetch ``a`` along the columns of a tile."""
    is_along = a.stride(found.total.columns.iterator.name) == 1
    return is_along and why_not_fetched(a.buffer, FETCHED) is None


def block_plans(draft: GpuDraft, stage: Stage) -> list[ContractionPlan]:
    """Tiles of groups of warps, and of warps, in whose registers there is room for both sums."""
    found = find_blocks(draft, stage)
    if found is None:
        return []
    tiles = [t for t in _tiles(draft, found) if _fits(found, t) and _has_room(draft.machine, found, t)]
    reader = epilogue_of(draft, found.total.stage)
    if reader is not None and is_narrow(reader):
        beside = reads_beside(found.total, reader)
        tiles = [
            t for t in tiles if not t.grouped or has_room(draft, found.total, t, reader, beside, factors(found, t))
        ]
    prices = {p: block_seconds(found, draft.machine, p) for p in map(ContractionPlan, tiles)}
    draft.expected[stage.name] = prices
    return sorted(prices, key=prices.__getitem__)


def block_seconds(found: BlockSums, machine: GpuMachine, plan: ContractionPlan) -> float:
    """What the product takes as a whole; longer where sums of a block are added up for longer than they are summed."""
    product = replace(found.product, deep=found.count * found.product.deep, stored=found.total.stored)
    seconds, t = product_seconds(product, machine, plan), plan.tiles
    if not t.grouped:
        return seconds * BY_WARPS
    size = product.rows.access.buffer.dtype.itemsize
    multiplied = t.rows * t.columns * t.depth * size / 2 / rates_of(machine.capability).wgmma
    return seconds * max(1.0, (ADDED * t.columns / 2 + WAITED) / multiplied)


def block_prices(draft: GpuDraft, stage: Stage) -> Callable[[ContractionPlan], float]:
    return draft.expected[stage.name].__getitem__


def _tiles(draft: GpuDraft, found: BlockSums) -> list[Tiles]:
    """A piece is a block of the depth, which has to come out even in steps of the instructions."""
    p = found.product
    deep, size = p.deep, p.rows.access.buffer.dtype.itemsize
    kinds: list[Tiles] = []
    fetched = p.why_not_fetched(draft.machine) is None
    if find_instruction(draft, p, grouped=True) and deep * size % ROW == 0 and fetched:
        kinds += [
            Tiles(rows, columns, deep, 16, columns, stages, warps=True, grouped=True)
            for columns in (128, 64)
            for rows in (128, 64, 192, 256)
            for stages in (6, 5, 4, 3)
        ]
    if find_instruction(draft, p, grouped=False) and deep * size % STEP_BYTES == 0:
        kinds += list(dict.fromkeys(replace(t, depth=deep) for t in matrix_tiles(size)))
    return kinds


def factors(found: BlockSums, t: Tiles) -> int:
    """Bytes of shared memory for what columns are multiplied by."""
    return t.stages * t.columns * sum(a.buffer.dtype.itemsize for a in found.column_factors)


def _fits(found: BlockSums, t: Tiles) -> bool:
    rows, columns = (s.iterator.count for s in found.product.sides)
    return t.rows <= max(64, rows) and t.columns <= max(64, columns)


def _has_room(machine: GpuMachine, found: BlockSums, t: Tiles) -> bool:
    each = t.rows * t.columns // t.threads
    sums = 2 * each + FACTORS
    registers = min(machine.max_registers_per_thread, machine.registers_per_sm // t.threads)
    size = found.product.rows.access.buffer.dtype.itemsize
    if t.threads > machine.max_threads_per_block or sums + OTHER_REGISTERS > registers:
        return False
    if t.grouped and choose_roles(sums, t.threads, machine, each) is None:
        return False
    return t.shared_bytes(size) + (factors(found, t) if t.grouped else 0) <= machine.shared_per_block
