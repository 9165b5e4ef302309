"""What a tile of sums takes of the registers, and what it makes of them: loads, waste, what can join it."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from weft.auto.contraction_epilogue import find_epilogue
from weft.auto.contraction_plan import footprint, instructions, is_window
from weft.auto.draft import Draft
from weft.auto.estimate_regions import MAX_COPIES
from weft.auto.stages import Stage, StageIter

Rows = tuple[tuple[str, int], ...]
#: Loads and updates for each update that is needed, how often operands are read, width, rows.
Tile = tuple[float, float, int, int, Rows]
#: Updates' worth of time that a sum takes to be stored, and loaded and stored again.
PASS = 3.0
#: Updates of a tile of windows, at most, of which a processor holds two: 256 instructions and more wait for their turn.
OVERLAPPED = 192


class TileRegisters:
    """What a tile with lanes along an iterator takes of the registers, and what it makes of them."""

    def __init__(self, draft: Draft, stage: Stage, lane: StageIter) -> None:
        self.stage, self.lane, self.vector = stage, lane, draft.lanes(stage)
        self.operands = [(a.uses(lane.name), {i.name for i in stage.spatial if a.uses(i.name)}) for a in
                         stage.distinct_reads]  # fmt: skip
        used = set().union(*(uses for along, uses in self.operands if along))
        #: Iterators for each value of which all that is loaded as vectors is read again.
        self.unused = [i for i in stage.spatial if i.name not in used]
        self.count = draft.registers
        self.is_window, self.steps = is_window(stage, lane.name), prod(i.count for i in stage.reductions)
        vectors = (a for a in stage.distinct_reads if a.uses(lane.name))
        #: Whether what is loaded as vectors stays in the first cache, however often it is read.
        self.is_near = sum(footprint(stage, a) * a.buffer.dtype.itemsize for a in vectors) <= draft.cache("L1") // 2
        self.has_masks = draft.model.has_masks
        self.between = instructions(stage)
        #: Updates that a load takes the time of.
        self.loads_worth = draft.model.fma_units / draft.model.load_units
        #: Sums that keep the units busy while each waits for the one before.
        self.enough = draft.enough_sums
        reader = find_epilogue(draft, draft.stage(stage.name)) if stage.outer else None
        #: Operations on each sum that are to join its tile in loops shared with others.
        self.done = 0 if reader is None else max(1, reader.operations)

    def time(self, loads: float, waste: float) -> float:
        """Of the busiest unit, in updates for each one that is needed."""
        return waste * max(1.0, loads * self.loads_worth)

    def least_time(self, tiles: Sequence[Tile]) -> float:
        return min(self.time(loads, waste) for loads, waste, *_ in tiles)

    def is_used_by_all(self, name: str) -> bool:
        return all(name in uses for _, uses in self.operands)

    def loads_if_fitting(self, rows: Rows, vectors: int) -> float | None:
        """Loads for each update; None where sums, vectors that are used again and what is in between have no room."""
        sums = vectors
        for _, size in rows:
            sums *= size
        loaded, kept = 0, []
        for along, uses in self.operands:
            count = vectors if along else 1
            for name, size in rows:
                if name in uses:
                    count *= size
            loaded += count
            if along:
                kept.append(count)
        kept.sort()  # vectors of one operand need not wait for one another
        held = sum(kept[:-1]) if len(kept) > 1 else sum(kept)
        # Where all steps are written out rows share what they load, and that stays in registers too.
        is_shared = self.is_window and sums * self.steps <= MAX_COPIES
        room = self.count // 2 if is_shared else self.count
        if sums > 1 and sums + held + self.between > room:
            return None
        if not is_shared:
            return loaded / sums
        # Fewer than one in the time of an update are as good as none.
        return max(1 / self.loads_worth, self._shared_loads(rows, vectors) / (sums * self.steps))

    def _shared_loads(self, rows: Rows, vectors: int) -> int:
        """What all steps of a tile load, each element once."""
        reach = {i.name: i.count - 1 for i in self.stage.reductions} | {name: size - 1 for name, size in rows}
        count = 0
        for access in self.stage.distinct_reads:
            places = 1
            for row in access.rows or ():
                places *= 1 + sum(abs(n) * reach.get(name, 0) for name, n in row.items())
            count += places * (vectors if access.uses(self.lane.name) else 1)
        return count

    def is_even(self, rows: Rows, width: int) -> bool:
        """Whether no part of a tile is left over along any iterator, as far as that is known."""
        iters = ((self.stage.by_name[name], size) for name, size in (*rows, (self.lane.name, width)))
        return all(i.extent is None or i.count % size == 0 for i, size in iters)

    def order_windows(self, rows: Rows, width: int) -> tuple[float, ...]:
        """Of tiles of windows that are equal in all else that counts, those along one iterator come first: what they
        touch lies in fewer places; then those that load least."""
        if not self.is_window:
            return ()
        vectors = self.vectors(width)
        return len(rows), self._shared_loads(rows, vectors) / vectors / prod(size for _, size in rows)

    def joins(self, rows: Rows, width: int) -> bool:
        """Whether what is done with sums can be done after each tile: all are full, and it is not long."""
        sums = self.vectors(width) * prod(size for _, size in rows)
        return self.is_even(rows, width) and sums * self.done <= MAX_COPIES

    def joins_as(self, tile: Tile, other: Tile) -> bool:
        """Whether that joins ``tile`` if it joins ``other``, where it is not known to be done elsewhere."""
        return not self.stage.outer or self.joins(tile[4], tile[3]) or not self.joins(other[4], other[3])

    def pass_time(self, rows: Rows, width: int) -> float:
        """What another pass over the sums takes at the least, in updates for each one that is needed."""
        return 0.0 if self.done == 0 or self.joins(rows, width) else PASS / self.steps

    def passes(self, rows: Rows) -> int:
        """How often what is loaded as vectors is read, where it matters."""
        if self.is_near:
            return 1
        sizes, count = dict(rows), 1
        for i in self.unused:
            count *= -(-i.count // sizes.get(i.name, 1))
        return count

    def waste(self, rows: Rows, width: int) -> float:
        """Updates that are paid for each that is needed: of tiles on an edge, and of those with too few sums."""
        vectors = self.vectors(width)
        sums = vectors
        for _, size in rows:
            sums *= size
        full, rest = divmod(self.lane.count, width)
        left = -(-rest // self.vector)  # of what fills no vector the loads are masked
        found = self._paid(full, left / vectors, sums) * vectors * self.vector / self.lane.count
        for name, size in rows:
            full, rest = divmod(self.stage.by_name[name].count, size)
            found *= self._paid(full, rest / size, sums) * size / self.stage.by_name[name].count
        for name, size in (*rows, (self.lane.name, width)):
            i = self.stage.by_name[name]
            found *= 1.0 if i.exact else 1 + min(size, i.count) / i.count  # on average half a tile beyond a diagonal
        return found * max(1.0, self._enough(sums) / sums)

    def _enough(self, sums: int) -> float:
        """Sums that keep the units busy: tiles so short that a processor has begun the next one need no others."""
        return 1.0 if self.is_window and sums * self.steps <= OVERLAPPED else self.enough

    def _paid(self, full: int, part: float, sums: int) -> float:
        """Tiles that ``full`` ones and a part of one count for: that takes as long as sums wait for one another."""
        return full + (max(part, min(1.0, self.enough / sums)) if part else 0.0)

    def widths(self) -> list[int]:
        """Whole vectors, all that there is, or parts that come out even and take no more vectors than that."""
        count, vector, most = self.lane.count, self.vector, self.count * self.vector
        whole = range(vector, min(most, count) + 1, vector)
        even = (n for n in range(vector // 2 + 1, min(most, count) + 1) if count % n == 0)
        tight = (n for n in even if count // n * -(-n // vector) <= -(-count // vector))
        return sorted({*whole, *tight, *([count] if count <= most else [])})

    def vectors(self, width: int) -> int:
        """Instructions for a tile of ``width`` elements: what fills no vector is masked, or done in smaller ones."""
        whole, rest = divmod(width, self.vector)
        return whole + ((rest > 0) if self.has_masks else rest.bit_count())
