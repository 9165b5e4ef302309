"""Tiles of sums that stay in registers: how many rows, how many vectors.

A contraction steps through its reductions; in each step the elements of a tile are all updated. What a step loads
serves every element of the tile that differs only in iterators the load does not use, so the larger the tile, the
fewer loads an update costs, until registers run out. `choose_tile` counts for every shape of tile the cycles of a step
(arithmetic, loads, latency), the work beyond the edges, and the copies that the shape makes necessary.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from math import prod
from typing import NamedTuple

#: Most rows and most vectors of a tile that are looked at.
MOST_ROWS, MOST_VECTORS = 28, 8
#: Most rows along each of two iterators; and how much of its vectors a tile must fill that is no multiple of them.
MOST_OF_TWO, EVEN_PART = 7, 1.35
#: What the loop around a step costs, and each load beyond the arithmetic that hides it, in cycles.
LOOP_CYCLES, LOAD_PRESSURE = 0.25, 0.1
#: Cycles that bringing a cache line nearer costs, beyond what goes on meanwhile.
LINE_CYCLES = 1.0
#: The same for a vector from the second cache.
VECTOR_CYCLES = 0.1
#: How much longer a tile takes whose last vector is partly masked.
MASK_FACTOR = 1.05
#: Cycles for a lane that is fetched on its own, and times a load costs that is made under a condition.
LANE_CYCLES, GUARD_FACTOR = 0.7, 3
#: Cycles for a vector of every second element or so: loads of all, and a few exchanges, which keep sums waiting.
STRIDED_CYCLES, EXCHANGE_CYCLES = 6.0, 2.0
#: Cycles for a load, where they are not one.
_LOAD_CYCLES = {"broadcast": 0.5, "strided": STRIDED_CYCLES}
#: Cycles to copy an element to where its neighbours stay its neighbours, and to turn rows into columns meanwhile:
#: squares of a power of two are turned in registers, others element by element.
COPY_CYCLES, TURN_CYCLES, SCATTER_CYCLES = 0.3, 0.8, 2.0
#: How much longer turning takes what comes from beyond the second cache.
FAR_TURN = 2.5
#: Cycles to store a sum whose neighbours in lanes are apart in memory, after a square was turned in registers.
STORE_CYCLES = 2.0
#: Times that a large operand must be read, each time for other rows, to pay for a copy in the order of reading.
MANY_READS = 16
#: What steps of a last tile take of which there is little, in parts of what those of a full one do.
LEAST_TILE = 0.3
#: How much longer a contraction may take before tiles that leave a part over are chosen: they are written out twice.
UNEVEN_FACTOR = 1.03
#: How much longer steps of a tile take of which it is not known how full it is: they test each element.
EDGE_FACTOR = 2.0


@dataclass(frozen=True, slots=True)
class Operand:
    """What a step loads: the spatial iterators it depends on, and how it is loaded along the lanes.

    ``lanes``: "vector" for neighbours in memory, "strided" for every second or so of them, "apart" for elements that
    can be copied to be neighbours, "gather" for those that cannot, "broadcast" for one element. ``can_copy`` says
    whether a copy may be read instead, and ``elements`` counts those to copy (0 where that is done before the program
    runs).
    """

    uses: frozenset[str]
    lanes: str
    can_copy: bool = False
    elements: int = 0
    is_guarded: bool = False
    #: Cache lines from one element to the next along each iterator (at most 1), and steps that a line serves.
    lines: Mapping[str, float] = field(default_factory=dict)
    steps_per_line: float = 1.0
    #: Whether reading it as it is costs more than copying it: too large for the cache.
    is_large: bool = False
    #: Different elements that all steps of one sum load.
    depth: int = 1


@dataclass(frozen=True, slots=True)
class Work:
    """The spatial iterators of a contraction with their extents, and its steps.

    ``short`` has iterators that run so often at most, and the part of all cases in which they run less often.
    """

    extents: Mapping[str, int]
    short: Mapping[str, float]
    operands: Sequence[Operand]
    steps: int
    #: Vector instructions of an update.
    instructions: int
    #: Whether all steps are written out, since rows share what they load: that takes registers too.
    is_written_out: bool = False


@dataclass(frozen=True, slots=True)
class Registers:
    """What a machine has for a tile: vector registers, lanes, instructions a cycle, latency of a sum."""

    count: int
    lanes: int
    fma_units: float = 1.0
    load_units: float = 1.0
    latency: float = 4.0
    #: Vectors that stay in the first cache while something else goes through it.
    near: float = float("inf")


@dataclass(frozen=True, slots=True)
class Tile:
    """``rows`` are iterators whose elements are unrolled, with how many; ``width`` elements of the lane iterator."""

    lane: str
    rows: tuple[tuple[str, int], ...]
    width: int
    vectors: int
    #: Positions of the operands that are copied first.
    packed: frozenset[int]
    #: Cycles for the whole contraction.
    cycles: float

    @property
    def sums(self) -> int:
        """Registers of sums."""
        return self.vectors * prod(size for _, size in self.rows)

    @property
    def sizes(self) -> dict[str, int]:
        return dict(self.rows)


class _Shape(NamedTuple):
    """Rows and width of a tile, and the cycles that all steps take; shapes are looked at in the order of these."""

    cycles: float
    place: int
    rows: tuple[tuple[str, int], ...]
    width: int
    vectors: int


def choose_tile(work: Work, lane: str, registers: Registers, most: float = float("inf")) -> Tile | None:
    """The tile with the fewest cycles with lanes along iterator ``lane``; None where none has below ``most``."""
    best: Tile | None = None
    place = 0  # of equally good ones, that of more rows is listed first
    for shape in sorted(_shapes(work, lane, registers)):
        if shape.cycles >= most:
            break
        tile = _measure(work, lane, shape, registers.lanes)
        if tile.cycles < most or (tile.cycles == most and best is not None and shape.place < place):
            best, most, place = tile, tile.cycles, shape.place
    return best


def _shapes(work: Work, lane: str, registers: Registers) -> Iterator[_Shape]:
    """Every shape that has room in registers."""
    useful = [n for n in work.extents if n != lane and any(n not in o.uses for o in work.operands)]
    lanes, place = registers.lanes, 0
    widths = [
        (width, -(-width // lanes), _effective_tiles(work.extents[lane], width, lanes))
        for width in _widths(work.extents[lane], lanes)
    ]
    count = registers.count // 2 if work.is_written_out else registers.count
    for rows in _row_shapes({n: work.extents[n] for n in useful if work.extents[n] > 1}, registers.count):
        high = prod(size for _, size in rows)
        tiles: dict[str, float] = {**work.extents}
        tiles.update((name, _effective_tiles(work.extents[name], size, 1)) for name, size in rows)
        elements = [prod(size for name, size in rows if name in o.uses) for o in work.operands]
        lines = sum(_lines(o, rows) for o in work.operands if o.lanes == "broadcast")
        for width, vectors, tiles_along in widths:
            sums = high * vectors
            if sums + vectors > registers.count and sums > 1:
                break  # wider ones take more registers still
            loaded = [n if o.lanes == "broadcast" else n * vectors for o, n in zip(work.operands, elements)]
            if sums > 1 and sums + _kept(work.operands, loaded) + max(1, work.instructions - 1) > count:
                continue
            # Half a vector takes half a unit.
            updates = high * (vectors - (0.5 if 0 < width % lanes <= lanes // 2 else 0))
            tiles[lane] = tiles_along
            cycles = work.steps * prod(tiles.values()) * _step_cycles(work, registers, updates, loaded, lines)
            place += 1
            yield _Shape(cycles, place, rows, width, vectors)


def _step_cycles(work: Work, registers: Registers, updates: float, loaded: Sequence[int], lines: float) -> float:
    """Cycles of a step that updates so many vectors, with what it loads of each operand, and cache lines at first."""
    busy = max(updates * work.instructions / registers.fma_units, registers.latency)
    loads, far = 0.0, 0
    for o, n in zip(work.operands, loaded):
        loads += _load_cycles(o, n, registers)
        if o.lanes != "broadcast" and o.depth * n > registers.near:
            far += n
        if o.lanes == "strided":
            busy += EXCHANGE_CYCLES * n
    loads /= registers.load_units
    return max(busy, loads) + LOAD_PRESSURE * loads + (LINE_CYCLES * lines + VECTOR_CYCLES * far) + LOOP_CYCLES


def _row_shapes(extents: Mapping[str, int], registers: int) -> Iterator[tuple[tuple[str, int], ...]]:
    """Rows along one iterator, more before fewer, or along two."""
    sizes = {name: _sizes(extent, min(MOST_ROWS, registers)) for name, extent in extents.items()}
    for name, some in sizes.items():
        yield from (((name, size),) for size in reversed(some) if size > 1)
    for a, b in combinations(extents, 2):
        for first in (n for n in sizes[a] if 1 < n <= MOST_OF_TWO):
            yield from (((a, first), (b, second)) for second in sizes[b] if 1 < second <= MOST_OF_TWO)
    yield ()


def _sizes(extent: int, most: int) -> list[int]:
    """Tile sizes worth a look: for each number of tiles the smallest that does."""
    if extent > most * most:
        return list(range(1, most + 1))
    return [size for size in range(1, min(most, extent) + 1) if -(-extent // -(-extent // size)) == size]


def _widths(extent: int, lanes: int) -> list[int]:
    """Whole vectors, or parts of the extent that come out even and nearly fill their vectors."""
    most = MOST_VECTORS * lanes
    whole = [width for width in range(lanes, most + 1, lanes) if width <= extent]
    even = [n for n in range(lanes // 2 + 1, min(most, extent) + 1) if extent % n == 0]
    found = {*whole, *(n for n in even if -(-n // lanes) * lanes <= EVEN_PART * n)}
    return sorted(found | ({extent} if extent <= most else set()))


def _measure(work: Work, lane: str, shape: _Shape, lanes: int) -> Tile:
    """The tile of that shape, with what its edges and copies take."""
    cycles, _, rows, width, vectors = shape
    sizes = {lane: width, **dict(rows)}
    tiles = {name: -(-work.extents[name] // size) for name, size in sizes.items()}
    packed = frozenset(n for n, o in enumerate(work.operands) if _is_packed(o, tiles))
    rest = width % lanes
    cycles *= MASK_FACTOR if rest & (rest - 1) else 1
    cycles *= 1 + (EDGE_FACTOR - 1) * _at_edges(work, tiles)
    cycles *= UNEVEN_FACTOR ** sum(work.extents[name] % size != 0 for name, size in sizes.items())
    cycles += sum(_copy_cycles(work.operands[n], width) for n in packed)
    return Tile(lane, rows, width, vectors, packed, cycles)


def _kept(operands: Sequence[Operand], loaded: Sequence[int]) -> int:
    """Registers for vectors that are used more than once; those of one operand need not wait for one another."""
    counts = sorted(n for o, n in zip(operands, loaded) if o.lanes != "broadcast")
    return sum(counts[:-1]) if len(counts) > 1 else sum(counts)


def _load_cycles(operand: Operand, count: int, registers: Registers) -> float:
    if operand.lanes == "gather":
        return count * registers.lanes * LANE_CYCLES
    each = _LOAD_CYCLES.get(operand.lanes, 1.0)
    return count * each * (GUARD_FACTOR if operand.is_guarded else 1)


def _lines(operand: Operand, rows: tuple[tuple[str, int], ...]) -> float:
    """Cache lines that a step touches first."""
    touched = prod(max(1.0, size * operand.lines.get(name, 1.0)) for name, size in rows if name in operand.uses)
    return touched / operand.steps_per_line


def _effective_tiles(extent: int, size: int, lanes: int) -> float:
    """Tiles along an iterator; the last one, of which as much is written out as there is, counts less."""
    full, rest = divmod(extent, size)
    part = -(-rest // lanes) / -(-size // lanes)
    return full + (LEAST_TILE + (1 - LEAST_TILE) * part if rest else 0)


def _at_edges(work: Work, tiles: Mapping[str, int]) -> float:
    """The part of the tiles of which it is not known how full they are."""
    return 1 - prod(1 - work.short.get(name, 0) / max(2, count) for name, count in tiles.items())


def _is_packed(operand: Operand, tiles: Mapping[str, int]) -> bool:
    """Whether the operand is copied: it must be, or it is large and read often."""
    reads = prod(count for name, count in tiles.items() if name not in operand.uses)
    often = operand.lanes == "vector" and operand.is_large and reads >= MANY_READS
    return operand.can_copy and (operand.lanes == "apart" or often)


def turning_cycles(rows: int, *, near: bool) -> float:
    """What storing a sum takes whose lanes are apart in memory, while its ``rows`` rows are neighbours, if ``near``."""
    if not near:
        return 8 * STORE_CYCLES
    return STORE_CYCLES if rows >= 4 and rows & (rows - 1) == 0 else 2 * STORE_CYCLES


def _copy_cycles(operand: Operand, width: int) -> float:
    if operand.lanes == "vector":
        return operand.elements * COPY_CYCLES
    turning = TURN_CYCLES if width % 4 == 0 else SCATTER_CYCLES
    return operand.elements * turning * (FAR_TURN if operand.is_large else 1)
