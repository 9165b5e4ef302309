"""Which stages can be computed together: chains grown from the last stage backwards.

What it gains is that temporaries stay near. What it may cost: operands of contractions are read again for every tile of
the shared loops, and there may be too few of these for all threads. Whether it pays is the rules' to say.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from weft.auto.align import Alignment, Chain, align_producer, align_reader, own_alignment
from weft.auto.contraction_plan import is_contraction
from weft.auto.draft import AnyDraft
from weft.auto.stages import Stage, Stages

D = TypeVar("D", bound=AnyDraft)


@dataclass(frozen=True)
class ChainRules(Generic[D]):
    """What pays on a machine."""

    #: computes the stages of a chain together
    schedule: Callable[[D, Chain], None]
    #: why the stage that joined a chain last is better computed by itself; None where it is not
    why_apart: Callable[[D, Chain, Stage], str | None]
    #: whether a whole chain is better left alone
    is_better_apart: Callable[[D, Chain], bool]
    #: of a chain as it grew, and its variants, the one to schedule; None where all is better apart
    choose: Callable[[D, Sequence[Chain]], Chain | None] = lambda draft, grown: grown[-1]


def schedule_chains(draft: D, rules: ChainRules[D]) -> None:
    for chain in find_chains(draft, rules):
        refusal = draft.attempt(rules.schedule, draft, chain)
        if refusal is not None:
            draft.decide("fallback", chain.anchor.name, "not computed with others", refusal.why or refusal.what)


def find_chains(draft: D, rules: ChainRules[D]) -> list[Chain]:
    """The chains of the program, no stage in two of them; the largest results choose first."""
    taken: set[str] = set()
    found: list[Chain] = []
    for anchor in _anchors(draft.stages):
        if anchor.name in taken or anchor.is_inside or anchor.is_scan or not own_alignment(anchor):
            continue
        grown = _grow(draft, Chain(draft.stages, anchor, {anchor.name: own_alignment(anchor)}), taken, rules)
        grown = [c for c in grown if len(c.alignments) > 1 and not rules.is_better_apart(draft, c)]
        chain = rules.choose(draft, grown) if grown else None
        if chain is not None:
            taken |= set(chain.alignments)
            found.append(chain)
    return found


def _anchors(stages: Stages) -> Iterator[Stage]:
    """Results first, the largest of them foremost; then what is only used inside, from the last on."""
    results = [s for s in stages if stages.is_output(s) and not stages.consumers_in_step(s)]
    yield from sorted(results, key=lambda s: (-s.points, -s.position))
    yield from (s for s in reversed(stages.stages) if s not in results and not stages.is_output(s))


def _grow(draft: D, chain: Chain, taken: set[str], rules: ChainRules[D]) -> list[Chain]:
    """``chain`` with every stage in front of it that may join; before that, as it was before a contraction joined."""
    stages, grown = draft.stages, []
    for stage in reversed(stages.stages):
        if stage.position >= chain.anchor.position or stage.name in chain.alignments or stage.name in taken:
            continue
        if stage.outer != chain.anchor.outer:
            continue
        larger = _joined(stages, chain, stage, taken)
        if larger is None:
            continue
        reason = rules.why_apart(draft, larger, stage)
        if reason is None:
            if is_contraction(stage):
                grown.append(chain)
            chain = larger
        else:
            draft.decide("fusion", stage.name, f"not computed together with `{chain.anchor.name}`", reason)
    return list({c.key: c for c in (_without_stray(stages, c) for c in (*grown, chain))}.values())


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
    return _is_result(stages, stage) or all(r.name in names for r in _readers(stages, stage))


def _is_result(stages: Stages, stage: Stage) -> bool:
    """Whether more than the stages of its loops see what it writes: an output, or a state that steps go on from."""
    buffer = stage.write.buffer.name
    users = (*stages.writers(buffer), *stages.readers(buffer))
    return stages.is_output(stage) or stage.reads_target or any(s.outer != stage.outer for s in users)


def _writers(stages: Stages, stage: Stage) -> list[Stage]:
    """Who computes what ``stage`` writes, in the same loops."""
    return [w for w in stages.writers(stage.write.buffer.name) if w.outer == stage.outer]


def _readers(stages: Stages, stage: Stage) -> list[Stage]:
    """Who reads what ``stage`` computes, other than those that compute it with it."""
    writers = stages.writers(stage.write.buffer.name)
    return [r for r in stages.consumers(stage) if r not in writers]


def _joined(stages: Stages, chain: Chain, stage: Stage, taken: Container[str]) -> Chain | None:
    """``chain`` with ``stage``, and other results that read it; None where one of its readers is elsewhere."""
    writers = _writers(stages, stage)
    is_output = _is_result(stages, stage)
    if any(w.is_scan for w in writers) or (is_output and len(writers) > 1):
        return None
    readers = [r for r in _readers(stages, stage) if r.outer == stage.outer or not is_output]
    inside = {r.name: chain.alignments[r.name] for r in readers if r.name in chain.alignments}
    if not inside:
        return None
    more: dict[str, Alignment] = {w.name: align_producer(w, inside, stages) for w in writers}
    sinks = [stage.name] if is_output else []
    for reader in readers:
        if reader.name not in inside and not _adopt(stages, chain, reader, stage, more, sinks):
            return None
    return None if any(name in taken for name in more) else chain.with_stages(more, sinks)


def _adopt(
    stages: Stages, chain: Chain, reader: Stage, stage: Stage, more: dict[str, Alignment], sinks: list[str]
) -> bool:
    """Adds ``reader`` of ``stage``, and what reads that in turn, up to results; whether all of it may join."""
    if reader.name in chain.alignments or reader.name in more:
        return True
    if reader.is_scan or reader.outer != stage.outer or _writers(stages, reader) != [reader]:
        return False
    more[reader.name] = align_reader(reader, stage, more[stage.name])
    consumers = [r for r in stages.consumers_in_step(reader) if r.outer == reader.outer]
    if _is_result(stages, reader):
        sinks.append(reader.name)
        return not consumers
    return bool(consumers) and all(_adopt(stages, chain, r, reader, more, sinks) for r in consumers)


def _may_merge(stages: Stages, chain: Chain, sink: Stage) -> bool:
    """Whether the loops of another result can become those of the anchor: nothing else is between them."""
    between = sorted((sink.position, chain.anchor.position))
    return all(s.name in chain.alignments for s in stages.stages[between[0] : between[1]])
