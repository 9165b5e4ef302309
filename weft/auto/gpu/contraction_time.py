"""What a product takes with given tiles, from what a block does with one piece of the depth.

A piece is copied to shared memory some pieces ahead, read from there into registers (by instructions of warp groups, by
the hardware itself), and multiplied. Several blocks of a multiprocessor overlap; one alone waits for its barriers and
for the first sums of each piece.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from weft.auto.gpu.contraction_digits import GROUP_ROWS, VECTOR
from weft.auto.gpu.contraction_product import Product
from weft.auto.gpu.contraction_tiles import ContractionPlan, Tiles, count_blocks, streamed_side, with_stages
from weft.auto.gpu.draft import WIDEST
from weft.auto.gpu.launch_time import LaunchTime, LaunchWork, launch_time
from weft.auto.stages import buffer_bytes
from weft.target.cuda.intrinsics import STEP_BYTES
from weft.target.cuda.launch_bounds import engine_blocks
from weft.target.cuda.machine import WARP, GpuMachine
from weft.target.cuda.rates import ISSUE, L1_BYTES, RESERVED_SHARED, Rates, rates_of

#: Instructions for each copy of up to 16 bytes: it, its address, its test; and the least bytes of one that runs on its
#: own, without a register in between.
COPY, NARROWEST = 3, 4
#: Products of an instruction of one warp (16-bit elements), bytes it loads.
PRODUCTS, FRAGMENT = 16 * 8 * 16, 512
#: The share of bandwidth that copies reach whose rows begin anywhere.
ODD_SHARE = 0.5
#: Cycles from one step of a warp to its next, and from one of its copies to the next, if it has nothing else to do.
STEP_CYCLES, COPY_CYCLES = 33, 16
#: How many times the bytes of few rows and of what they are multiplied with cost that come from the second cache: where
#: that was timed, a multiprocessor got some 20 bytes a cycle, wherever they came from.
THIN_BYTES = 1.35
#: The same where lanes fetch columns themselves: some 32 bytes a cycle.
FETCHED_THIN = 0.9
#: The part of a launch's own time that one takes which follows another of the same program: it starts as that ends.
FOLLOWING = 0.4
#: Where one group of warps multiplies alone and has so many columns, the share of the rate of others that it had where
#: it was timed; and the cycles that tiles of one group, and those of 64 columns, took longer.
SLOW_COLUMNS, SLOW_SHARE = 192, 0.68
ALONE_CYCLES, NARROW_CYCLES = 1200, 1000
#: Registers of a thread besides sums and operands.
OTHER_REGISTERS = 32


@dataclass(frozen=True, slots=True)
class Piece:
    """What a block does with a piece of the depth: instructions of warps, cycles of loads and of matrix units."""

    issued: float
    lsu: float
    matrix: float
    registers: int


def contraction_time(product: Product, machine: GpuMachine, plan: ContractionPlan) -> LaunchTime:
    """The launch that multiplies; parts are not added up yet."""
    tiles, rates = plan.tiles, rates_of(machine.capability)
    product = plan.of(product)
    size = product.rows.access.buffer.dtype.itemsize
    pieces = product.steps // product.deep * ceil(product.deep / (plan.parts * tiles.depth))
    # A single piece is not fetched, unless of several tiles: there is none to be ahead of.
    several = pieces > 1 or (plan.parts == 1 and streamed_side(product, tiles, machine) is not None)
    fetched = tiles.grouped and several and (plan.moved or product.why_not_fetched(machine) is None)
    piece = _piece(tiles, rates, size, 0.0 if fetched else _copies(product, tiles), fetched)
    blocks = count_blocks(product, tiles) * plan.parts
    copied = (tiles.rows + tiles.all_columns) * tiles.depth * size
    stored = tiles.rows * tiles.columns * (product.stored if plan.parts == 1 else 4) * product.store_overhead
    moved = copied * (rates.l2_bytes / rates.fetched_bytes if fetched else 1.0)
    made = _made_of(product, tiles, size)
    if product.is_thin and tiles.kind == "warps":  # rows that are not there are zeros
        rows = min(tiles.rows, product.rows.count)
        times = FETCHED_THIN if tiles.fetched and not made else THIN_BYTES
        moved = times * (rows + product.packed * tiles.columns) * tiles.depth * size
    warps = tiles.threads / WARP
    alone = max(piece.issued / min(ISSUE, warps), piece.lsu, piece.matrix)
    if fetched:  # two of the stages are being multiplied
        each = max(alone, rates.fetch_latency / max(1, tiles.stages - 2))
        words = tiles.rows * tiles.all_columns // tiles.threads
        room = tiles.shared_bytes(size) + tiles.rows * tiles.columns * size  # results go through it, too
        held = engine_blocks(words, tiles.threads, room, pieces, machine)
        shared = machine.shared_per_sm // held - RESERVED_SHARED
    else:
        waits = rates.barrier + rates.shared_latency + (rates.mma_latency if tiles.warps else 0)
        in_turn = 0.0
        if tiles.warps and not tiles.grouped:  # small tiles of a warp are one after another
            in_turn = (
                tiles.depth // tiles.spread * size / STEP_BYTES * STEP_CYCLES
                + copied / WIDEST / tiles.threads * COPY_CYCLES
            )
        latency = rates.fetch_latency if tiles.fetched else rates.memory_latency
        ahead = latency if tiles.fetched and not made else latency / (tiles.stages - 1)
        each = max(max(alone, in_turn) + waits, ahead)
        shared = with_stages(product, tiles, machine).shared_bytes(size) + tiles.stages * made
        shared += tiles.rows * tiles.columns * product.stored if tiles.grouped else 0
    work = LaunchWork(
        blocks=blocks,
        threads=tiles.threads,
        registers=piece.registers,
        shared=shared,
        dram=sum(n * buffer_bytes(s.access.buffer) for n, s in zip((1.0, tiles.twins * product.packed), product.sides))
        + blocks * stored,
        l2=blocks * (pieces * moved + stored),
        issued=pieces * piece.issued + stored / WIDEST,
        lsu=pieces * piece.lsu + stored / L1_BYTES,
        matrix=pieces * piece.matrix,
        chain=pieces * each + (_slow_cycles(tiles) if fetched and pieces > 1 else 0.0),
        trips=1.0 if fetched and pieces == 1 else 2.0,  # operands of the next tiles come while one is stored
    )
    return launch_time(work, machine)


def _made_of(product: Product, tiles: Tiles, size: int) -> int:
    """Bytes that lanes make the columns of a piece of, where they do."""
    if not tiles.fetched or product.packed == 1:
        return 0
    return tiles.columns * (ceil(product.packed * tiles.depth * size) + WIDEST)


def _slow_cycles(tiles: Tiles) -> float:
    alone = ALONE_CYCLES if tiles.rows == GROUP_ROWS else 0.0
    return alone + (NARROW_CYCLES if tiles.columns == GROUP_ROWS else 0.0)


def product_seconds(
    product: Product, machine: GpuMachine, plan: ContractionPlan, constants: frozenset[str] = frozenset()
) -> float:
    """All launches; copies of ``constants`` are made once for all calls."""
    seconds, rates = contraction_time(product, machine, plan).seconds, rates_of(machine.capability)
    if not (plan.boxed or plan.deep):  # zeros around operands
        around = [2 * buffer_bytes(s.access.buffer) / machine.bandwidth for s in product.sides if s.access.guarded]
        seconds += sum(rates.launch + each for each in around)
    made = [s.access.buffer for s in product.sides if s.turned and s.access.buffer.name not in constants]
    turned = [2 * buffer_bytes(b) / machine.bandwidth for b in made]
    seconds += sum(rates.launch + each for each in turned)
    if plan.moved:
        copied = [2 * buffer_bytes(b) / (machine.bandwidth * ODD_SHARE) for b in product.moved_apart(machine)]
        seconds += sum(rates.launch + each for each in copied)
    if plan.parts == 1:
        return seconds
    return seconds + FOLLOWING * rates.launch + (plan.parts + 1) * product.results * 4 / machine.bandwidth


def _copies(product: Product, tiles: Tiles) -> float:
    """Instructions of warps that copy the operands of a piece: such narrow ones as rows allow."""
    counts = zip(product.sides, (tiles.rows, tiles.all_columns))
    bytes_of = [(s, n * tiles.depth * s.access.buffer.dtype.itemsize) for s, n in counts]
    return sum(n / s.whole_bytes * (COPY if s.whole_bytes >= NARROWEST else 2 * COPY) for s, n in bytes_of) / WARP


def _piece(tiles: Tiles, rates: Rates, size: int, copies: float, fetched: bool) -> Piece:
    """``copies`` are instructions of threads; ``fetched``: the copy engine brings operands."""
    copied = (tiles.rows + tiles.all_columns) * tiles.depth * size
    products = tiles.rows * tiles.all_columns * tiles.depth
    warps = tiles.threads / WARP
    if not tiles.warps:
        loads, cycles = _plain_loads(tiles)
        own = tiles.own_rows * tiles.own_columns
        issued = products / WARP + warps * loads + copies
        registers = own + VECTOR * (tiles.own_rows + tiles.own_columns) // 2 + OTHER_REGISTERS
        return Piece(issued, (warps * cycles + copied / L1_BYTES) / rates.shared_share, 0.0, registers)
    if tiles.grouped:
        read = 1.0 * tiles.rows // GROUP_ROWS * (tiles.twins * GROUP_ROWS + tiles.all_columns) * tiles.depth * size
        registers = tiles.all_columns // 2 + OTHER_REGISTERS
        is_slow = tiles.rows == GROUP_ROWS and tiles.all_columns == SLOW_COLUMNS
        share = rates.fetched_share * (SLOW_SHARE if is_slow else 1.0) if fetched else rates.wgmma_share
        return Piece(
            copies + 8 * warps,
            (read + copied) / (L1_BYTES * rates.shared_share),
            products * size / 2 / (rates.wgmma * share),
            registers,
        )
    read = warps * (tiles.own_rows + tiles.own_columns) * tiles.depth // tiles.spread * size
    own = tiles.own_rows * tiles.own_columns // WARP
    fragments = (tiles.own_rows + tiles.own_columns) * 16 * 2 // (WARP * 4) * 2
    if tiles.fetched:  # those of a piece
        fragments = tiles.own_columns * tiles.depth // tiles.spread * size // (WARP * 4)
    rate = rates.mma * rates.mma_share * 2 / size
    issued = products / PRODUCTS * size / 2 + read / FRAGMENT + copies
    return Piece(
        issued, (read + copied) / (L1_BYTES * rates.shared_share), products / rate, own + fragments + OTHER_REGISTERS
    )


def _plain_loads(tiles: Tiles) -> tuple[float, float]:
    """Loads of a thread from shared memory in a piece, and the cycles that those of a warp take."""
    across = min(WARP, tiles.columns // tiles.own_columns)
    down = max(1, WARP // across)
    loads = cycles = 0.0
    for own, apart in ((tiles.own_rows, down), (tiles.own_columns, across)):
        count = own * tiles.depth / min(VECTOR, own)
        loads += count
        cycles += count * max(1.0, apart * min(VECTOR, own) * 4 / L1_BYTES)
    return loads, cycles
