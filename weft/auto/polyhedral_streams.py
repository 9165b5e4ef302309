"""Nests that go through one large array are merged, a block of rows at a time, so that it comes from memory once.

isl merges nests that hand values on; that two of them read the same array it does not count. So neighbouring bands
of its tree that go through one array become one band, with the loops through the same dimension together.
"""

from __future__ import annotations

from math import prod

from weft.auto.draft import Draft
from weft.auto.polyhedral_facts import Facts, buffer_shape
from weft.auto.polyhedral_nest import Nest
from weft.ir.solve import Form, variables
from weft.poly.domain import Touch
from weft.poly.isl_schedule import Band, Tree
from weft.schedules.find import blocks_inside, find_loop, ranges_at
from weft.schedules.fission import body_parts
from weft.schedules.loop_facts import trip_count

#: Rows at a time, at most: with more the sums that wait for them no longer stay near.
MOST_ROWS = 64


def common_band(a: Tree, b: Tree, facts: Facts, draft: Draft) -> Band | None:
    """One band for two that go through an array too large for the second cache; None where there is no such array.

    On several threads they stay apart: merged they would seldom run at once.
    """
    if draft.threads > 1 or not isinstance(a, Band) or not isinstance(b, Band):
        return None
    if not a.permutable or not b.permutable or len(a.coincident) != len(b.coincident):
        return None
    order = _common_order(a, b, facts, draft)
    if order is None:
        return None
    rows = {**a.rows, **{block: tuple(found[n] for n in order) for block, found in b.rows.items()}}
    coincident = tuple(x and b.coincident[n] for x, n in zip(a.coincident, order))
    return Band(rows, coincident, True, None)


def finish_rows(draft: Draft, nest: Nest) -> None:
    """Blocks of as many rows as stay in the second cache: each statement goes through one before the next does."""
    s, outer = draft.s, nest.loops[0]
    loop_node = find_loop(s.kernel, outer)
    lanes = draft.machine.lanes(32)
    size = max(_row_bytes(a) for b in nest.blocks for a in nest.facts.accesses[b])
    rows = max(2 * lanes, min(MOST_ROWS, draft.cache("L2") // 2 // size // lanes * lanes))
    length = trip_count(loop_node, ranges_at(s.kernel, loop_node))
    if length is not None and length < 2 * rows:
        return
    before = {b.name for b in blocks_inside(s.kernel)}
    s.split(outer, rows, tail="separate")
    for loop in s.trace.steps[-1].made[1:]:
        _one_each(draft, loop)
    draft.scheduled |= {b.name for b in blocks_inside(s.kernel)} - before  # of the few rows that are left over
    draft.decide(
        "fusion",
        ", ".join(nest.blocks),
        f"blocks of {rows} rows of `{outer}` together",
        "they go through one array, which so comes from memory once",
    )


def _one_each(draft: Draft, loop: str) -> None:
    """``loop`` once for each statement in it."""
    while (parts := body_parts(find_loop(draft.s.kernel, loop).body)) and len(parts) > 1:
        loop = str(draft.s.fission(loop, blocks_inside(parts[0])[-1].name))


def _row_bytes(access: Touch) -> int:
    return prod(buffer_shape(access.buffer)[1:]) * access.buffer.dtype.bits // 8


def _common_order(a: Band, b: Band, facts: Facts, draft: Draft) -> list[int] | None:
    """The members of ``b`` that go through a large array as those of ``a`` do, in their order."""
    for block, rows in a.rows.items():
        for other, theirs in b.rows.items():
            pairs = ((x, y) for x in facts.accesses[block] for y in facts.accesses[other])
            for access, match in pairs:
                if access.buffer.name != match.buffer.name or not _is_large(access, draft):
                    continue
                order = _matching(access, rows, match, theirs)
                if order is not None:
                    return order
    return None


def _is_large(access: Touch, draft: Draft) -> bool:
    bits = access.buffer.dtype.bits * prod(buffer_shape(access.buffer))
    return len(access.subscripts) > 1 and bits // 8 > draft.cache("L2")


def _matching(
    access: Touch, rows: tuple[Form | None, ...], match: Touch, theirs: tuple[Form | None, ...]
) -> list[int] | None:
    mine = [_dimension(access, row) for row in rows]
    other = [_dimension(match, row) for row in theirs]
    if None in mine or sorted(map(str, mine)) != sorted(map(str, other)) or len(set(mine)) != len(mine):
        return None
    return [other.index(dimension) for dimension in mine]


def _dimension(access: Touch, row: Form | None) -> int | None:
    """The dimension that the one loop of ``row`` goes through."""
    if row is None or len(loops := variables(row)) != 1:
        return None
    (loop,) = loops
    kept = [d for d, form in enumerate(access.subscripts) if form.get(loop)]
    return kept[0] if len(kept) == 1 else None
