"""Chains: stages that share iterators, computed together in loops over them, so that what is in between stays near.

Softmax, the norms, attention: a reduction needs a row, what follows needs the same row again. The last stage (the
*anchor*) keeps its loops over what all have in common, outermost; the others move inside, each computing what one
iteration needs. Nothing is computed twice: only iterators that all stages go along with are shared (see `align`).
The nests inside are then scheduled like any others.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod

from weft.auto.align import Alignment, align_producer, align_reader, own_alignment
from weft.auto.draft import Draft
from weft.auto.stages import UNKNOWN_EXTENT, Stage, Stages


@dataclass
class Chain:
    """Stages by name with their alignments, ``anchor`` among them; ``sinks`` are other last ones beside it."""

    anchor: Stage
    alignments: dict[str, Alignment]
    sinks: list[str] = field(default_factory=list)

    @property
    def shared(self) -> tuple[str, ...]:
        """The iterators of the anchor that every stage goes along with."""
        common = set.intersection(*(set(a.values()) for a in self.alignments.values()))
        return tuple(i.name for i in self.anchor.spatial if i.name in common)

    def with_stages(self, more: dict[str, Alignment], sinks: list[str]) -> Chain:
        return Chain(self.anchor, {**self.alignments, **more}, [*self.sinks, *sinks])


def find_chains(draft: Draft) -> list[Chain]:
    """The chains of the program, no stage in two of them; the largest results choose first."""
    stages = draft.stages
    taken: set[str] = set()
    found: list[Chain] = []
    last = [s for s in stages if stages.is_output(s) and not stages.consumers(s) and not s.reads_target]
    for anchor in sorted(last, key=lambda s: (-s.points, -s.position)):
        if anchor.name in taken or anchor.outer:
            continue
        chain = _grow(draft, Chain(anchor, {anchor.name: own_alignment(anchor)}), taken)
        if len(chain.alignments) > 1:
            taken |= set(chain.alignments)
            found.append(chain)
    return found


def _grow(draft: Draft, chain: Chain, taken: set[str]) -> Chain:
    """``chain`` with every stage in front of it that may join and pays."""
    stages = draft.stages
    for stage in reversed(stages.stages):
        if stage.position >= chain.anchor.position or stage.name in chain.alignments or stage.name in taken:
            continue
        larger = _joined(stages, chain, stage)
        if larger is not None and larger.shared and pays_sharing(draft, larger, stage):
            chain = larger
    return chain


def _joined(stages: Stages, chain: Chain, stage: Stage) -> Chain | None:
    """``chain`` with ``stage``, and other last stages that read it; None where one of its readers is elsewhere."""
    if stages.is_output(stage) or stage.reads_target or stages.writers(stage.write.buffer.name) != (stage,):
        return None
    readers = stages.consumers(stage)
    inside = {r.name: chain.alignments[r.name] for r in readers if r.name in chain.alignments}
    if not inside:
        return None
    alignment = align_producer(stage, inside, stages)
    outside = [r for r in readers if r.name not in inside]
    more = {stage.name: alignment}
    for reader in outside:
        if not _is_beside(stages, chain, reader):
            return None
        more[reader.name] = align_reader(reader, stage, alignment)
    return chain.with_stages(more, [r.name for r in outside])


def _is_beside(stages: Stages, chain: Chain, stage: Stage) -> bool:
    """Whether ``stage`` is a last one right behind the anchor, so that their loops can become one."""
    return (
        stages.is_output(stage)
        and not stages.consumers(stage)
        and stage.position == chain.anchor.position + 1 + len(chain.sinks)
    )


def pays_sharing(draft: Draft, chain: Chain, stage: Stage) -> bool:
    """Whether ``stage``, just joined to ``chain``, is better computed in the shared loops than by itself."""
    rounds = prod(_known(chain.anchor.by_name[name].extent) for name in chain.shared)
    return rounds >= draft.threads or not _pays_threads(draft, chain)


def _pays_threads(draft: Draft, chain: Chain) -> bool:
    members = [draft.stages[name] for name in chain.alignments]
    return draft.threads > 1 and draft.is_worth_threads(sum(s.points * max(1, s.operations) for s in members))


def _known(extent: int | None) -> int:
    return UNKNOWN_EXTENT if extent is None else extent


def schedule_chain(draft: Draft, chain: Chain) -> None:
    """The stages of ``chain`` in the shared loops of its anchor, these outermost and, if it pays, on threads."""
    anchor = chain.anchor
    shared = _in_order(draft, chain)
    loops = [anchor.loop_of(name) for name in shared]
    rest = [x for x in anchor.loops if x not in loops]
    if list(anchor.loops) != loops + rest:
        draft.s.reorder(*loops, *rest)
    at, in_parallel = loops[-1], _pays_threads(draft, chain)
    for name in chain.sinks:
        _merge_sink(draft, chain, name, shared, loops)
    moved = _move_inside(draft, chain, at)
    if in_parallel:
        draft.s.parallel(loops[0])
        draft.decide(
            "parallel", anchor.name, f"`{loops[0]}` on {draft.threads} threads", "outermost of the shared loops"
        )
    names = ", ".join(f"`{n}`" for n in shared)
    draft.decide("fusion", anchor.name, f"computed together with {', '.join(moved)}", f"all go along with {names}")


def _in_order(draft: Draft, chain: Chain) -> list[str]:
    """The shared iterators, that which gives threads most even work first."""
    extents = {name: chain.anchor.by_name[name].extent for name in chain.shared}

    def is_even(name: str) -> bool:
        extent = _known(extents[name])
        return extent >= 4 * draft.threads or (extent > 0 and extent % draft.threads == 0)

    first = next((name for name in extents if is_even(name)), None)
    return list(extents) if first is None else [first, *(n for n in extents if n != first)]


def _merge_sink(draft: Draft, chain: Chain, name: str, shared: list[str], loops: list[str]) -> None:
    """The loops of another last stage become those of the anchor."""
    sink = draft.stage(name)
    theirs = {anchor: own for own, anchor in chain.alignments[name].items()}
    own = [sink.loop_of(theirs[iterator]) for iterator in shared]
    rest = [x for x in sink.loops if x not in own]
    if list(sink.loops) != own + rest:
        draft.s.reorder(*own, *rest)
    for loop, other in zip(loops, own):
        draft.s.fuse_loops(loop, other)


def _move_inside(draft: Draft, chain: Chain, at: str) -> list[str]:
    """Every other stage, last ones first, computed at loop ``at``; those that may not be stay where they are."""
    moved: set[str] = {chain.anchor.name, *chain.sinks}
    order = sorted(chain.alignments, key=lambda n: -draft.stages[n].position)
    readers = {n: {r.name for r in draft.stages.consumers(draft.stages[n])} for n in order}
    for name in order:
        if name in moved or not readers[name] <= moved:
            continue
        refusal = draft.attempt(lambda n=name: draft.s.compute_at(n, at))  # type: ignore[misc]
        if refusal is None:
            moved.add(name)
        else:
            draft.decide("fallback", name, f"not computed at `{at}`", refusal.why or refusal.what)
    return [f"`{n}`" for n in reversed(order) if n in moved and n != chain.anchor.name]
