"""The plans that a contraction has: every tile of sums that registers hold and that no other beats on all counts.

A contraction steps through its reductions; in each step the elements of a tile are all updated. What a step loads
serves every element of the tile that differs only in iterators the load does not use, so the larger the tile, the
fewer loads an update costs, until registers run out; and the less of a tile lies beyond an edge, the less is computed
in vain. Which is best is the time model's to say.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from math import prod

from weft.auto.contraction_dots import dot_plans
from weft.auto.contraction_plan import (
    Blocking,
    Contraction,
    ContractionPlan,
    Steps,
    footprint,
    is_apart,
    is_contraction,
    is_window,
    lane_iterators,
    row_of,
)
from weft.auto.contraction_registers import Rows, Tile, TileRegisters
from weft.auto.contraction_strips import find_strips
from weft.auto.draft import Draft
from weft.auto.stages import NEAR_STEPS, Stage, StageAccess, StageIter
from weft.schedules.footprint import MOST_ROWS

#: Times of the busiest unit that differ by less, in updates, are taken for the same.
SAME_BOUND = 0.05
#: What tests in tests cost at most, in times: tiles that leave something over are listed where even ones cost more.
TESTED = 1.25
#: Bytes of a row of elements that a sum goes through before it goes on to other rows, at most: some lines.
NEAR_BYTES = 256
#: Bytes beyond which nothing is foreseen.
PAGE = 4096


@dataclass(frozen=True, slots=True)
class TilePlans:
    """The tiles of a contraction, and the updates' worth of time that no tile can do with less than.

    ``usual`` is the first of those whose tile needs least of that.
    """

    stage: Stage  # so that what is kept is of this one
    tiles: list[ContractionPlan]
    usual: ContractionPlan | None
    bounds: dict[tuple[str, int, Rows], float]


def contraction_plans(draft: Draft, stage: Stage) -> list[ContractionPlan]:
    """Tiles for each iterator that may be lanes, with what they need copied, and blocks where caches are too small."""
    tiles = _tile_plans(draft, stage).tiles if is_contraction(stage) else []
    plans = [plan for n, tile in enumerate(tiles) for plan in _variants(draft, stage, tile, is_first=n == 0)]
    return [*dot_plans(draft, stage, plans), *plans]


def usual_plan(draft: Draft, stage: Stage) -> ContractionPlan | None:
    """A plan good enough to say what ``stage`` takes in other surroundings; None where it is no contraction."""
    return _tile_plans(draft, stage).usual if is_contraction(stage) else None


def least_seconds(draft: Draft, stage: Stage, plan: ContractionPlan) -> float:
    """The time of the busiest unit of the core, at the least: an update may take several instructions."""
    bound = _tile_plans(draft, stage).bounds.get((plan.lane, plan.width, plan.rows), 0.0)
    updates = stage.points * prod(stage.outer_counts) / draft.lanes(stage)
    return updates * bound / draft.model.fma_units / draft.model.frequency / draft.threads


def _tile_plans(draft: Draft, stage: Stage) -> TilePlans:
    found = draft.plans.get(stage.look)
    if found is None:
        found = draft.plans[stage.look] = _list_plans(draft, stage)
    return found


def _list_plans(draft: Draft, stage: Stage) -> TilePlans:
    vector, loadable = draft.lanes(stage), partial(_is_loadable, draft, stage)
    bounds = {plan: t for lane in lane_iterators(stage, vector, loadable) for t, plan in _tiles(draft, stage, lane)}

    def order(plan: ContractionPlan) -> tuple[int, int, int, int, int]:
        edges = Contraction(stage, plan, vector, draft.enough_sums).edges
        again = _is_copied_again(draft, stage, plan.lane)
        return round(bounds[plan] / SAME_BOUND) + again, again, edges, len(plan.rows), -plan.width

    # Of tiles about as good, those that need no copy in every call; then those that leave less over; then those along
    # fewer iterators and wider ones: what they touch lies in fewer places.
    tiles = sorted(bounds, key=order)
    first = next((plan for tile in tiles[:1] for plan in _variants(draft, stage, tile, is_first=False)), None)
    return TilePlans(stage, tiles, first, {(plan.lane, plan.width, plan.rows): bounds[plan] for plan in tiles})


def _is_copied_again(draft: Draft, stage: Stage, lane: str) -> bool:
    """Whether lanes along ``lane`` need something copied in every call, while a constant that could be in them, copied
    once, is read element by element, each from a line of its own."""
    rest = [a for a in stage.distinct_reads if not a.uses(lane)]
    copied = (a for a in stage.distinct_reads if is_apart(a, lane))
    return any(a.buffer.name not in draft.constants for a in copied) and any(
        a.buffer.name in draft.constants for a in rest
    )


def _variants(draft: Draft, stage: Stage, tile: ContractionPlan, *, is_first: bool) -> Iterator[ContractionPlan]:
    """What may be done about the operands of ``tile``: all of it for the first, for others the most that can be."""
    copied = [packed for lined in _with_rows(draft, stage, tile) for packed in _with_copies(draft, stage, lined)]
    for plan in reversed(copied if is_first else copied[-1:]):
        c = Contraction(stage, plan, draft.lanes(stage), draft.enough_sums)
        plan = replace(plan, strips=find_strips(draft, c))
        blocked = list(_with_blocks(draft, replace(c, plan=plan)))
        yield from blocked if is_first else blocked[:1]


def _tiles(draft: Draft, stage: Stage, lane: StageIter) -> list[tuple[float, ContractionPlan]]:
    """Tiles with lanes along ``lane`` that no other beats in what it loads, computes in vain, and reads again.

    With each, the time of the busiest unit, in updates for each one that is needed.
    """
    room = TileRegisters(draft, stage, lane)
    useful = [i for i in stage.spatial if i is not lane and i.count > 1 and not room.is_used_by_all(i.name)]
    useful.sort(key=lambda i: _reach(stage, i))  # of tiles equal in all that counts here, those nearer in memory stay
    found: list[Tile] = []
    for width in room.widths():
        vectors = room.vectors(width)
        for rows in _row_shapes(useful, room.count // vectors, room.enough / vectors):
            loads = room.loads_if_fitting(rows, vectors)
            if loads is not None:
                found.append((loads, room.waste(rows, width), room.passes(rows), width, rows))
    if not all(i.exact for i in stage.iters):  # there are tests already, and more where two of them meet
        even = [tile for tile in found if room.is_even(tile[4], tile[3])]
        found = even if even and room.least_time(even) <= TESTED * room.least_time(found) else found
    found.sort(key=lambda tile: (*tile[:3], *room.order_windows(tile[4], tile[3]), -tile[3]))
    best: list[Tile] = []
    for tile in found:
        if not any(other[1] <= tile[1] and other[2] <= tile[2] and room.joins_as(other, tile) for other in best):
            best.append(tile)
    stores = (1 if stage.write.stride(lane.name) == 1 else room.vector) / room.steps
    steps = _steps(draft, stage, lane)
    return [
        (
            room.time(loads, waste) + stores + room.pass_time(rows, width),
            ContractionPlan(lane.name, width, rows, steps=steps),
        )
        for loads, waste, _, width, rows in best
    ]


def _steps(draft: Draft, stage: Stage, lane: StageIter) -> Steps:
    """The loops of the sum such that what each step takes one element of is gone through as it lies in memory.

    A window reads most elements again at its other places. So that they are still in the first cache then, the
    innermost loop goes through `NEAR_BYTES` of each row of elements, and on to the next ones after all places.
    """
    long = [i for i in stage.reductions if i.count > 1]
    single = [a for a in stage.distinct_reads if not a.uses(lane.name)]
    if (
        not single
        or is_window(stage, lane.name)
        or not (draft.is_fast if len(long) > 1 else _is_cold(draft, stage, lane))
    ):
        return ()
    *outer, inner = sorted(long, key=lambda i: -max(abs(a.stride(i.name) or 0) for a in single))
    size = max(a.buffer.dtype.itemsize for a in single)
    lines = range(draft.model.line // size, NEAR_BYTES // size + 1, draft.model.line // size)
    cuts = [n for n in lines if inner.exact and inner.count > lines[-1] and inner.count % n == 0]
    around = [(i.name, 1) for i in outer]
    if cuts:
        return ((inner.name, cuts[-1]), *around, (inner.name, 1))
    return (*around, (inner.name, 1)) if [*outer, inner] != long else ()


def _is_cold(draft: Draft, stage: Stage, lane: StageIter) -> bool:
    """Whether vectors are of constants that no cache near the core holds from call to call."""
    vectors = [a for a in stage.distinct_reads if a.uses(lane.name) and a.buffer.name in draft.constants]
    return any(_bytes(stage, a, set()) > draft.cache("L2") for a in vectors)


def _reach(stage: Stage, i: StageIter) -> int:
    """How far apart neighbours along ``i`` lie in memory, at most."""
    return max(abs(a.stride(i.name) or 0) for a in stage.accesses)


def _row_shapes(iters: Sequence[StageIter], most: int, enough: float) -> Iterator[Rows]:
    """At most ``most`` rows along one iterator, or along two where that gives ``enough``, or none."""
    sizes = {i.name: _sizes(i.count, most) for i in iters}
    yield from (((name, size),) for name, some in sizes.items() for size in some)
    for a, b in combinations(sizes, 2):
        for first in sizes[a]:
            yield from (((a, first), (b, second)) for second in sizes[b] if enough <= first * second <= most)
    yield ()


def _sizes(count: int, most: int) -> list[int]:
    """For each number of tiles the smallest size that does."""
    return [n for n in range(2, min(most, count) + 1) if count > most * n or -(-count // -(-count // n)) == n]


def _with_copies(draft: Draft, stage: Stage, plan: ContractionPlan) -> Iterator[ContractionPlan]:
    """With what must be copied copied; and with all that may be, where it is read for more than one tile."""
    may = [a for a in stage.distinct_reads if _may_pack(draft, stage, a, plan.lane)]
    must = dict.fromkeys(a.buffer.name for a in may if is_apart(a, plan.lane))
    yield replace(plan, packed=tuple(must))
    tiles = {n: -(-stage.by_name[n].count // size) for n, size in plan.rows}
    more = {
        a.buffer.name: None
        for a in may
        if any(not a.uses(i.name) and tiles.get(i.name, i.count) > 1 for i in stage.spatial)
        and footprint(stage, a) * a.buffer.dtype.itemsize > draft.cache("L1")
    }
    if more.keys() - must.keys():
        yield replace(plan, packed=(*must, *(more.keys() - must.keys())))


def _with_rows(draft: Draft, stage: Stage, plan: ContractionPlan) -> Iterator[ContractionPlan]:
    """As it is; and with what each step of a sum takes from lines of its own copied by rows."""
    yield plan
    far = dict.fromkeys(
        a.buffer.name
        for a in stage.distinct_reads
        if not a.uses(plan.lane) and row_of(plan, a) is not None and _is_far(draft, stage, a) and not stage.outer
    )
    if far:
        yield replace(plan, by_rows=tuple(far))


def _is_far(draft: Draft, stage: Stage, access: StageAccess) -> bool:
    """Whether every step of the sum takes elements from another line, or, of what no near cache holds, some from
    another page."""
    itemsize = access.buffer.dtype.itemsize
    steps = [abs(access.stride(i.name) or 0) * itemsize for i in stage.reductions if i.count > 1]
    by_pages = max(steps) >= PAGE and footprint(stage, access) * itemsize > draft.cache("L2")
    is_far = by_pages or min(steps) >= draft.model.line
    return is_far and any(b.name == access.buffer.name for b in draft.s.kernel.buffers)


def _is_loadable(draft: Draft, stage: Stage, access: StageAccess, lane: str) -> bool:
    """Whether elements along ``lane`` are neighbours, or nearly, or can be copied to be."""
    stride = access.stride(lane)
    near = stride is not None and abs(stride) in (0, *NEAR_STEPS)
    return near or _may_pack(draft, stage, access, lane)


def _may_pack(draft: Draft, stage: Stage, access: StageAccess, lane: str) -> bool:
    """Whether ``access`` may read a copy: an argument's, of which all reads go there."""
    readers = [a for a in stage.reads if a.buffer.name == access.buffer.name]
    if any(a.subscript_of(lane) is None for a in readers if a is access or a.uses(lane)):
        return False
    whole = not any(a.guarded for a in readers)
    return whole and any(b.name == access.buffer.name for b in draft.s.kernel.buffers)


def _with_blocks(draft: Draft, c: Contraction) -> Iterator[ContractionPlan]:
    """As it is; and with blocks that stay in a cache, where what is loaded as vectors does not by itself."""
    yield c.plan
    if c.plan.strips:
        return
    batch = {i.name for i in c.stage.spatial if c.is_batch(i.name)} - {c.plan.lane}
    large = [a for a in c.vector_operands if _bytes(c.stage, a, batch) > draft.cache("L1")]
    long = [i for i in c.stage.reductions if i.count > 1]
    if not large or not long:
        return
    within, plan = prod(i.count for i in long[1:]), c.plan
    others = (i for i in c.stage.spatial if i is not c.lane)
    is_read_once = all(c.is_batch(i.name) or c.tile.get(i.name, 1) >= i.count for i in others)
    if is_read_once and not plan.packed:
        plan = replace(plan, width=min(plan.width, c.vector))  # all streams go on at once, a line of each at a time
    tiles = -(-c.lane.count // plan.width)
    share = -(-tiles // (draft.threads if draft.pays_threads(c.stage) else 1)) * plan.width
    width = plan.width if plan.packed else share
    row = sum(a.buffer.dtype.itemsize for a in large) * within
    depth = draft.cache("L2") // 2 // (width * row)
    if is_read_once:
        streams = MOST_ROWS // 2 // within  # as many as are foreseen, and those that leave
        depth = min(depth, streams) if plan.packed else streams
    cut = max((by for of, by in plan.steps if of == long[0].name), default=1)
    depth -= depth % cut if depth > cut else 0
    if max(1, depth) < long[0].count:
        yield replace(plan, blocking=Blocking(long[0].name, max(1, depth), width))


def _bytes(stage: Stage, access: StageAccess, fixed: Mapping[str, object] | set[str]) -> int:
    """What ``access`` touches while ``fixed`` iterators stand still."""
    return footprint(stage, access, fixed) * access.buffer.dtype.itemsize
