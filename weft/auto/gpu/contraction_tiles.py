"""How large the tiles of a product are: a small model of what a multiprocessor does with each choice.

A block has a tile of sums; a thread, or a warp with matrix instructions, a part of it in registers. Large tiles read
less: a tile of r by c sums loads r + c elements for r * c products. Small ones make more blocks, so that all
multiprocessors have work and the last round of blocks is not half empty.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from weft.auto.gpu.contraction_product import Product
from weft.target.cuda.machine import WARP, GpuMachine

#: Warps a multiprocessor needs under way to keep its arithmetic busy; four are one group.
BUSY_WARPS, BUSY_GROUPED = 8, 4
#: Products a cycle of a multiprocessor with the best tiles, as measured on an H200: by each thread, by instructions.
PLAIN_RATE, MATRIX_RATE, GROUPED_RATE = 82, 800, 1080
#: Registers of a thread besides its sums.
OTHER_REGISTERS = 40
#: Bytes of shared memory that the system takes for each block.
RESERVED = 1 << 10
#: Parts of a depth that are tried, and the shortest worth a sum of its own.
PARTS, SHORTEST = (1, 2, 4, 8, 16), 256
#: Seconds from the end of one launch to the start of the next.
LAUNCH = 2e-6


@dataclass(frozen=True, slots=True)
class Tiles:
    """``rows`` by ``columns`` sums a block, ``depth`` steps at a time; each thread (or warp) ``own_rows`` by
    ``own_columns`` of them; operands in shared memory ``stages`` deep. ``warps``: by matrix instructions of a warp, or
    if ``grouped`` of four of them."""

    rows: int
    columns: int
    depth: int
    own_rows: int
    own_columns: int
    stages: int
    warps: bool = False
    grouped: bool = False

    @property
    def threads(self) -> int:
        parts = (self.rows // self.own_rows) * (self.columns // self.own_columns)
        return parts * WARP if self.warps else parts

    @property
    def kind(self) -> str:
        """Who multiplies."""
        return "groups" if self.grouped else "warps" if self.warps else "threads"

    @property
    def name(self) -> str:
        return f"{self.rows} x {self.columns}"

    def shared_bytes(self, itemsize: int) -> int:
        pad = 0 if self.grouped else 16 // itemsize
        largest = self.rows * (self.depth + pad) + self.columns * (self.depth + pad) + pad * self.depth
        return self.stages * largest * itemsize


#: The share of the peak that a multiprocessor reaches with such tiles when it has enough of them, on one H200.
MEASURED = {
    Tiles(128, 128, 32, 16, 8, 2): 1.0,
    Tiles(128, 64, 16, 8, 8, 3): 0.94,
    Tiles(64, 128, 16, 8, 8, 3): 0.94,
    Tiles(64, 64, 32, 8, 4, 2): 0.92,
    Tiles(64, 64, 16, 8, 4, 3): 0.88,
    Tiles(64, 32, 16, 4, 4, 3): 0.66,
    Tiles(32, 64, 16, 4, 4, 3): 0.66,
    Tiles(32, 32, 16, 4, 2, 3): 0.5,
    Tiles(16, 64, 16, 4, 2, 3): 0.4,
    Tiles(16, 16, 8, 2, 1, 3): 0.25,
    Tiles(128, 256, 64, 16, 256, 4, warps=True, grouped=True): 1.0,
    Tiles(128, 128, 64, 16, 128, 3, warps=True, grouped=True): 0.9,
    Tiles(64, 128, 64, 16, 128, 6, warps=True, grouped=True): 0.8,
    Tiles(64, 64, 64, 16, 64, 6, warps=True, grouped=True): 0.8,
    Tiles(128, 64, 64, 16, 64, 6, warps=True, grouped=True): 0.7,
    Tiles(128, 256, 64, 64, 64, 4, warps=True): 1.0,
    Tiles(128, 256, 64, 64, 64, 3, warps=True): 0.97,
    Tiles(128, 128, 64, 64, 64, 3, warps=True): 0.83,
    Tiles(128, 256, 32, 64, 64, 3, warps=True): 0.8,
    Tiles(128, 128, 32, 64, 64, 4, warps=True): 0.79,
    Tiles(128, 128, 32, 64, 64, 3, warps=True): 0.78,
    Tiles(64, 128, 32, 32, 32, 4, warps=True): 0.6,
    Tiles(128, 64, 32, 32, 32, 4, warps=True): 0.6,
    Tiles(64, 64, 32, 32, 32, 4, warps=True): 0.47,
    Tiles(32, 64, 32, 16, 32, 4, warps=True): 0.32,
    Tiles(32, 32, 32, 16, 16, 4, warps=True): 0.24,
}


@dataclass(frozen=True, slots=True)
class ContractionPlan:
    """Tiles, and into how many parts the depth is cut that are added up afterwards."""

    tiles: Tiles
    parts: int = 1

    @property
    def way(self) -> str:
        return f"by {self.tiles.kind}, in parts" if self.parts > 1 else f"by {self.tiles.kind}"


def plain_tiles() -> list[Tiles]:
    """Tiles of sums by each thread's own multiplications and additions."""
    return [
        Tiles(down * own_rows, across * own_columns, depth, own_rows, own_columns, stages)
        for own_rows, own_columns in ((16, 8), (8, 8), (8, 4), (4, 8), (4, 4), (4, 2), (2, 1))
        for down, across in ((8, 8), (16, 8), (8, 16), (16, 16))
        for depth in (8, 16, 32)
        for stages in (2, 3, 4)
    ]


def matrix_tiles() -> list[Tiles]:
    """Tiles of sums by matrix instructions of each warp."""
    return [
        Tiles(down * own_rows, across * own_columns, depth, own_rows, own_columns, stages, warps=True)
        for own_rows, own_columns in ((64, 64), (64, 32), (32, 64), (32, 32), (16, 32), (16, 16))
        for down, across in ((1, 2), (2, 1), (2, 2), (2, 4), (4, 2))
        for depth in (32, 64)
        for stages in (2, 3, 4, 5)
    ]


def grouped_tiles() -> list[Tiles]:
    """Tiles of sums by matrix instructions of four warps."""
    return [
        Tiles(rows, columns, 64, 16, columns, stages, warps=True, grouped=True)
        for rows in (64, 128, 192, 256)
        for columns in (64, 128, 192, 256)
        for stages in (2, 3, 4, 5, 6, 7)
    ]


def contraction_tiles(product: Product, machine: GpuMachine, kinds: tuple[str, ...]) -> list[Tiles]:
    """Tiles of these kinds that no side of the product is too short for, and that fit a multiprocessor."""
    size = max(s.access.buffer.dtype.itemsize for s in product.sides)
    lists = {"groups": grouped_tiles, "warps": matrix_tiles, "threads": plain_tiles}
    every = dict.fromkeys([*(t for t in MEASURED if t.kind in kinds), *(t for kind in kinds for t in lists[kind]())])
    return [t for t in every if _fits(product, t) and _has_room(machine, t, size)]


def _has_room(machine: GpuMachine, tiles: Tiles, itemsize: int) -> bool:
    sums = tiles.rows * tiles.columns // tiles.threads
    registers = min(machine.max_registers_per_thread, machine.registers_per_sm // tiles.threads)
    if tiles.threads > machine.max_threads_per_block or sums + OTHER_REGISTERS > registers:
        return False
    return tiles.shared_bytes(itemsize) <= machine.shared_per_block


def possible_plans(
    product: Product, machine: GpuMachine, tiles: Sequence[Tiles], *, may_part: bool
) -> list[ContractionPlan]:
    """All tiles, whole; and with the depth in parts where there are too few of them for every multiprocessor."""
    found = []
    for t in tiles:
        most = 2 * machine.sms // count_blocks(product, t) if may_part else 1
        parts = [n for n in PARTS if n == 1 or (n <= most and product.deep // n >= SHORTEST)]
        found += [ContractionPlan(t, n) for n in parts]
    return found


def _fits(product: Product, tiles: Tiles) -> bool:
    """Whether no tile is larger than what is tiled: storage is not made for what is not there."""
    wanted = (tiles.rows, tiles.columns, tiles.depth)
    return all(n <= m for n, m in zip(wanted, (*(s.iterator.count for s in product.sides), product.deep)))


def seconds(product: Product, machine: GpuMachine, tiles: Tiles, parts: int = 1) -> float:
    """How long the multiprocessor with most blocks takes, and adding up parts after it."""
    most = -(-count_blocks(product, tiles) * parts // machine.sms)
    size = product.rows.access.buffer.dtype.itemsize
    at_once = min(most, max(1, machine.shared_per_sm // (tiles.shared_bytes(size) + RESERVED)))
    warps = min(at_once * tiles.threads, machine.max_threads_per_sm) / WARP
    most_rate = GROUPED_RATE if tiles.grouped else MATRIX_RATE * 2 / size if tiles.warps else PLAIN_RATE
    busy = min(1.0, warps / (BUSY_GROUPED if tiles.grouped else BUSY_WARPS))
    rate = most_rate * machine.clock * MEASURED.get(tiles, 0.5) * busy
    products = most * tiles.rows * tiles.columns * -(-product.steps // parts)
    adding = 0.0 if parts == 1 else LAUNCH + (2 * parts + 1) * product.results * 4 / machine.bandwidth
    return products / rate + adding


def count_blocks(product: Product, tiles: Tiles) -> int:
    rows, columns = product.rows.iterator.count, product.columns.iterator.count
    return -(-rows // tiles.rows) * -(-columns // tiles.columns) * product.batches
