"""How large the tiles of a product may be: all that a machine has room for; `contraction_time` says what each takes.

A block has a tile of sums; a thread, or a warp with matrix instructions, a part of it in registers. Large tiles read
less: a tile of r by c sums loads r + c elements for r * c products. Small ones make more blocks, so that all
multiprocessors have work and the last round of blocks is not half empty.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from weft.auto.gpu.box_sizes import deep_sizes, parts_of, with_box, with_deep_box
from weft.auto.gpu.contraction_product import Product, Side
from weft.auto.gpu.draft import WIDEST
from weft.target.cuda.launch_bounds import choose_roles
from weft.target.cuda.machine import WARP, GpuMachine

#: Registers of a thread besides its sums.
OTHER_REGISTERS = 40
#: Bytes of the depth that operands of warp groups are copied by.
GROUP_BYTES = 128
#: Columns that instructions of four warps take by, those of a block of them, and the most; and into how many tiles
#: columns that are no whole blocks are cut.
EIGHT, GROUP_COLUMNS, MOST_COLUMNS, MOST_SHARES = 8, 64, 256, 8
#: Rows of a matrix instruction of one warp.
ROWS = 16
#: Columns from which on a product of few rows has wide tiles.
MANY_COLUMNS = 2048
#: Tiles of rows that blocks go through for each tile of columns, at most: neighbouring blocks share operands in the
#: cache.
GROUP = 8
#: Bytes of the depth that lanes of a warp fetch together, of each column, and that rows are further apart by then.
FETCHED_BYTES = 64
#: Elements of columns that a lane makes of a piece, at most, and the columns of a warp, warps across and those that
#: share the depth which were timed: fewer warps, and fewer columns of each, took longer.
MOST_MADE = 128
MADE = ((32, 1, 8), (32, 1, 16), (32, 1, 4), (32, 2, 4), (32, 4, 4), (64, 1, 4), (64, 1, 8), (64, 2, 4))
#: Stages of a ring, at least.
FEWEST_STAGES = 2
#: Parts of a depth that are tried, and the shortest worth a sum of its own.
PARTS, SHORTEST = (1, 2, 4, 8, 16), 256


@dataclass(frozen=True, slots=True)
class Tiles:
    """``rows`` by ``columns`` sums a block, ``depth`` steps at a time; each thread (or warp) ``own_rows`` by
    ``own_columns`` of them; operands in shared memory ``stages`` deep. ``warps``: by matrix instructions of a warp, or
    if ``grouped`` of four of them. ``twins`` products of the same rows are computed together, each by such tiles.
    ``spread`` warps share the depth of the same sums. ``fetched``: columns go from memory straight to registers."""

    rows: int
    columns: int
    depth: int
    own_rows: int
    own_columns: int
    stages: int
    warps: bool = False
    grouped: bool = False
    twins: int = 1
    spread: int = 1
    fetched: bool = False

    @property
    def threads(self) -> int:
        parts = (self.rows // self.own_rows) * (self.columns // self.own_columns) * self.spread
        return parts * WARP if self.warps else parts

    @property
    def shares(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Rows and columns of a block, and of a thread or warp."""
        return (self.rows, self.own_rows), (self.columns, self.own_columns)

    @property
    def all_columns(self) -> int:
        """Of all products that are computed together."""
        return self.twins * self.columns

    @property
    def kind(self) -> str:
        """Who multiplies."""
        return "groups" if self.grouped else "warps" if self.warps else "threads"

    @property
    def name(self) -> str:
        return f"{self.rows} x {self.columns}"

    def shared_bytes(self, itemsize: int) -> int:
        pad = 0 if self.grouped else 16 // itemsize
        if self.fetched:
            largest = self.rows * (self.depth + FETCHED_BYTES // itemsize)
        else:
            largest = self.rows * (self.depth + pad) + self.all_columns * (self.depth + pad) + pad * self.depth
        handed_over = 4 * self.spread * self.rows * (self.columns + 4) if self.spread > 1 else 0
        return self.stages * largest * itemsize + handed_over


@dataclass(frozen=True, slots=True)
class ContractionPlan:
    """Tiles, and into how many parts the depth is cut that are added up afterwards; ``moved``: from copies of operands
    that the copy engine can fetch; ``boxed``: tiles are boxes along several iterators of an operand; ``turned``: from
    copies in which the depth lies along memory; ``deep``: pieces of the depth are boxes of so much along each iterator
    that is summed over."""

    tiles: Tiles
    parts: int = 1
    moved: bool = False
    boxed: bool = False
    turned: bool = False
    deep: tuple[int, ...] = ()

    @property
    def way(self) -> str:
        how = ", of copies" if self.moved or self.turned else ", together" if self.tiles.twins > 1 else ""
        boxes = ", of boxes" if self.boxed or self.deep else ""
        return f"by {self.tiles.kind}{how}{boxes}{', in parts' if self.parts > 1 else ''}"

    def of(self, product: Product) -> Product:
        """``product`` as it is tiled."""
        if self.deep:
            return with_deep_box(product, self.deep)
        return (with_box(product, self.tiles.rows, self.tiles.columns) or product) if self.boxed else product


def plain_tiles(itemsize: int) -> list[Tiles]:
    """Tiles of sums by each thread's own multiplications and additions, whatever size elements have."""
    return [
        Tiles(down * own_rows, across * own_columns, depth, own_rows, own_columns, stages)
        for own_rows, own_columns in ((16, 8), (8, 8), (8, 4), (4, 4), (4, 2), (2, 1))
        for down, across in ((8, 16), (16, 8), (8, 8), (16, 16))
        for depth, stages in ((32, 2), (16, 3), (16, 2), (8, 3))
    ]


def _longer(itemsize: int) -> int:
    """How many times the depth of 16-bit elements a piece has: rows of smaller ones are as long in bytes."""
    return max(1, 2 // itemsize)


def matrix_tiles(itemsize: int) -> list[Tiles]:
    """Tiles of sums by matrix instructions of each warp."""
    more = _longer(itemsize)
    return [
        Tiles(down * own_rows, across * own_columns, more * depth, own_rows, own_columns, stages, warps=True)
        for own_rows, own_columns in ((64, 64), (64, 32), (32, 64), (32, 32), (16, 32), (16, 16))
        for down, across in ((2, 2), (2, 4), (4, 2))
        for depth, stages in ((64, 4), (64, 3), (32, 4), (32, 3))
    ]


def thin_tiles(count: int, columns: int, itemsize: int, sms: int) -> list[Tiles]:
    """Tiles of all ``count`` rows, or some zeros more, by matrix instructions of each warp; what decides is how much of
    the columns' operand is under way. Where they were timed, two warps a block were slower than four or eight, and
    where there are many columns 64 of them slower than 128. One kind has a block for each multiprocessor."""
    rows, more = -(-count // ROWS) * ROWS, _longer(itemsize)
    even = -(-columns // (sms * ROWS))
    return [
        Tiles(rows, across * own_columns, more * depth, rows, own_columns, stages, warps=True)
        for own_columns, across in ((32, 4), (32, 8), (16, 8), (16, 4), *([(16, even)] if 4 < even < 16 else []))
        for depth, stages in ((64, 4), (128, 4), (128, 3), (64, 6), (128, 6), (256, 3))
        if own_columns * across > 64 or columns < MANY_COLUMNS
    ]


def spread_tiles(count: int, columns: int, deep: int, itemsize: int) -> list[Tiles]:
    """Tiles of all ``count`` rows whose warps share the depth, 64 or more of a piece for each, so that there are blocks
    enough without parts of it."""
    rows, more = -(-count // ROWS) * ROWS, _longer(itemsize)
    return [
        Tiles(rows, across * 32, more * depth, rows, 32, stages, warps=True, spread=spread)
        for across, spread in ((1, 8), (1, 4), (2, 4), (1, 16), (2, 8), (4, 2), (4, 4))
        for depth, stages in ((128, 4), (128, 6), (256, 3), (256, 4), (512, 3), (512, 4))
        if columns % (32 * across) == deep % (more * depth) == 0 and depth >= 64 * spread
    ]


def fetched_tiles(count: int, columns: int, deep: int, itemsize: int) -> list[Tiles]:
    """Tiles of all ``count`` rows whose warps share the depth and fetch columns themselves. Where they were timed, 16
    warps were best, with columns for so many lanes that each loads four or eight times 16 bytes ahead."""
    rows = -(-count // ROWS) * ROWS
    return [
        Tiles(rows, own, depth, rows, own, 3, warps=True, spread=16, fetched=True)
        for own, turns in ((32, 2), (64, 1))
        if columns % own == deep % (depth := turns * 16 * FETCHED_BYTES // itemsize) == 0
    ]


def made_tiles(count: int, columns: int, deep: int, itemsize: int) -> list[Tiles]:
    """Tiles of all ``count`` rows whose warps share the depth and make columns themselves, some for each lane."""
    rows = -(-count // ROWS) * ROWS
    return [
        Tiles(rows, across * own, depth, rows, own, FEWEST_STAGES, warps=True, spread=spread, fetched=True)
        for own, across, spread in MADE
        for depth in (128, 256, 512, 1024)
        if columns % (across * own) == deep % depth == depth % (spread * FETCHED_BYTES // itemsize) == 0
        and own * depth // spread <= MOST_MADE * WARP
    ]


def grouped_tiles(itemsize: int) -> list[Tiles]:
    """Tiles of sums by matrix instructions of four warps."""
    return [
        Tiles(rows, columns, GROUP_BYTES // itemsize, 16, columns, stages, warps=True, grouped=True)
        for columns in (256, 128, 192, 64)
        for rows in (128, 64, 192, 256)
        for stages in (6, 4, 3)
    ]


def fitting_tiles(product: Product, itemsize: int, sms: int) -> list[Tiles]:
    """Tiles of sums by matrix instructions of four warps as wide as divides the columns into few, where no whole blocks
    of 64 do, or tiles are few: instructions take any eight columns that lie along the depth."""
    side = product.columns
    few = product.results <= sms * GROUP_COLUMNS * MOST_COLUMNS
    if itemsize != 2 or not side.along_depth or side.box or (side.iterator.count % GROUP_COLUMNS == 0 and not few):
        return []
    shares = (-(-side.iterator.count // (n * EIGHT)) * EIGHT for n in range(1, MOST_SHARES + 1))
    widths = [n for n in dict.fromkeys(shares) if GROUP_COLUMNS < n <= MOST_COLUMNS and n % GROUP_COLUMNS]
    return [
        Tiles(rows, columns, GROUP_BYTES // itemsize, 16, columns, stages, warps=True, grouped=True)
        for columns in widths
        if columns <= 2 * GROUP_COLUMNS or columns % (2 * EIGHT) == 0
        for rows in (128, 64, 192, 256)
        for stages in (6, 4, 3)
    ]


#: All that are listed, by who multiplies.
LISTED = {"groups": grouped_tiles, "warps": matrix_tiles, "threads": plain_tiles}


def contraction_tiles(product: Product, machine: GpuMachine, kinds: tuple[str, ...]) -> list[Tiles]:
    """Tiles of these kinds that no side of the product is too short for, and that fit a multiprocessor."""
    size = max(s.access.buffer.dtype.itemsize for s in product.sides)
    every = [t for kind in kinds for t in LISTED[kind](size)]
    every += fitting_tiles(product, size, machine.sms) if "groups" in kinds else []
    if product.is_thin and "warps" in kinds:
        rows, columns = (side.iterator.count for side in product.sides)
        every += thin_tiles(rows, columns, size, machine.sms)
        if rows <= ROWS and not (product.batch or product.around):
            every += spread_tiles(rows, columns, product.deep, size)
            if size <= 2 and all(s.along_depth and s.whole_bytes == WIDEST for s in product.sides):
                every += fetched_tiles(rows, columns, product.deep, size)
    return [t for t in every if (_fits(product, t) or has_boxes(product, t)) and _has_room(machine, t, size)]


def twin_tiles(product: Product, machine: GpuMachine, twins: int) -> list[Tiles]:
    """Tiles for products of the same rows that are computed together."""
    size = product.rows.access.buffer.dtype.itemsize
    every = (replace(t, twins=twins) for t in grouped_tiles(size))
    return [t for t in every if _fits(product, t) and _has_room(machine, t, size)]


def _has_room(machine: GpuMachine, tiles: Tiles, itemsize: int) -> bool:
    sums = tiles.rows * tiles.all_columns // tiles.threads
    registers = min(machine.max_registers_per_thread, machine.registers_per_sm // tiles.threads)
    if tiles.threads > machine.max_threads_per_block or sums + OTHER_REGISTERS > registers:
        return False
    if tiles.grouped and choose_roles(sums, tiles.threads, machine) is None:
        return False
    return tiles.shared_bytes(itemsize) <= machine.shared_per_block


def possible_plans(
    product: Product, machine: GpuMachine, tiles: Sequence[Tiles], *, may_part: bool
) -> list[ContractionPlan]:
    """All tiles, whole; and with the depth in parts where there are too few of them for every multiprocessor."""
    found = []
    tiles = [t for t in tiles if may_part or t.spread == 1]
    whole = [ContractionPlan(t) for t in tiles if product.boxed is None or _fits(product, t)]
    for plan in (*whole, *(ContractionPlan(t, boxed=True) for t in tiles if has_boxes(product, t))):
        most = 2 * machine.sms // count_blocks(plan.of(product), plan.tiles) if may_part else 1
        most = 1 if plan.tiles.spread > 1 else most
        steps = product.steps if plan.boxed else product.deep
        parts = [n for n in PARTS if n == 1 or (n <= most and steps // n >= SHORTEST)]
        if plan.boxed:  # pieces that are not full would be tested element by element
            parts = [n for n in parts if n == 1 or product.deep % (n * plan.tiles.depth) == 0]
        found += [replace(plan, parts=n) for n in parts]
    if product.moved_apart(machine):
        found += [replace(p, moved=True) for p in found if p.tiles.grouped]
    return found


def deep_plans(product: Product, machine: GpuMachine) -> list[ContractionPlan]:
    """Plans whose pieces of the depth are boxes, whole and in as many parts as come out even."""
    size = product.rows.access.buffer.dtype.itemsize
    shares = [side.iterator.count for side in product.sides]
    found = []
    for box in deep_sizes(product):
        boxed = with_deep_box(product, box)
        for t in (replace(t, depth=prod(box)) for t in grouped_tiles(size)):
            if t.rows > shares[0] or t.columns > shares[1] or not _has_room(machine, t, size):
                continue
            most = max(1, 2 * machine.sms // count_blocks(boxed, t))
            found += [ContractionPlan(t, n, deep=box) for n in parts_of(boxed, most, SHORTEST)]
    return found


def _fits(product: Product, tiles: Tiles) -> bool:
    """Whether no tile is larger than what is tiled: storage is not made for what is not there."""
    wanted = (tiles.rows, tiles.columns, tiles.depth)
    if any(s.needs_box for s in product.sides):
        return False
    rows, columns = (s.iterator.count for s in product.sides)
    if tiles.kind == "warps" and product.is_thin:  # the rows of an instruction are there, zeros or not
        rows = -(-rows // ROWS) * ROWS
    return all(n <= m for n, m in zip(wanted, (rows, columns, product.deep)))


def has_boxes(product: Product, tiles: Tiles) -> bool:
    """Whether ``tiles``, by matrix instructions, may be boxes."""
    other = product.columns if product.rows.box else product.rows
    fits = tiles.depth <= product.deep and other.count >= (tiles.columns if product.rows.box else tiles.rows)
    return tiles.warps and fits and with_box(product, tiles.rows, tiles.columns) is not None


def tiles_together(count: int, wanted: int = GROUP) -> int:
    """How many of so many tiles of one side follow one another for a tile of the other: up to a group of them,
    ``wanted`` or as few more as come out even."""
    even = [n for n in range(1, min(GROUP, count) + 1) if count % n == 0]
    return next((n for n in even if n >= wanted), even[-1])


def streamed_side(product: Product, tiles: Tiles, machine: GpuMachine) -> Side | None:
    """The side some of whose tiles a block goes through, with operands that the copy engine fetches ahead: rows if it
    can be. None unless the depth is a single piece: fetching ahead is of no use within a tile then."""
    single = tiles.grouped and tiles.twins == 1 and product.steps == product.deep == tiles.depth
    if not single or product.is_boxed or product.why_not_fetched(machine) is not None:
        return None
    counts = zip(product.sides, (tiles.rows, tiles.columns))
    return next((side for side, size in counts if tiles_together(side.last_tiles_of(size)) > 1), None)


def with_stages(product: Product, tiles: Tiles, machine: GpuMachine) -> Tiles:
    """``tiles`` with no more stages than are of use: of a single piece none is copied ahead, and what shared memory
    they leave is another block's."""
    single = product.steps <= tiles.depth and tiles.spread == 1 and streamed_side(product, tiles, machine) is None
    return replace(tiles, stages=min(FEWEST_STAGES, tiles.stages)) if single else tiles


def uneven_sides(product: Product, tiles: Tiles) -> bool:
    """Whether some tiles are not full."""
    sizes = [n for side, size in zip(product.sides, (tiles.rows, tiles.columns)) for n in side.sizes_of(size)]
    return any(i.count % n for i, n in zip((i for side in product.sides for i in side.tiled), sizes))


def count_blocks(product: Product, tiles: Tiles) -> int:
    return product.rows.tiles_of(tiles.rows) * product.columns.tiles_of(tiles.columns) * product.batches
