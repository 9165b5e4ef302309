"""Rows of a contraction in strips, which stay in a cache while all panels go by.

With panels outermost an operand that is read by rows is gone through once for each panel. Where a cache does not hold
it, a part of the rows is taken at a time: an image of a batch, some lines of an image, some rows of a matrix. The
panels are then gone through once for each of these strips, which is cheap where the cache holds all of them, or where
there are few strips.

Threads share out strips where there are any, else panels. With strips each goes through all panels; with panels each
reads all rows, most of which others wrote, and writes between what others write, all of whom read it in the next loop.
So where the second cache holds all rows, strips are taken too if that costs less: along the rows of an image all layers
are shared out alike, and a thread finds in its caches what it wrote in the layer before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil, prod

from weft.auto.contraction_epilogue import find_epilogue, may_join
from weft.auto.contraction_plan import Contraction, Steps, footprint
from weft.auto.draft import Draft
from weft.auto.parallel_loops import exchange_seconds
from weft.auto.stages import StageAccess, StageIter

#: Part of the second cache that is counted on.
USABLE = 0.85
#: How many times as long as a byte of a panel, which are gone through in order, one that is read by rows takes.
APART = 2.0


def find_strips(draft: Draft, c: Contraction) -> Steps:
    """The iterators of rows that go on outside the panels, and by what, such that least is waited for."""
    copied_once = all(name in draft.constants for name in c.plan.packed) and not c.plan.by_rows
    is_plain = c.plan.blocking is None and not c.is_apart and not c.stage.outer and copied_once
    if not is_plain or not c.plan.packed or c.lane.count <= c.plan.width:
        return ()
    reader = find_epilogue(draft, c.stage)
    candidates: list[Steps] = [(), *_candidates(c, joins=reader is not None and may_join(c, reader))]
    threads = draft.threads if draft.pays_threads(c.stage) else 1
    found = _best(draft, c, candidates, 1)
    return found if found or threads == 1 else _best(draft, c, candidates, threads)


def _best(draft: Draft, c: Contraction, candidates: Sequence[Steps], threads: int) -> Steps:
    costs = {strips: _costs(draft, c, strips, threads) for strips in candidates}
    best = min(candidates, key=lambda strips: costs[strips])
    return best if costs[best][0] < costs[()][0] else ()


def _candidates(c: Contraction, *, joins: bool) -> Iterator[Steps]:
    """Each further iterator of rows outside the panels, by tiles, the last of them also in larger, even parts: what is
    done with each sum ``joins`` the tiles of strips that come out even alone."""
    outer: Steps = ()
    for i in _rows(c):
        tile = c.tile.get(i.name, 1)
        for size in _sizes(ceil(i.count / tile), only_even=joins):
            yield (*outer, (i.name, size * tile))
        outer = (*outer, (i.name, tile))


def _sizes(tiles: int, *, only_even: bool) -> list[int]:
    """How many tiles a strip may have: those that come out even, where there are any and only these are wanted."""
    sizes = sorted({ceil(tiles / parts) for parts in range(2, tiles + 1)})
    even = [n for n in sizes if tiles % n == 0]
    return even if only_even and any(n > 1 for n in even) else sizes


def _rows(c: Contraction) -> list[StageIter]:
    vectors = c.vector_operands
    rows = [i for i in c.stage.spatial if i is not c.lane and i.loop is not None and i.extent != 1]
    return [i for i in rows if i.exact and not any(a.uses(i.name) for a in vectors)]


def _costs(draft: Draft, c: Contraction, strips: Steps, threads: int) -> tuple[float, int]:
    """Seconds that a thread waits for what comes from beyond the second cache and for others; then how large a strip
    is: the smaller, the more of it is in the first cache when the next panel reads it."""
    room, stage = USABLE * draft.cache("L2"), c.stage
    by_rows = [a for a in c.operands if not a.uses(c.plan.lane)]
    strip = sum(_strip_elements(c, a, dict(strips)) * a.buffer.dtype.itemsize for a in by_rows)
    rows = sum(_bytes(c, a) for a in by_rows)
    weights = sum(_bytes(c, a) for a in c.vector_operands)
    panels = -(-c.lane.count // c.plan.width)
    count = prod(ceil(stage.by_name[name].count / step) for name, step in strips)
    rows_from_far = rows if strip + weights / panels <= room else rows * panels
    panels_from_far = weights if weights + strip <= room else weights * count
    results = _bytes(c, stage.write)
    # Of results, which come and go, panels write a piece of each row at a time; strips go through them in order.
    far = APART * rows_from_far + panels_from_far + ((APART - 1) * results if results > room and not strips else 0)
    waited = far / draft.model.levels[-2].read / threads
    if threads > 1 and strips:
        waited += _seconds_by_strips(draft, weights, count)
    elif threads > 1:
        waited += exchange_seconds(draft.model, threads, rows, _bytes(c, stage.write))
    return waited, strip


def _seconds_by_strips(draft: Draft, weights: int, count: int) -> float:
    """What a thread waits more where it goes through all panels, once for each of its strips."""
    others, again = (draft.threads - 1) / draft.threads, count / draft.threads
    # What no cache near the core holds comes from memory in every call.
    source = draft.model.memory if weights > draft.cache("L2") else draft.model.levels[-2]
    return weights * (others / source.read + again / draft.model.levels[1].read)


def _bytes(c: Contraction, access: StageAccess) -> int:
    return footprint(c.stage, access) * access.buffer.dtype.itemsize


def _strip_elements(c: Contraction, access: StageAccess, steps: dict[str, int]) -> int:
    """What is touched through ``access`` while iterators go on by no more than a strip has of them."""
    reach = {i.name: steps.get(i.name, i.count) - 1 for i in c.stage.iters}
    return prod(1 + sum(abs(n) * reach[name] for name, n in row.items()) for row in access.rows or ())
