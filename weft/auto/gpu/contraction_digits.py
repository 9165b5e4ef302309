"""Which threads have which sums of a block's tile: the loops through it cut into digits, some of them threads.

A thread has several sums in each direction. Where neighbours in memory are along the depth, its rows are as far
apart as there are threads, so that threads side by side read rows side by side; else it has four neighbours at a
time, one access of 16 bytes. With matrix instructions the digits are those of the instruction.
"""

from __future__ import annotations

from dataclasses import dataclass

from weft.auto.gpu.contraction_product import Side
from weft.auto.gpu.contraction_tiles import Tiles
from weft.schedules.schedule import Schedule

#: Elements of one access to shared memory.
VECTOR = 4
#: Rows of an instruction's tile, rows and columns that one lane has side by side or apart.
ROWS, HALF, COLUMNS, PAIR = 16, 8, 8, 2
#: Bytes of a row of an operand that an instruction takes.
STEP_BYTES = 32
#: Rows of four warps, whose instruction has columns in blocks; both are the elements of a row of shared memory.
GROUP_ROWS = BLOCK = 64


@dataclass(frozen=True, slots=True)
class Digits:
    """The loops of one direction: over threads, outermost first, and over the sums of a thread."""

    threads: tuple[str, ...]
    own: tuple[str, ...]


def split_names(s: Schedule, loop: str, factor: int) -> tuple[str, str]:
    outer, inner = s.split(loop, factor)
    return str(outer), str(inner)


def cut_plain(s: Schedule, loop: str, side: Side, size: int, own: int) -> Digits:
    """``loop`` through ``size`` sums, ``own`` of them to a thread."""
    threads = size // own
    if side.along_depth or own < VECTOR:
        apart, thread = split_names(s, loop, threads)
        return Digits((thread,), (apart,))
    apart, rest = split_names(s, loop, threads * VECTOR)
    thread, lanes = split_names(s, rest, VECTOR)
    return Digits((thread,), (apart, lanes))


def cut_rows(s: Schedule, loop: str, tiles: Tiles) -> Digits:
    """The rows of a block's tile with matrix instructions: warps, tiles of 16, halves of 8, lanes."""
    warp, rest = split_names(s, loop, tiles.own_rows)
    tile, rest = split_names(s, rest, ROWS)
    half, lane = split_names(s, rest, HALF)
    return Digits((warp, lane), (tile, half))


def cut_group_rows(s: Schedule, loop: str, tiles: Tiles) -> Digits:
    """The rows of a block's tile with instructions of warp groups: groups of 64, warps of 16, halves of 8, lanes."""
    groups: tuple[str, ...] = ()
    if tiles.rows > GROUP_ROWS:
        group, loop = split_names(s, loop, GROUP_ROWS)
        groups = (group,)
    warp, rest = split_names(s, loop, ROWS)
    half, lane = split_names(s, rest, HALF)
    return Digits((*groups, warp, lane), (half,))


def cut_group_columns(s: Schedule, loop: str) -> Digits:
    """The columns likewise, which all warps have: blocks of 64, tiles of 8, lanes of pairs."""
    block, rest = split_names(s, loop, BLOCK)
    tile, rest = split_names(s, rest, COLUMNS)
    lane, odd = split_names(s, rest, PAIR)
    return Digits((lane,), (block, tile, odd))


def cut_columns(s: Schedule, loop: str, tiles: Tiles) -> Digits:
    """The columns likewise: warps, tiles of 8, lanes of pairs."""
    warp, rest = split_names(s, loop, tiles.own_columns)
    tile, rest = split_names(s, rest, COLUMNS)
    lane, odd = split_names(s, rest, PAIR)
    return Digits((warp, lane), (tile, odd))
