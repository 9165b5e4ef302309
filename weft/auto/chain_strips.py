"""Threads share out rows of a chain's result, where it shares no such loop: each computes what its rows need.

A chain of windows shares channels: what is read beyond one's own rows belongs to others. With channels on threads each
reads all that others have written before, and writes between what they write (`contraction_strips` says what that
costs). With a strip of rows for each thread, the few rows around it that windows reach are computed twice instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from weft.auto.align import Chain, ChainTile
from weft.auto.chain import pays_threads, shared_order
from weft.auto.draft import Draft
from weft.auto.parallel_loops import IMBALANCE, exchange_seconds, idle_part
from weft.auto.stages import Stage, StageAccess, StageIter, buffer_bytes


def choose_strips(draft: Draft, chain: Chain) -> ChainTile | None:
    """The iterator of the anchor that threads share out, and how many of its values each gets; None: none."""
    if not pays_threads(draft, chain) or chain.sinks or chain.anchor.steps or _has_even_rows(draft, chain):
        return None
    rows = next((i for i in chain.anchor.spatial if _may_cut(draft, chain, i)), None)
    if rows is None:
        return None
    again = _seconds_again(draft, chain, rows.name)
    if again is None or again >= _seconds_of_exchange(draft, chain):
        return None
    size = -(-rows.count // draft.threads)
    return ChainTile(rows.name, size, f"each of {draft.threads} threads has its own rows, as in kernels around it")


def _has_even_rows(draft: Draft, chain: Chain) -> bool:
    """Whether the first shared loop goes through rows of memory and gives all threads the same."""
    first = shared_order(draft, chain)[0]
    is_lane = chain.tile is not None and chain.tile.name == first
    return not is_lane and idle_part(chain.extent(first), draft.threads) <= IMBALANCE


def _may_cut(draft: Draft, chain: Chain, i: StageIter) -> bool:
    is_free = i.loop is not None and i.exact and i.name not in chain.shared and chain.anchor.write.stride(i.name) != 1
    return is_free and i.count > draft.threads and idle_part(i.count, draft.threads) <= IMBALANCE


def _seconds_again(draft: Draft, chain: Chain, name: str) -> float | None:
    """What all that is computed twice takes a thread; None where all of some stage would be."""
    rows: dict[str, _Rows] = {chain.anchor.name: _Rows(name, 0)}
    operations = 0.0
    for stage in sorted(chain.members, key=lambda s: -s.position):
        if stage is chain.anchor:
            continue
        found = _rows_read(chain, stage, rows)
        if found is None:
            return None
        rows[stage.name] = found
        part = found.again / max(1, stage.by_name[found.iterator].count)
        operations += part * stage.points * max(1, stage.operations)
    return (draft.threads - 1) * operations / draft.model.peak / draft.threads


@dataclass(frozen=True)
class _Rows:
    """The iterator of a stage that moves with the rows of a strip; how many of its values the next strip needs too."""

    iterator: str
    again: int


def _rows_read(chain: Chain, stage: Stage, rows: Mapping[str, _Rows]) -> _Rows | None:
    """Those of ``stage``, from those of its readers."""
    found: list[_Rows] = []
    for reader, own in ((chain.stages[name], own) for name, own in rows.items()):
        for access in (a for a in reader.reads if a.buffer.name == stage.write.buffer.name):
            read = _rows_through(reader, access, own, stage)
            if read is None:
                return None
            found.append(read)
    return max(found, key=lambda r: r.again, default=None) if len({r.iterator for r in found}) == 1 else None


def _rows_through(reader: Stage, access: StageAccess, own: _Rows, stage: Stage) -> _Rows | None:
    for d, row in enumerate(access.rows or ()):
        if step := abs(row.get(own.iterator, 0)):
            reach = sum(abs(n) * (reader.by_name[i].count - 1) for i, n in row.items() if i != own.iterator)
            along = next((i.name for i in stage.spatial if stage.write.subscript_of(i.name) == d), None)
            return None if along is None else _Rows(along, max(0, reach + 1 + step * (own.again - 1)))
    return None


def _seconds_of_exchange(draft: Draft, chain: Chain) -> float:
    """What threads wait for one another's caches where they share out channels."""
    made = {s.write.buffer.name for s in chain.members}
    read = {a.buffer.name: a.buffer for s in chain.members for a in s.reads if a.buffer.name not in made}
    given = sum(buffer_bytes(b) for name, b in read.items() if name not in draft.constants)
    return exchange_seconds(draft.model, draft.threads, given, buffer_bytes(chain.anchor.write.buffer))
