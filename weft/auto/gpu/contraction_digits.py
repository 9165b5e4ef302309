"""Which threads have which sums of a block's tile: the loops through it cut into digits, some of them threads.

A thread has several sums in each direction. Where neighbours in memory are along the depth, its rows are as far
apart as there are threads, so that threads side by side read rows side by side; else it has four neighbours at a
time, one access of 16 bytes. With matrix instructions the digits are those of the instruction.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from weft.auto.gpu.contraction_product import Product, Side
from weft.auto.gpu.contraction_tiles import ROWS, Tiles
from weft.ir.stmt import LoopKind
from weft.schedules.schedule import Schedule

#: Elements of one access to shared memory.
VECTOR = 4
#: Of an instruction's tile: rows and columns that one lane has side by side or apart.
HALF, COLUMNS, PAIR = 8, 8, 2
#: Rows of four warps, whose instruction has columns in blocks; both are the elements of a row of shared memory.
GROUP_ROWS = BLOCK = 64


def column_block(columns: int) -> int:
    """Columns of a block of so many; where they are no whole blocks, all of them or half."""
    return BLOCK if columns % BLOCK == 0 else columns if columns <= 2 * BLOCK else columns // 2


#: Loops over threads, outermost first, and over the sums of a thread.
Digits = tuple[tuple[str, ...], tuple[str, ...]]


def split_names(s: Schedule, loop: str, factor: int) -> tuple[str, str]:
    outer, inner = s.split(loop, factor)
    return str(outer), str(inner)


def digit_names(s: Schedule, loop: str, *factors: int) -> tuple[str, ...]:
    return tuple(map(str, s.subdivide(loop, *factors)))


def run_all(s: Schedule, kind: LoopKind, loops: Sequence[str]) -> None:
    """``loops`` of one nest as ``kind``, where there are any."""
    if loops:
        s.run_as(kind, *loops)


def cut_tile(s: Schedule, p: Product, tiles: Tiles, loops: Sequence[str]) -> Digits:
    """The loops through the rows and the columns of a block's tile, the innermost threads of both last."""
    if not tiles.warps:
        factors = [plain_factors(side, *share) for side, share in zip(p.sides, tiles.shares)]
        own: list[tuple[int, ...]] = [(-2,) if len(f) == 1 else (-3, -1) for f in factors]
    elif tiles.grouped:  # blocks of 64 columns, tiles, lanes, pairs
        factors, own = [_row_factors(tiles), (column_block(tiles.columns), COLUMNS, PAIR)], [(-2,), (-4, -3, -1)]
    else:  # warps, tiles of 8 columns, lanes of pairs
        factors = [_row_factors(tiles), (tiles.own_columns, COLUMNS, PAIR)]
        own = [(-3, -2), (-3, -1)]
    (down, mine), (across, others) = (_cut(s, *direction) for direction in zip(loops, factors, own))
    return (*down[:-1], *across[:-1], down[-1], across[-1]), (*mine, *others)


def _row_factors(tiles: Tiles) -> tuple[int, ...]:
    """Groups of 64 rows, if there are several, and warps of 16, or warps and tiles of 16; halves of 8, lanes."""
    if not tiles.grouped:
        return tiles.own_rows, ROWS, HALF
    return (*((GROUP_ROWS,) if tiles.rows > GROUP_ROWS else ()), ROWS, HALF)


def row_digits(s: Schedule, tiles: Tiles, loop: str) -> Digits:
    """``loop`` through the rows of a tile by matrix instructions alone: each thread has those that it has sums of."""
    return _cut(s, loop, _row_factors(tiles), (-2,) if tiles.grouped else (-3, -2))


def plain_factors(side: Side, size: int, own: int) -> tuple[int, ...]:
    """What a loop through ``size`` sums, ``own`` of them a thread's, is split by without matrix instructions."""
    threads = size // own
    return (threads,) if side.along_depth or own < VECTOR else (threads * VECTOR, VECTOR)


def _cut(s: Schedule, loop: str, factors: Sequence[int], own: Collection[int]) -> Digits:
    """``loop`` split by one factor after the other; the digits at places ``own``, from the end, are a thread's."""
    digits = digit_names(s, loop, *factors)
    places = range(-len(digits), 0)
    return tuple(digits[n] for n in places if n not in own), tuple(digits[n] for n in places if n in own)
