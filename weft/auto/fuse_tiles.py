"""How many iterations of its shared loops a chain does at a time.

One, where nothing is gained by more: a row of a softmax. Some, where an operand is the same for all of them (the keys
of attention serve every query), or where they lie side by side in memory and become lanes (softmax along columns). What
is kept in between for so many at a time must fit a cache.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from weft.auto.align import Chain, ChainTile
from weft.auto.chain import pays_threads
from weft.auto.contraction_plan import is_contraction
from weft.auto.contraction_tiles import usual_plan
from weft.auto.draft import Draft
from weft.auto.stages import NEAR_STEPS, Stage

#: Iterations at a time, at most, where operands are reused along them.
MOST_ROWS = 64
#: The same at least: fewer do not fill a tile of registers.
FEWEST_ROWS = 8
#: Vectors side by side where iterations become lanes.
MOST_VECTORS = 8


def choose_tile(draft: Draft, chain: Chain) -> ChainTile | None:
    """The shared iterator that runs several values at a time, if any does."""
    for name in reversed(chain.shared):
        if is_along_memory(draft, chain, name):
            return _tile_of_lanes(draft, chain, name)
    operands = {name: reused_operand(draft, chain, name) for name in chain.shared}
    reused = {name: operand for name, operand in operands.items() if operand is not None}
    if not reused:
        return None
    name = max(reused, key=chain.extent)
    rows = tile_of_rows(draft, chain, name)
    buffer, size = reused[name]
    kept = f"what is in between takes {chain.kept_bytes * rows >> 10} KiB"
    return ChainTile(name, rows, f"`{buffer}` ({size >> 10} KiB) serves all of them; {kept}") if rows > 1 else None


def is_along_memory(draft: Draft, chain: Chain, name: str) -> bool:
    """Whether values of shared iterator ``name`` are neighbours in most of what the stages touch, copies in order."""
    near = far = 0
    for stage in chain.members:
        own = chain.counterpart(stage, name)
        copied = _copied_along(draft, stage, own)
        for access in stage.accesses:
            if own is not None and access.uses(own):
                count = chain.footprint(stage, access)
                is_near = access.stride(own) in NEAR_STEPS or access.buffer.name in copied
                near += count if is_near else 0
                far += 0 if is_near else count
    return near > far


def _copied_along(draft: Draft, stage: Stage, name: str | None) -> tuple[str, ...]:
    """What contraction ``stage`` copies so that values of ``name`` are side by side."""
    plan = usual_plan(draft, stage)
    return plan.packed if plan is not None and plan.lane == name else ()


def _tile_of_lanes(draft: Draft, chain: Chain, name: str) -> ChainTile | None:
    lanes, extent = draft.lanes(chain.anchor), chain.extent(name)
    if extent <= lanes:
        return ChainTile(name, extent, "they lie side by side in memory") if extent > 1 else None
    vectors = MOST_VECTORS
    most = min(extent, _share_of_a_thread(draft, chain, name), draft.cache("L2") // 2 // max(1, chain.kept_bytes))
    while vectors > 1 and vectors * lanes > most:
        vectors //= 2
    # Tiles that come out even need no tests at their edges.
    vectors = next((n for n in range(vectors, vectors // 2, -1) if extent % (n * lanes) == 0), vectors)
    return ChainTile(name, vectors * lanes, f"they lie side by side in memory: {vectors} vectors of {lanes}")


def even_tile(draft: Draft, chain: Chain) -> ChainTile | None:
    """The tile of ``chain`` with fewer lanes, as many as come out even; None where it does so already, or cannot."""
    tile, lanes = chain.tile, draft.lanes(chain.anchor)
    if tile is None or chain.extent(tile.name) % tile.size == 0 or not is_along_memory(draft, chain, tile.name):
        return None
    even = (n for n in range(tile.size - lanes, 0, -lanes) if chain.extent(tile.name) % n == 0)
    return next((replace(tile, size=n, why="they lie side by side in memory, and come out even") for n in even), None)


def _share_of_a_thread(draft: Draft, chain: Chain, name: str) -> int:
    """As many values of ``name`` at a time as leave every thread a tile."""
    rounds = prod(chain.extent(other) for other in chain.shared if other != name)
    tiles = -(-draft.threads // rounds) if pays_threads(draft, chain) else 1
    return -(-chain.extent(name) // tiles)


def reused_operand(draft: Draft, chain: Chain, name: str) -> tuple[str, int] | None:
    """What some stage reads anew for every value of ``name``, and its bytes.

    Only what is too large for the first cache counts, but for contractions, which need several rows in any case.
    """
    found: dict[str, int] = {}
    for stage in chain.members:
        own = chain.counterpart(stage, name)
        for access in stage.reads:
            if own is not None and access.is_affine and not access.uses(own):
                size = chain.footprint(stage, access, chain.shared) * access.buffer.dtype.itemsize
                if size > draft.cache("L1") // 2 or is_contraction(stage):
                    found[access.buffer.name] = max(size, found.get(access.buffer.name, 0))
    return max(found.items(), key=lambda item: item[1], default=None)


def tile_of_rows(draft: Draft, chain: Chain, name: str) -> int:
    """As many as leave what is in between in the second cache, evenly if possible; 1 where that are too few."""
    extent = chain.anchor.by_name[name].extent
    most = min(MOST_ROWS, draft.cache("L2") // 4 // max(1, chain.kept_bytes))
    if most < FEWEST_ROWS:
        return 1
    if extent is None:
        return 1 << (most.bit_length() - 1)
    if extent <= most:
        return max(1, extent)
    if any(_has_lanes(draft, chain, stage, name) for stage in chain.members):  # whole vectors, with little left over
        lanes = draft.lanes(chain.anchor)
        return min(range(lanes, most + 1, lanes), key=lambda n: (-(-extent // n) * n, -n), default=1)
    even = [n for n in range(most, max(FEWEST_ROWS, most // 4) - 1, -1) if extent % n == 0]
    return max(even, key=lambda n: (n & -n >= FEWEST_ROWS, n)) if even else 1 << (most.bit_length() - 1)


def _has_lanes(draft: Draft, chain: Chain, stage: Stage, name: str) -> bool:
    """Whether ``stage`` is a contraction that runs along shared iterator ``name`` in lanes."""
    plan = usual_plan(draft, stage)
    return plan is not None and plan.lane == chain.counterpart(stage, name)
