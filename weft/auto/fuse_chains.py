"""Which stages are computed together: chains grown from the last stage backwards, as long as that pays.

What it gains is that temporaries stay near. What it may cost: operands of contractions are read again for every tile of
the shared loops, and there may be too few of these for all threads.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass, replace
from math import prod
from typing import Generic, TypeVar

from weft.auto.align import Alignment, Chain, align_producer, align_reader, own_alignment
from weft.auto.contraction_plan import is_contraction
from weft.auto.draft import AnyDraft, Draft
from weft.auto.fuse_tiles import choose_tile, is_along_memory
from weft.auto.stages import Stage, Stages

D = TypeVar("D", bound=AnyDraft)


@dataclass(frozen=True)
class ChainRules(Generic[D]):
    """What pays on a machine."""

    #: why the stage that joined a chain last is better computed by itself; None where it is not
    why_apart: Callable[[D, Chain, Stage], str | None]
    #: whether a whole chain is better left alone
    is_better_apart: Callable[[D, Chain], bool]
    #: the chain as it is to be scheduled
    finish: Callable[[D, Chain], Chain] = lambda draft, chain: chain


def find_chains(draft: D, rules: ChainRules[D]) -> list[Chain]:
    """The chains of the program, no stage in two of them; the largest results choose first."""
    taken: set[str] = set()
    found: list[Chain] = []
    for anchor in _anchors(draft.stages):
        if anchor.name in taken or anchor.outer or anchor.reads_target or not own_alignment(anchor):
            continue
        chain = _grow(draft, Chain(draft.stages, anchor, {anchor.name: own_alignment(anchor)}), taken, rules)
        if len(chain.alignments) > 1 and not rules.is_better_apart(draft, chain):
            chain = rules.finish(draft, chain)
            taken |= set(chain.alignments)
            found.append(chain)
    return found


def _anchors(stages: Stages) -> Iterator[Stage]:
    """Results first, the largest of them foremost; then what is only used inside, from the last on."""
    results = [s for s in stages if stages.is_output(s) and not stages.consumers(s)]
    yield from sorted(results, key=lambda s: (-s.points, -s.position))
    yield from (s for s in reversed(stages.stages) if s not in results and not stages.is_output(s))


def _grow(draft: D, chain: Chain, taken: set[str], rules: ChainRules[D]) -> Chain:
    """``chain`` with every stage in front of it that may join and pays."""
    stages = draft.stages
    for stage in reversed(stages.stages):
        if stage.position >= chain.anchor.position or stage.name in chain.alignments or stage.name in taken:
            continue
        larger = _joined(stages, chain, stage)
        if larger is None:
            continue
        reason = rules.why_apart(draft, larger, stage)
        if reason is None:
            chain = larger
        else:
            draft.decide("fusion", stage.name, f"not computed together with `{chain.anchor.name}`", reason)
    return _without_stray(stages, chain)


def _without_stray(stages: Stages, chain: Chain) -> Chain:
    """``chain`` less the results that cannot be merged into its loops, and what those read."""
    while True:
        stray = [n for n in chain.sinks if not _may_merge(stages, chain, stages[n])]
        kept = {n: a for n, a in chain.alignments.items() if n not in stray}
        stray += [n for n in kept if n != chain.anchor.name and not _is_read_within(stages, kept, stages[n])]
        if not stray:
            return chain
        left = {n: a for n, a in chain.alignments.items() if n not in stray}
        chain = replace(chain, alignments=left, sinks=tuple(n for n in chain.sinks if n in left))


def _is_read_within(stages: Stages, names: Container[str], stage: Stage) -> bool:
    return stages.is_output(stage) or all(r.name in names for r in _readers(stages, stage))


def _readers(stages: Stages, stage: Stage) -> list[Stage]:
    """Who reads what ``stage`` computes, other than those that compute it with it."""
    writers = stages.writers(stage.write.buffer.name)
    return [r for r in stages.consumers(stage) if r not in writers]


def _joined(stages: Stages, chain: Chain, stage: Stage) -> Chain | None:
    """``chain`` with ``stage``, and other results that read it; None where one of its readers is elsewhere."""
    writers = stages.writers(stage.write.buffer.name)
    is_output = stages.is_output(stage)
    if any(w.reads_target for w in writers) or (is_output and len(writers) > 1):
        return None
    readers = _readers(stages, stage)
    inside = {r.name: chain.alignments[r.name] for r in readers if r.name in chain.alignments}
    if not inside:
        return None
    more: dict[str, Alignment] = {w.name: align_producer(w, inside, stages) for w in writers}
    sinks = [stage.name] if is_output else []
    for reader in readers:
        if reader.name not in inside and not _adopt(stages, chain, reader, stage, more, sinks):
            return None
    return chain.with_stages(more, sinks)


def _adopt(
    stages: Stages, chain: Chain, reader: Stage, stage: Stage, more: dict[str, Alignment], sinks: list[str]
) -> bool:
    """Adds ``reader`` of ``stage``, and what reads that in turn, up to results; whether all of it may join."""
    if reader.name in chain.alignments or reader.name in more:
        return True
    if reader.reads_target or stages.writers(reader.write.buffer.name) != (reader,):
        return False
    more[reader.name] = align_reader(reader, stage, more[stage.name])
    consumers = stages.consumers(reader)
    if stages.is_output(reader):
        sinks.append(reader.name)
        return not consumers
    return bool(consumers) and all(_adopt(stages, chain, r, reader, more, sinks) for r in consumers)


def _may_merge(stages: Stages, chain: Chain, sink: Stage) -> bool:
    """Whether the loops of another result can become those of the anchor: nothing else is between them."""
    between = sorted((sink.position, chain.anchor.position))
    return all(s.name in chain.alignments for s in stages.stages[between[0] : between[1]])


def why_apart(draft: Draft, chain: Chain, stage: Stage) -> str | None:
    """Why ``stage``, the last that joined ``chain``, is better computed by itself; None where it is not."""
    if not chain.shared:
        return "no iterator goes along with all of both"
    if _is_settled(draft, chain, stage):
        return "small, and computed once, it stays in the first cache by itself"
    rounds = prod(map(chain.extent, chain.shared))
    if rounds < draft.threads and pays_threads(draft, chain):
        return f"they share {rounds} iterations, too few for {draft.threads} threads"
    return _why_too_much_traffic(draft, chain)


def _is_settled(draft: Draft, chain: Chain, stage: Stage) -> bool:
    """Whether ``stage`` is a small table made from inputs that sharing would turn the anchor's loops around for."""
    leading = tuple(i.name for i in chain.anchor.spatial[: len(chain.shared)])
    small = chain.footprint(stage, stage.write) * stage.write.buffer.dtype.itemsize <= draft.cache("L1") // 4
    cheap = 16 * stage.points * max(1, stage.operations) <= chain.anchor.points * max(1, chain.anchor.operations)
    return chain.shared != leading and small and cheap and not draft.stages.producers(stage)


def pays_threads(draft: Draft, chain: Chain) -> bool:
    return draft.threads > 1 and draft.is_worth_threads(chain.work)


def _why_too_much_traffic(draft: Draft, chain: Chain) -> str | None:
    """Contractions inside a chain read operands again for each tile of the shared loops: from where, and how much?"""
    contractions = [s for s in chain.members if is_contraction(s)]
    if not contractions or any(_is_all_shared(chain, s) for s in contractions):
        return None
    tile = choose_tile(draft, chain)
    if tile is None:
        return f"what is in between, {chain.kept_bytes >> 10} KiB an iteration, leaves no room for tiles"
    operands = {
        a.buffer.name: chain.footprint(s, a, chain.shared) * a.buffer.dtype.itemsize
        for s in contractions
        for a in s.reads
        if not chain.stages.writers(a.buffer.name)
    }
    streamed, kept = sum(operands.values()), chain.kept_bytes * tile.size
    if streamed + kept <= draft.cache("L2") * 3 // 4:
        return None
    rounds = prod(map(chain.extent, chain.shared)) // tile.size
    saved = 2 * chain.kept_bytes * prod(map(chain.extent, chain.shared))
    largest = max(operands, key=lambda name: operands[name])
    if streamed * rounds <= saved:
        return None
    return f"`{largest}` ({operands[largest] >> 10} KiB) would be read again for each of {rounds} tiles"


def _is_all_shared(chain: Chain, stage: Stage) -> bool:
    """Whether no iterator of the stage's result is left to its own nest."""
    alignment = chain.alignments[stage.name]
    return all(alignment.get(i.name) in chain.shared for i in stage.spatial if i.extent != 1)


def _is_better_apart(draft: Draft, chain: Chain) -> bool:
    """Whether a contraction would be left without rows or lanes: what follows it joins its own tiles instead."""
    if any(is_contraction(s) and _is_all_shared(chain, s) for s in chain.members):
        return True
    total = sum(chain.footprint(s, a) * a.buffer.dtype.itemsize for s in chain.members for a in s.accesses)
    return total <= draft.cache("L1") and not any(s.reductions for s in chain.members)


def _with_rows_inside(draft: Draft, chain: Chain) -> Chain:
    """Where there are iterations enough without it, an iterator along memory is left to the nests: whole rows."""
    along = next((name for name in reversed(chain.shared) if is_along_memory(chain, name)), None)
    if along is None or len(chain.shared) == 1:
        return chain
    smaller = replace(chain, left_inside=frozenset({along}))
    rounds = prod(map(chain.extent, smaller.shared))
    enough = 4 * draft.threads if pays_threads(draft, chain) else 1
    return smaller if rounds >= enough and smaller.kept_bytes <= draft.cache("L1") // 2 else chain


#: What pays on a CPU.
CPU_RULES = ChainRules(why_apart, _is_better_apart, _with_rows_inside)
