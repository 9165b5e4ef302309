"""Strips of rows of a chain's result, where it shares no such loop: each computes what its rows need.

One for each thread, or as many as keep what is in between in a cache.

A chain of windows shares channels: what is read beyond one's own rows belongs to others. With channels on threads each
reads all that others have written before, and writes between what they write (`contraction_strips` says what that
costs). With a strip of rows for each thread, the few rows around it that windows reach are computed twice instead.

One vector of channels of a whole image may be more than the second cache holds. Then all channels of a few rows are
made at a time: products have all their lanes for their tiles, and what they read is read once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from weft.auto.align import Chain, ChainTile
from weft.auto.chain import has_even_shares, pays_threads
from weft.auto.contraction_epilogue import find_epilogue
from weft.auto.contraction_plan import is_contraction
from weft.auto.draft import Draft
from weft.auto.parallel_loops import IMBALANCE, exchange_seconds, idle_part
from weft.auto.stages import Stage, StageAccess, StageIter, buffer_bytes


def choose_strips(draft: Draft, chain: Chain) -> ChainTile | None:
    """The iterator of the anchor that threads share out, and how many of its values each gets; None: none."""
    if not pays_threads(draft, chain) or chain.sinks or chain.anchor.steps or has_even_shares(draft, chain):
        return None
    rows = next((i for i in chain.anchor.spatial if _may_cut(draft, chain, i)), None)
    if rows is None:
        return None
    again = _seconds_again(draft, chain, rows.name)
    if again is None or again >= _seconds_of_exchange(draft, chain):
        return None
    size = -(-rows.count // draft.threads)
    return ChainTile(rows.name, size, f"each of {draft.threads} threads has its own rows, as in kernels around it")


def chains_in_strips(draft: Draft, chain: Chain, along: str) -> Iterator[Chain]:
    """``chain`` with ``along`` left to the nests inside and a few rows of the result at a time: as many as have what is
    in between in a fourth of the second cache, and in half of it.

    None where one vector along ``along`` at a time fits there, and no vector is left over in part.
    """
    lanes = draft.lanes(chain.anchor)
    if chain.sinks or chain.anchor.steps:
        return
    made = sum(_made_bytes(chain, s) for s in _handed_on(draft, chain)) * lanes
    if made <= draft.cache("L2") // 2 and chain.extent(along) % lanes == 0:
        return
    whole = replace(chain, left_inside=chain.left_inside | {along}, tile=None)
    row = next((i for i in whole.anchor.spatial if _is_free(whole, i)), None)
    if row is None:
        return
    sizes = {_strip_of(draft, whole, row, draft.cache("L2") // part) for part in (4, 2)}
    for size in sorted(size for size in sizes if size is not None):
        why = f"what is in between takes {_kept_bytes(draft, whole, row, size) >> 10} KiB"
        yield replace(whole, strips=ChainTile(row.name, size, why))


def _strip_of(draft: Draft, chain: Chain, row: StageIter, most_bytes: int) -> int | None:
    """Rows of the result for which so many bytes are made in between, evenly if possible; None where there are none."""
    count = row.count
    fitting = [size for size in range(1, count) if _kept_bytes(draft, chain, row, size) <= most_bytes]
    if not fitting or rows_of_strip(chain, ChainTile(row.name, 1)) is None:
        return None
    most = fitting[-1]
    threads = draft.threads if pays_threads(draft, chain) and not has_even_shares(draft, chain) else 1

    def waste(size: int) -> tuple[bool, bool, int]:
        strips = -(-count // size)
        return idle_part(strips, threads) > IMBALANCE, count % size != 0, -size

    return min(range(max(1, most // 2), most + 1), key=waste)


def _kept_bytes(draft: Draft, chain: Chain, row: StageIter, size: int) -> int:
    """What is in between for a strip of so many rows."""
    rows = rows_of_strip(chain, ChainTile(row.name, size)) or {}

    def part(stage: Stage) -> float:
        own = rows.get(stage.name)
        return 1.0 if own is None else own.count / stage.by_name[own.iterator].count

    return int(sum(_made_bytes(chain, s) * part(s) for s in _handed_on(draft, chain)))


def _handed_on(draft: Draft, chain: Chain) -> Iterator[Stage]:
    """Stages whose results are in memory for others to read; sums with which something is done are not."""
    for stage in chain.members:
        ends = is_contraction(stage) and find_epilogue(draft, stage) is not None
        if not ends and not chain.stages.is_output(stage):
            yield stage


def _made_bytes(chain: Chain, stage: Stage) -> int:
    """What ``stage`` makes in a round of the shared loops."""
    return chain.footprint(stage, stage.write, chain.shared) * stage.write.buffer.dtype.itemsize


@dataclass(frozen=True)
class StripRows:
    """How many values of an iterator a strip needs, and by how many they move from one row of the strip to the next."""

    iterator: str
    step: int
    count: int


def rows_of_strip(chain: Chain, strips: ChainTile) -> dict[str, StripRows] | None:
    """What each stage computes for a strip, by its name; None where that is not some rows."""
    rows = {chain.anchor.name: StripRows(strips.name, 1, strips.size)}
    for stage in sorted(chain.members, key=lambda s: -s.position):
        if stage is chain.anchor:
            continue
        found = _rows_read(chain, stage, rows)
        if found is None:
            return None
        rows[stage.name] = found
    return rows


def _may_cut(draft: Draft, chain: Chain, i: StageIter) -> bool:
    return _is_free(chain, i) and i.count > draft.threads and idle_part(i.count, draft.threads) <= IMBALANCE


def _is_free(chain: Chain, i: StageIter) -> bool:
    """Whether rows of ``i`` can be cut into strips."""
    is_own = i.loop is not None and i.exact and i.name not in chain.shared
    return is_own and i.count > 1 and chain.anchor.write.stride(i.name) != 1


def _seconds_again(draft: Draft, chain: Chain, name: str) -> float | None:
    """What all that is computed twice takes a thread; None where all of some stage would be."""
    rows = rows_of_strip(chain, ChainTile(name, 1))
    if rows is None:
        return None
    operations = 0.0
    for stage in chain.members:
        own = rows[stage.name]
        part = (own.count - own.step) / max(1, stage.by_name[own.iterator].count)
        operations += max(0.0, part) * stage.points * max(1, stage.operations)
    return (draft.threads - 1) * operations / draft.model.peak / draft.threads


def _rows_read(chain: Chain, stage: Stage, rows: Mapping[str, StripRows]) -> StripRows | None:
    """Those of ``stage``, from those of its readers."""
    found: list[StripRows] = []
    for reader, own in ((chain.stages[name], own) for name, own in rows.items()):
        for access in (a for a in reader.reads if a.buffer.name == stage.write.buffer.name):
            read = _rows_through(reader, access, own, stage)
            if read is None:
                return None
            found.append(read)
    is_one = len({(r.iterator, r.step) for r in found}) == 1
    return max(found, key=lambda r: r.count) if is_one else None


def _rows_through(reader: Stage, access: StageAccess, own: StripRows, stage: Stage) -> StripRows | None:
    for d, row in enumerate(access.rows or ()):
        if step := abs(row.get(own.iterator, 0)):
            reach = sum(abs(n) * (reader.by_name[i].count - 1) for i, n in row.items() if i != own.iterator)
            along = next((i for i in stage.spatial if stage.write.subscript_of(i.name) == d), None)
            count = reach + 1 + step * (own.count - 1)
            return None if along is None else StripRows(along.name, step * own.step, min(count, along.count))
    return None


def _seconds_of_exchange(draft: Draft, chain: Chain) -> float:
    """What threads wait for one another's caches where they share out channels."""
    made = {s.write.buffer.name for s in chain.members}
    read = {a.buffer.name: a.buffer for s in chain.members for a in s.reads if a.buffer.name not in made}
    given = sum(buffer_bytes(b) for name, b in read.items() if name not in draft.constants)
    return exchange_seconds(draft.model, draft.threads, given, buffer_bytes(chain.anchor.write.buffer))
