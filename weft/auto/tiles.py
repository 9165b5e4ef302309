"""Tiles of sums that stay in registers: how many rows, how many vectors.

A contraction steps through its reductions; in each step the elements of a tile are all updated. What a step loads
is used by every element of the tile that does not depend on the iterators the load does not use, so the larger the
tile, the fewer loads an update costs, until registers run out. `choose_tile` counts for every shape of tile the cycles
of a step (arithmetic, loads, latency) and the part of the work that lies beyond the edges.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import prod

#: Most rows and most vectors of a tile that are looked at.
MOST_ROWS, MOST_VECTORS = 28, 6
#: What the loop around a step costs, and each load beyond the arithmetic that hides it, in cycles.
LOOP_CYCLES, LOAD_PRESSURE = 1.0, 0.1
#: Cycles for a lane that is fetched on its own.
LANE_CYCLES = 0.7


@dataclass(frozen=True, slots=True)
class Operand:
    """What a step loads: the spatial iterators it depends on, and how it is loaded along the lanes.

    ``lanes``: "vector" for neighbours in memory, "broadcast" for one element, "gather" for elements apart.
    """

    uses: frozenset[str]
    lanes: str
    is_guarded: bool = False


@dataclass(frozen=True, slots=True)
class Registers:
    """What a machine has for a tile: vector registers, lanes, instructions a cycle, latency of a sum."""

    count: int
    lanes: int
    fma_units: float = 1.0
    load_units: float = 1.0
    latency: float = 4.0


@dataclass(frozen=True, slots=True)
class Tile:
    """``rows`` are iterators whose elements are unrolled, with how many; ``width`` elements of the lane iterator."""

    rows: tuple[tuple[str, int], ...]
    width: int
    vectors: int
    #: Registers of sums, and cycles for each useful update of a whole vector.
    sums: int
    cycles: float

    @property
    def sizes(self) -> dict[str, int]:
        return dict(self.rows)


def choose_tile(
    extents: Mapping[str, int], lane: str, operands: Sequence[Operand], registers: Registers, instructions: int
) -> Tile:
    """The tile with the fewest cycles an update; ``extents`` are those of spatial iterators, ``lane`` among them."""
    useful = [name for name in extents if name != lane and any(name not in o.uses for o in operands)]
    best: Tile | None = None
    for rows in _row_shapes({n: extents[n] for n in useful if extents[n] > 1}, registers.count):
        for vectors in _sizes(-(-extents[lane] // registers.lanes), MOST_VECTORS):
            tile = _measure(extents, lane, rows, vectors, operands, registers, instructions)
            if tile is not None and (best is None or tile.cycles < best.cycles):
                best = tile
    assert best is not None  # one vector of one row always fits
    return best


def _row_shapes(extents: Mapping[str, int], registers: int) -> Iterator[tuple[tuple[str, int], ...]]:
    """Rows along one iterator, or along two where that may help."""
    yield ()
    for name, extent in extents.items():
        yield from (((name, size),) for size in _sizes(extent, min(MOST_ROWS, registers)) if size > 1)
    for a, b in combinations(extents, 2):
        for first in _sizes(extents[a], 8):
            for second in _sizes(extents[b], 8):
                if first > 1 and second > 1 and first * second < registers:
                    yield ((a, first), (b, second))


def _sizes(extent: int, most: int) -> list[int]:
    """Tile sizes worth a look: for each number of tiles the smallest that does."""
    if extent > most * most:
        return list(range(1, most + 1))
    return sorted({-(-extent // count) for count in range(1, extent + 1) if -(-extent // count) <= most})


def _measure(
    extents: Mapping[str, int],
    lane: str,
    rows: tuple[tuple[str, int], ...],
    vectors: int,
    operands: Sequence[Operand],
    registers: Registers,
    instructions: int,
) -> Tile | None:
    sums = vectors * prod(size for _, size in rows)
    if sums + vectors >= registers.count and sums > 1:
        return None
    counts = [(o, prod((size for name, size in rows if name in o.uses), start=1)) for o in operands]
    loaded = [(o, n * vectors if o.lanes != "broadcast" else n) for o, n in counts]
    if sums > 1 and sums + _kept(loaded) + max(1, instructions - 1) > registers.count:
        return None
    loads = sum(_load_cycles(o, n, registers) for o, n in loaded) / registers.load_units
    busy = max(sums * instructions / registers.fma_units, loads, registers.latency)
    width = vectors * registers.lanes
    waste = prod(_beyond(extents[name], size) for name, size in rows) * _beyond(extents[lane], width)
    cycles = (busy + LOAD_PRESSURE * loads + LOOP_CYCLES) * waste / sums
    return Tile(rows, width, vectors, sums, cycles)


def _kept(loaded: Iterable[tuple[Operand, int]]) -> int:
    """Registers for what is loaded and used more than once: all but the operand that is loaded most can wait there."""
    counts = sorted(n for o, n in loaded if o.lanes != "broadcast")
    return sum(counts[:-1]) if len(counts) > 1 else sum(counts)


def _load_cycles(operand: Operand, count: int, registers: Registers) -> float:
    if operand.lanes == "gather":
        return count * registers.lanes * LANE_CYCLES
    each = 1.0 if operand.lanes == "vector" else 0.5
    return count * each * (3 if operand.is_guarded else 1)


def _beyond(extent: int, tile: int) -> float:
    """What is computed over what is wanted."""
    return -(-extent // tile) * tile / max(1, extent)
