"""Bytes that come into each cache, statement by statement.

Data are kept by a cache over a loop where what one iteration touches fits into it; from the outermost such loop
inwards, everything comes once. What an earlier statement has just brought is not fetched again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from weft.auto.estimate_vectors import Lanes
from weft.schedules.footprint import Touch, infer_touches
from weft.schedules.nests import Leaf, Nest, Program

#: Shares of a cache that are surely kept, and surely not: between them some of the data are.
KEPT, LOST = 0.75, 1.25
#: Lines of a run that come before it is foreseen.
TRAINING = 2.0


@dataclass(slots=True)
class Traffic:
    """Bytes of one statement that come into a cache, and that leave it for the next one.

    ``jumps`` counts the lines among them that begin a run, which nothing foresees.
    """

    read: float = 0.0
    written: float = 0.0
    streamed: float = 0.0
    jumps: float = 0.0


class TrafficModel:
    """The traffic of a program; ``needs`` are the bytes that one iteration of each loop works on."""

    def __init__(self, program: Program, line: int, lanes: Mapping[Leaf, Lanes]) -> None:
        self.program = program
        self.line = line
        self.lanes = lanes
        self.leaves = list(program.root.below())
        self.touches: dict[Leaf, list[Touch]] = {}
        for leaf in self.leaves:
            if leaf.starts:  # the reduction touches the same elements
                self.touches[leaf] = []
                continue
            kept = lanes.get(leaf)
            self.touches[leaf] = infer_touches(leaf, line, None if kept is None else (kept.nest.name, kept.count))
        self.needs: dict[Nest, float] = {}
        self._collect_needs()
        self.sharing: dict[Touch, Nest] = {}
        self._collect_sharing()

    def _collect_needs(self) -> None:
        """For each loop, and the program, the bytes of one iteration: of each buffer the most a statement touches."""
        most: dict[Nest, dict[str, float]] = {}
        for leaf in self.leaves:
            around = (self.program.root, *leaf.nests)
            for touch in self.touches[leaf]:
                for depth, nest in enumerate(around):
                    found = most.setdefault(nest, {})
                    size = touch.crowded[depth]
                    if size > found.get(touch.name, 0.0):
                        found[touch.name] = size
        self.needs = {nest: sum(found.values()) for nest, found in most.items()}

    def _collect_sharing(self) -> None:
        """For each touch the innermost nest in which an earlier statement touched the same buffer."""
        last: dict[str, Leaf] = {}
        for leaf in self.leaves:
            for touch in self.touches[leaf]:
                earlier = last.get(touch.name)
                if earlier is not None and earlier is not leaf:
                    self.sharing[touch] = _common(self.program.root, earlier, leaf)
            last.update((touch.name, leaf) for touch in self.touches[leaf])

    def of(self, leaf: Leaf, size: float) -> Traffic:
        """What ``leaf`` moves in and out of a cache of ``size`` bytes, in the whole program, caches being warm."""
        total = Traffic()
        warm = 1 - self.kept(self.program.root, size)
        if not warm:
            return total  # all of it is there from the call before
        for touch in self.touches[leaf]:
            moved = self._moved(touch, leaf, size) * warm
            common = self.sharing.get(touch)
            fresh = 1.0 if common is None else 1 - self.kept(common, size)
            if touch.writes:
                if touch.name in self.program.streamed:
                    total.streamed += moved
                else:
                    total.written += moved
            if touch.reads:
                moved *= fresh
                total.read += moved
            total.jumps += moved / self.line * min(1.0, TRAINING / touch.run)
        return total

    def _moved(self, touch: Touch, leaf: Leaf, size: float) -> float:
        nests, lanes = leaf.nests, self.lanes.get(leaf)
        moved, runs = touch.touched[len(nests)], False
        for depth in range(len(nests) - 1, -1, -1):
            nest = nests[depth]
            trips = nest.trips if lanes is None or lanes.nest is not nest else max(1.0, nest.trips / lanes.count)
            runs = runs or (trips > 1 and nest.kind != "unroll")  # unrolled copies load together
            kept = max(self.kept(nest, size), self._kept_to_and_fro(touch, leaf, depth, size)) if runs else 1.0
            moved = kept * touch.touched[depth] + (1 - kept) * moved * trips
        return moved

    def _kept_to_and_fro(self, touch: Touch, leaf: Leaf, depth: int, size: float) -> float:
        """The share of them that is still there because loops inside run backward in every other iteration."""
        name = leaf.nests[depth].name
        turned = [d for d, n in enumerate(leaf.nests) if d > depth and n.turns_in(name)]
        if not turned:
            return 0.0
        piece = touch.touched[turned[-1] + 1]
        return max(0.0, min(1.0, (KEPT * size - piece) / max(1.0, self.needs.get(leaf.nests[depth], 0.0))))

    def kept(self, nest: Nest, size: float) -> float:
        """The share of the data of one iteration that the next one still finds."""
        need = self.needs.get(nest, 0.0) / size
        return 1.0 if need <= KEPT else 0.0 if need >= LOST else (LOST - need) / (LOST - KEPT)


def _common(root: Nest, a: Leaf, b: Leaf) -> Nest:
    found = root
    for one, other in zip(a.nests, b.nests):
        if one is not other:
            break
        found = one
    return found
