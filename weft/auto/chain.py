"""Chains: stages that share iterators, computed together in loops over them, so that what is in between stays near.

Softmax, the norms, attention: a reduction needs a row, what follows needs the same row again. The last stage (the
*anchor*) keeps its loops over what all have in common, outermost; the others move inside, each computing what one
iteration needs. Nothing is computed twice: only iterators that all stages go along with are shared (see `align`).
The nests inside are then scheduled like any others.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace
from math import prod

from weft.auto.align import Chain, align_producer, align_reader, own_alignment
from weft.auto.draft import Draft
from weft.auto.fuse_tiles import ChainTile, choose_tile
from weft.auto.stages import Stage, Stages
from weft.ir.errors import ScheduleError


def find_chains(draft: Draft) -> list[Chain]:
    """The chains of the program, no stage in two of them; the largest results choose first."""
    stages = draft.stages
    taken: set[str] = set()
    found: list[Chain] = []
    last = [s for s in stages if stages.is_output(s) and not stages.consumers(s) and not s.reads_target]
    for anchor in sorted(last, key=lambda s: (-s.points, -s.position)):
        if anchor.name in taken or anchor.outer:
            continue
        chain = _grow(draft, Chain(stages, anchor, {anchor.name: own_alignment(anchor)}), taken)
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
    return stages.is_output(stage) or all(r.name in names for r in stages.consumers(stage))


def _joined(stages: Stages, chain: Chain, stage: Stage) -> Chain | None:
    """``chain`` with ``stage``, and other results that read it; None where one of its readers is elsewhere."""
    if stage.reads_target or stages.writers(stage.write.buffer.name) != (stage,):
        return None
    readers = stages.consumers(stage)
    inside = {r.name: chain.alignments[r.name] for r in readers if r.name in chain.alignments}
    if not inside:
        return None
    alignment = align_producer(stage, inside, stages)
    more = {stage.name: alignment}
    sinks = [stage.name] if stages.is_output(stage) else []
    for reader in readers:
        if reader.name not in inside:
            if not stages.is_output(reader) or stages.consumers(reader) or reader.reads_target:
                return None
            more[reader.name] = align_reader(reader, stage, alignment)
            sinks.append(reader.name)
    return chain.with_stages(more, sinks)


def _may_merge(stages: Stages, chain: Chain, sink: Stage) -> bool:
    """Whether the loops of another result can become those of the anchor: nothing else is between them."""
    between = sorted((sink.position, chain.anchor.position))
    return all(s.name in chain.alignments for s in stages.stages[between[0] : between[1]])


def pays_sharing(draft: Draft, chain: Chain, stage: Stage) -> bool:
    """Whether ``stage``, just joined to ``chain``, is better computed in the shared loops than by itself."""
    rounds = prod(map(chain.extent, chain.shared))
    return rounds >= draft.threads or not _pays_threads(draft, chain)


def _pays_threads(draft: Draft, chain: Chain) -> bool:
    return draft.threads > 1 and draft.is_worth_threads(chain.work)


def schedule_chain(draft: Draft, chain: Chain) -> None:
    """The stages of ``chain`` in the shared loops of its anchor, these outermost and, if it pays, on threads."""
    anchor, in_parallel = chain.anchor, _pays_threads(draft, chain)
    tile = choose_tile(draft, chain)
    shared = _in_order(draft, chain, tile)
    loops = _outermost(draft, anchor, [anchor.loop_of(name) for name in shared])
    if tile is not None:
        loops[-1] = _split_tile(draft, anchor, tile)
    loops, moved = _Mover(draft, chain, shared, tile, loops).run()
    if len(moved) == 1:
        raise ScheduleError("nothing can be computed in the shared loops")
    _tell(draft, chain, shared, tile, moved)
    if in_parallel:
        draft.s.parallel(loops[0])
        draft.decide("parallel", anchor.name, f"`{loops[0]}` on {draft.threads} threads", "outermost shared loop")


def _tell(draft: Draft, chain: Chain, shared: list[str], tile: ChainTile | None, moved: list[str]) -> None:
    name = chain.anchor.name
    names = ", ".join(f"`{n}`" for n in shared)
    others = ", ".join(f"`{n}`" for n in moved if n != name)
    kept = f"{chain.kept_bytes} bytes in between" if chain.kept_bytes < 4096 else f"{chain.kept_bytes >> 10} KiB"
    draft.decide("fusion", name, f"computed together with {others}", f"all go along with {names}; {kept} each time")
    if tile is not None:
        draft.decide("tiling", name, f"{tile.size} values of `{tile.name}` at a time", tile.why)


def _split_tile(draft: Draft, stage: Stage, tile: ChainTile) -> str:
    """The loop through tiles; that through the values of a tile is right inside it."""
    return str(draft.s.split(stage.loop_of(tile.name), tile.size)[0])


def _outermost(draft: Draft, stage: Stage, loops: list[str]) -> list[str]:
    """``loops`` of a nest, brought outermost in this order."""
    rest = [x for x in stage.loops if x not in loops]
    if list(stage.loops) != loops + rest:
        draft.s.reorder(*loops, *rest)
    return loops


def _in_order(draft: Draft, chain: Chain, tile: ChainTile | None) -> list[str]:
    """The shared iterators, that which gives threads most even work first, that of which some are done at once last."""
    rounds = {name: chain.extent(name) for name in chain.shared}
    if tile is not None:
        rounds[tile.name] = -(-rounds[tile.name] // tile.size)
    last = [] if tile is None else [tile.name]
    others = [name for name in rounds if name not in last]

    def is_even(name: str) -> bool:
        return rounds[name] >= 4 * draft.threads or (rounds[name] > 0 and rounds[name] % draft.threads == 0)

    first = next((name for name in others if is_even(name)), None)
    return [*([] if first is None else [first]), *(n for n in others if n != first), *last]


class _Mover:
    """Moves the stages of a chain, from the last to the first, into the shared loops of its anchor."""

    def __init__(self, draft: Draft, chain: Chain, shared: list[str], tile: ChainTile | None, loops: list[str]) -> None:
        self.draft, self.chain, self.shared, self.tile, self.loops = draft, chain, shared, tile, loops
        stages = draft.stages
        self.order = sorted((stages[n] for n in chain.alignments), key=lambda s: -s.position)
        self.readers = {s.name: {r.name for r in stages.consumers(s)} for s in self.order}
        self.moved = {chain.anchor.name}

    def run(self) -> tuple[list[str], list[str]]:
        """The shared loops and the stages in them, in order; those that may not move stay where they are."""
        position = self.chain.anchor.position
        for sink in reversed([s for s in self.order if s.position > position]):
            self._attempt(sink, after=True)
        for stage in self.order:
            if stage.position < position and self.readers[stage.name] <= self.moved:
                self._attempt(stage, after=False)
        return self.loops, [s.name for s in reversed(self.order) if s.name in self.moved]

    def _attempt(self, stage: Stage, *, after: bool) -> None:
        is_sink = stage.name in self.chain.sinks
        step = (lambda: self._merge(stage, after)) if is_sink else (lambda: self._compute_inside(stage))
        refusal = self.draft.attempt(step)
        if refusal is None:
            self.moved.add(stage.name)
        else:
            where = f"not computed at `{self.loops[-1]}`"
            self.draft.decide("fallback", stage.name, where, refusal.why or refusal.what)

    def _compute_inside(self, stage: Stage) -> None:
        self.draft.s.compute_at(stage.name, self.loops[-1])

    def _merge(self, sink: Stage, after: bool) -> None:
        """The loops of another result become those of the anchor; the first of the two keep their names."""
        theirs = {anchor: own for own, anchor in self.chain.alignments[sink.name].items()}
        own = _outermost(self.draft, sink, [sink.loop_of(theirs[name]) for name in self.shared])
        if self.tile is not None:
            own[-1] = _split_tile(self.draft, sink, replace(self.tile, name=theirs[self.tile.name]))
        for mine, other in zip(self.loops, own):
            self.draft.s.fuse_loops(*((mine, other) if after else (other, mine)))
        self.loops = self.loops if after else own
