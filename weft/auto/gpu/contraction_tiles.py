"""How large the tiles of a product are: a small model of what a multiprocessor does with each choice.

A block has a tile of sums; a thread, or a warp with matrix instructions, a part of it in registers. Large tiles read
less: a tile of r by c sums loads r + c elements for r * c products. Small ones make more blocks, so that all
multiprocessors have work and the last round of blocks is not half empty.
"""

from __future__ import annotations

from dataclasses import dataclass

from weft.auto.gpu.contraction_product import Product
from weft.target.cuda.machine import WARP, GpuMachine

#: Warps a multiprocessor needs under way to keep its arithmetic busy; four are one group.
BUSY_WARPS, BUSY_GROUPED = 8, 4
#: Products a cycle of a multiprocessor with the best tiles, as measured on an H200: by each thread, by instructions.
PLAIN_RATE, MATRIX_RATE, GROUPED_RATE = 82, 800, 1080
#: Bytes of shared memory that the system takes for each block.
RESERVED = 1 << 10
#: Parts of a depth that are tried, and the shortest worth a sum of its own.
PARTS, SHORTEST = (1, 2, 4, 8, 16), 256
#: Seconds from the end of one launch to the start of the next.
LAUNCH = 2e-6


@dataclass(frozen=True, slots=True)
class Tiles:
    """``rows`` by ``columns`` sums a block, ``depth`` steps at a time; each thread (or warp) ``own_rows`` by
    ``own_columns`` of them; operands in shared memory ``stages`` deep. ``speed`` is the share of the peak that a
    multiprocessor reaches with such tiles when it has enough of them. ``warps``: by matrix instructions of a warp, or
    if ``grouped`` of four of them."""

    rows: int
    columns: int
    depth: int
    own_rows: int
    own_columns: int
    stages: int
    speed: float
    warps: bool = False
    grouped: bool = False

    @property
    def threads(self) -> int:
        parts = (self.rows // self.own_rows) * (self.columns // self.own_columns)
        return parts * WARP if self.warps else parts

    @property
    def name(self) -> str:
        return f"{self.rows} x {self.columns}"

    def shared_bytes(self, itemsize: int) -> int:
        pad = 0 if self.grouped else 16 // itemsize
        largest = self.rows * (self.depth + pad) + self.columns * (self.depth + pad) + pad * self.depth
        return self.stages * largest * itemsize


#: Sums by multiplications and additions of each thread. Speeds are relative, measured on an H200.
PLAIN = (
    Tiles(128, 128, 32, 16, 8, 2, 1.0),
    Tiles(128, 64, 16, 8, 8, 3, 0.94),
    Tiles(64, 128, 16, 8, 8, 3, 0.94),
    Tiles(64, 64, 32, 8, 4, 2, 0.92),
    Tiles(64, 64, 16, 8, 4, 3, 0.88),
    Tiles(64, 32, 16, 4, 4, 3, 0.66),
    Tiles(32, 64, 16, 4, 4, 3, 0.66),
    Tiles(32, 32, 16, 4, 2, 3, 0.5),
    Tiles(16, 64, 16, 4, 2, 3, 0.4),
    Tiles(16, 16, 8, 2, 1, 3, 0.25),
)

#: Sums by matrix instructions of four warps.
GROUPED = (
    Tiles(128, 256, 64, 16, 256, 4, 1.0, warps=True, grouped=True),
    Tiles(128, 128, 64, 16, 128, 3, 0.9, warps=True, grouped=True),
    Tiles(64, 128, 64, 16, 128, 6, 0.8, warps=True, grouped=True),
    Tiles(64, 64, 64, 16, 64, 6, 0.8, warps=True, grouped=True),
    Tiles(128, 64, 64, 16, 64, 6, 0.7, warps=True, grouped=True),
)

#: Sums by matrix instructions of each warp.
MATRIX = (
    Tiles(128, 256, 64, 64, 64, 4, 1.0, warps=True),
    Tiles(128, 256, 64, 64, 64, 3, 0.97, warps=True),
    Tiles(128, 128, 64, 64, 64, 3, 0.83, warps=True),
    Tiles(128, 256, 32, 64, 64, 3, 0.8, warps=True),
    Tiles(128, 128, 32, 64, 64, 4, 0.79, warps=True),
    Tiles(128, 128, 32, 64, 64, 3, 0.78, warps=True),
    Tiles(64, 128, 32, 32, 32, 4, 0.6, warps=True),
    Tiles(128, 64, 32, 32, 32, 4, 0.6, warps=True),
    Tiles(64, 64, 32, 32, 32, 4, 0.47, warps=True),
    Tiles(32, 64, 32, 16, 32, 4, 0.32, warps=True),
    Tiles(32, 32, 32, 16, 16, 4, 0.24, warps=True),
)


@dataclass(frozen=True, slots=True)
class Choice:
    """Tiles, and into how many parts the depth is cut that are added up afterwards."""

    tiles: Tiles
    parts: int
    seconds: float


def choose_tiles(product: Product, machine: GpuMachine, known: tuple[Tiles, ...], *, may_part: bool) -> Choice | None:
    """The tiles with which the busiest multiprocessor is done first; None where none fit."""
    size = max(s.access.buffer.dtype.itemsize for s in product.sides)
    fitting = [t for t in known if _fits(product, t) and t.shared_bytes(size) <= machine.shared_per_block]
    choices = [
        Choice(t, parts, seconds(product, machine, t, parts))
        for t in fitting
        for parts in (PARTS if may_part else (1,))
        if parts == 1 or product.deep // parts >= SHORTEST
    ]
    return min(choices, key=lambda c: c.seconds, default=None)


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
    rate = most_rate * machine.clock * tiles.speed * busy
    products = most * tiles.rows * tiles.columns * -(-product.steps // parts)
    adding = 0.0 if parts == 1 else LAUNCH + (2 * parts + 1) * product.results * 4 / machine.bandwidth
    return products / rate + adding


def count_blocks(product: Product, tiles: Tiles) -> int:
    rows, columns = product.rows.iterator.count, product.columns.iterator.count
    return -(-rows // tiles.rows) * -(-columns // tiles.columns) * product.batches
