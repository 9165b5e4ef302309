"""The nest that is made of a band: the order of its loops, and how many of them are tiled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod

from weft.auto.draft import Draft
from weft.auto.polyhedral_facts import Facts, buffer_shape
from weft.ir.solve import variables
from weft.poly.domain import Touch
from weft.poly.isl_schedule import Band

#: Sides of tiles that are tried, largest first.
SIDES = (1024, 512, 256, 128, 64, 32, 16, 8)


@dataclass(slots=True)
class Nest:
    """Loops around ``blocks``, inside ``level`` others: those of ``band`` in ``order``, as far as ``depth``.

    ``tiles`` are the sides of tiles for the outermost of them, if any.
    """

    blocks: tuple[str, ...]
    band: Band
    facts: Facts
    order: list[int]
    level: int
    depth: int = 0
    tiles: tuple[int, ...] = ()
    loops: list[str] = field(default_factory=list)

    @property
    def points(self) -> int:
        """How many instances of its statements there are."""
        return sum(prod(self.facts.extents[b].values()) for b in self.blocks)

    @property
    def coincident(self) -> list[bool]:
        return [self.band.coincident[n] for n in self.order[: self.depth]]


def choose_order(band: Band, blocks: Sequence[str], facts: Facts) -> list[int]:
    """The members of ``band``, outermost first: the one along which memory is contiguous innermost, if that may be."""
    members = list(range(len(band.coincident)))
    if not band.permutable or len(members) == 1:
        return members
    last = max(members, key=lambda n: (_contiguity(band, n, blocks, facts), n))
    return [*(n for n in members if n != last), last]


def _contiguity(band: Band, member: int, blocks: Sequence[str], facts: Facts) -> int:
    """How many accesses go through memory with step 1, less those that jump."""
    score = 0
    for block in blocks:
        loop = _own_loop(band, member, block)
        for access in facts.accesses[block] if loop else ():
            step = access.step(loop) if loop else 0
            weight = 2 if access.writes else 1
            score += weight if step in (1, -1) else 0 if step == 0 else -2 * weight
    return score


def _own_loop(band: Band, member: int, block: str) -> str | None:
    """The loop of ``block`` that row ``member`` runs through: the innermost of those in it that no row before has."""
    row = band.rows[block][member]
    if row is None:
        return None
    before = {name for r in band.rows[block][:member] if r is not None for name in variables(r)}
    own = [name for name in variables(row) if name not in before]
    return own[-1] if own else None


def choose_depth(nest: Nest, facts: Facts, draft: Draft) -> tuple[int, tuple[int, ...]]:
    """How many loops of the band are made, and the tiles of the outermost of them.

    Tiles pay where there are more loops than dimensions of memory, so that every element is used again: as few
    loops are tiled as make a tile fit the second cache, and those inside run over whole rows. Where all memory is
    in the first cache anyway, or the innermost loop is all there is of it, the nest stays as it is: no loop is made.
    """
    band, blocks = nest.band, nest.blocks
    count = len(nest.order)
    accesses = facts.of(blocks)
    rank = max((len(a.subscripts) for a in accesses), default=0)
    if not band.permutable or count < 2 or rank == 0 or (len(blocks) == 1 and any(band.coincident)):
        return count, ()
    if count <= rank:
        waves = draft.threads > 1 and not any(band.coincident) and len(blocks) == 1 and nest.level == 0
        return (count, (64,) * count) if waves and is_work(nest, draft) else (count, ())
    if not any(band.coincident) and ((rank == 1 and len(blocks) == 1) or _is_small(nest, facts, draft)):
        return 0, ()
    for depth in range(count - rank + 1, count + 1):
        side = _largest_side(nest, depth, facts, draft)
        if side is not None:
            return depth, _sides(nest, depth, side, facts, draft)
    return count, _sides(nest, count, SIDES[-1], facts, draft)


def _is_small(nest: Nest, facts: Facts, draft: Draft) -> bool:
    """Whether all memory stays in the first cache, and the work is not worth threads."""
    fits = _bytes(facts.of(nest.blocks)) <= draft.cache("L1")
    return fits and (draft.threads == 1 or not is_work(nest, draft))


def shares_arrays(nest: Nest, draft: Draft) -> bool:
    """Whether some matrix, or something else too large for the first cache, is touched by several of the blocks."""
    users: dict[str, set[str]] = {}
    for block in nest.blocks:
        for access in nest.facts.accesses[block]:
            if len(access.subscripts) > 1 or _bytes([access]) > draft.cache("L1"):
                users.setdefault(access.buffer.name, set()).add(block)
    return any(len(blocks) > 1 for blocks in users.values())


def is_work_inside(nest: Nest, draft: Draft) -> bool:
    """Whether there is enough to do for threads in one iteration of the loops around."""
    around = max((prod(list(nest.facts.extents[b].values())[: nest.level]) for b in nest.blocks), default=1)
    return draft.is_worth_threads(nest.points // max(1, around))


def is_work(nest: Nest, draft: Draft) -> bool:
    """Whether there is enough to do for threads."""
    return draft.is_worth_threads(nest.points)


def _largest_side(nest: Nest, depth: int, facts: Facts, draft: Draft) -> int | None:
    """The side of tiles of the first ``depth`` loops whose memory fits in most of the second cache."""
    tiled = {b: {_own_loop(nest.band, n, b) for n in nest.order[:depth]} for b in nest.blocks}
    room = draft.cache("L2") * 3 // 4
    for side in SIDES:
        sizes: dict[str, int] = {}
        for block in nest.blocks:
            for access in facts.accesses[block]:
                name = access.buffer.name
                sizes[name] = max(sizes.get(name, 0), _tile_bytes(access, tiled[block], side))
        if sum(sizes.values()) <= room:
            return side
    return None


def _tile_bytes(access: Touch, tiled: set[str | None], side: int) -> int:
    """Bytes of a buffer that a tile touches; along skewed loops it wanders, by its side again."""
    sizes = []
    for extent, form in zip(buffer_shape(access.buffer), access.subscripts):
        if not variables(form):
            sizes.append(1)
        else:
            sizes.append(min(extent, 2 * side) if any(name in tiled for name in form) else extent)
    return prod(sizes) * (access.buffer.dtype.bits // 8)


def _bytes(accesses: Sequence[Touch]) -> int:
    by_buffer = {a.buffer.name: a.buffer for a in accesses}
    return sum(prod(buffer_shape(b)) * (b.dtype.bits // 8) for b in by_buffer.values())


def _sides(nest: Nest, depth: int, side: int, facts: Facts, draft: Draft) -> tuple[int, ...]:
    """Sides for each tiled loop: such that, in waves of tiles, every thread has some."""
    found = []
    for n in nest.order[:depth]:
        loops = [(b, _own_loop(nest.band, n, b)) for b in nest.blocks]
        extent = max((facts.extents[b][loop] for b, loop in loops if loop is not None), default=1)
        share = extent // (4 * draft.threads) if draft.threads > 1 and not any(nest.coincident) else extent
        found.append(next((n for n in SIDES if n <= min(side, share)), SIDES[-1]))
    return tuple(found)
