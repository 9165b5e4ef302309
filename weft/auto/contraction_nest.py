"""The loops of a contraction by the part they have in its nest, and how its cache blocks are cut."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod

from weft.auto.contraction_plan import ContractionPlan, footprint
from weft.auto.draft import Draft
from weft.auto.stages import StageAccess

#: Steps that a vector operand which is read once is followed at a time: so many streams of memory at once.
STREAMS = 8


@dataclass
class Nest:
    """The loops of a contraction while it is scheduled; outermost first in each part."""

    batch: list[str] = field(default_factory=list)
    #: Through blocks of tiles along the lanes.
    blocks: list[str] = field(default_factory=list)
    #: Through pieces of a reduction.
    pieces: list[str] = field(default_factory=list)
    rows: list[str] = field(default_factory=list)
    #: Through tiles along the lanes: outside the rows, or inside them where a block of several is kept in a cache.
    panels: list[str] = field(default_factory=list)
    reductions: list[str] = field(default_factory=list)
    unrolled: list[str] = field(default_factory=list)
    lanes: str = ""
    #: How often each loop runs, about.
    counts: dict[str, int] = field(default_factory=dict)
    #: How many full iterations those of a loop are worth, where the last one is less.
    full: dict[str, float] = field(default_factory=dict)
    #: Loops that are to become one that runs on threads.
    together: list[str] = field(default_factory=list)

    def takes(self, loop: str) -> bool:
        """Whether statements may be put into the body of ``loop``: not where it is to become one with the next."""
        return loop not in self.together[:-1]

    @property
    def shared(self) -> list[str]:
        """The loops that may run on threads, without those inside the pieces of a reduction."""
        before = [*self.batch, *self.blocks]
        return before if self.pieces else [*before, *self.panels, *self.rows]

    @property
    def outer(self) -> list[str]:
        """The loops around a tile of sums."""
        if self.pieces:
            return [*self.batch, *self.blocks, *self.pieces, *self.rows, *self.panels]
        return [*self.batch, *self.panels, *self.rows]

    @property
    def order(self) -> list[str]:
        return [*self.outer, *self.reductions, *self.unrolled, self.lanes]


@dataclass(frozen=True, slots=True)
class Blocking:
    """A block of ``width`` elements along the lanes and ``depth`` steps of reduction ``along`` stays in a cache."""

    along: str
    depth: int
    width: int
    why: str


def choose_blocking(draft: Draft, plan: ContractionPlan) -> Blocking | None:
    """How to cut a contraction whose vector operands do not stay in the cache while rows go by; None where they do."""
    long = [i for i in plan.stage.reductions if i.count > 1]
    steps = prod(i.count for i in long)
    operands = [a for a in plan.vector_operands if _bytes(plan, a) > draft.cache("L2") // 2]
    if not operands:
        return None
    within = steps // long[0].count
    itemsize = max(a.buffer.dtype.itemsize for a in operands)
    rows = _row_tiles(plan)
    if any(a in plan.packed for a in operands):
        most = draft.cache("L2") // 2 // (plan.tile.width * itemsize)
        if steps <= most:
            return None
        return Blocking(long[0].name, max(1, most // 2 // within), plan.tile.width, "a panel does not fit the L2 cache")
    width = plan.lane.count // (draft.threads if draft.pays_threads(plan.stage) else 1)
    if rows == 1:
        sums = prod(plan.tile.sizes.values())
        wide = min(-(-width // plan.tile.width) * plan.tile.width, draft.cache("L1") * 2 // (sums * itemsize))
        depth = max(1, STREAMS // within)
        return _blocking(draft, plan, long[0].name, depth, wide, "each element is read once, row by row")
    block = draft.cache("L2") // 4
    wide = min(width, 256)
    depth = max(1, block // (wide * itemsize) // within)
    return _blocking(draft, plan, long[0].name, depth, wide, "a block stays in the L2 cache")


def _blocking(draft: Draft, plan: ContractionPlan, along: str, depth: int, wide: int, why: str) -> Blocking:
    """Blocks of about ``wide`` lanes, as many as give every thread the same number of them, of the same size."""
    tile = plan.tile.width
    tiles = max(1, -(-plan.lane.count // tile))
    blocks = -(-tiles // max(1, wide // tile))
    if draft.pays_threads(plan.stage):
        blocks = min(tiles, -(-blocks // draft.threads) * draft.threads)
    return Blocking(along, depth, -(-tiles // blocks) * tile, why)


def _row_tiles(plan: ContractionPlan) -> int:
    rows = plan.tile.sizes
    inside = [i for i in plan.stage.spatial if not any(a.uses(i.name) for a in plan.vector_operands)]
    return prod(-(-i.count // rows.get(i.name, 1)) for i in inside)


def _bytes(plan: ContractionPlan, access: StageAccess) -> int:
    """What ``access`` touches while loops that all vector operands use (batches) stand still."""
    batch = {i.name for i in plan.stage.spatial if all(a.uses(i.name) for a in plan.vector_operands)}
    return footprint(plan.stage, access, batch - {plan.lane.name}) * access.buffer.dtype.itemsize
