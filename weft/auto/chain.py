"""Chains: stages that share iterators, computed together in loops over them, so that what is in between stays near.

Softmax, the norms, attention: a reduction needs a row, what follows needs the same row again. The last stage (the
*anchor*) keeps its loops over what all have in common, outermost; the others move inside, each computing what one
iteration needs. Nothing is computed twice: only iterators that all stages go along with are shared (see `align`).
The nests inside are then scheduled like any others.
"""

from __future__ import annotations

from dataclasses import replace

from weft.auto.align import Chain, ChainTile
from weft.auto.contraction_plan import is_contraction
from weft.auto.draft import AnyDraft, Draft
from weft.auto.parallel_loops import IMBALANCE, idle_part
from weft.auto.stages import Stage
from weft.ir.errors import ScheduleError


def schedule_chain(draft: Draft, chain: Chain) -> None:
    """The stages of ``chain`` in the shared loops of its anchor, these outermost and, if it pays, on threads."""
    anchor, in_parallel, tile = chain.anchor, pays_threads(draft, chain), chain.tile
    shared = shared_order(draft, chain)
    loops = share_loops(draft, anchor, shared, tile, chain.strips, strips_inside=has_even_shares(draft, chain))
    loops, moved = ChainMover(draft, chain, shared, tile, loops).run()
    if len(moved) == 1:
        raise ScheduleError("nothing can be computed in the shared loops")
    _tell(draft, chain, shared, tile, moved)
    if in_parallel:
        draft.s.parallel(loops[0])
        why = "outermost shared loop" if chain.strips is None else chain.strips.why
        draft.decide("parallel", anchor.name, f"`{loops[0]}` on {draft.threads} threads", why)


def pays_threads(draft: Draft, chain: Chain) -> bool:
    return draft.threads > 1 and draft.is_worth_threads(chain.work)


def has_even_shares(draft: Draft, chain: Chain) -> bool:
    """Whether the first shared loop goes through rows of memory and gives all threads the same."""
    first = next(iter(shared_order(draft, chain)), None)
    is_lane = chain.tile is not None and chain.tile.name == first
    return first is not None and not is_lane and idle_part(chain.extent(first), draft.threads) <= IMBALANCE


def _tell(draft: Draft, chain: Chain, shared: list[str], tile: ChainTile | None, moved: list[str]) -> None:
    name = chain.anchor.name
    names = ", ".join(f"`{n}`" for n in shared)
    others = ", ".join(f"`{n}`" for n in moved if n != name)
    kept = f"{chain.kept_bytes} bytes in between" if chain.kept_bytes < 4096 else f"{chain.kept_bytes >> 10} KiB"
    if chain.strips is not None:
        rows = f"{chain.strips.size} values of `{chain.strips.name}` at a time"
        draft.decide("tiling", name, rows, chain.strips.why)
    why = f"all go along with {names}; {kept} each time" if shared else "rows of all reach only a few of the others"
    draft.decide("fusion", name, f"computed together with {others}", why)
    if tile is not None:
        draft.decide("tiling", name, f"{tile.size} values of `{tile.name}` at a time", tile.why)


def share_loops(
    draft: AnyDraft,
    stage: Stage,
    shared: list[str],
    tile: ChainTile | None,
    strips: ChainTile | None = None,
    *,
    strips_inside: bool = False,
) -> list[str]:
    """The loops of ``stage`` over its iterators ``shared``, outermost in this order; that of ``tile`` over tiles.

    Around them, or inside, one over ``strips``, where there are any.
    """
    loops = [stage.loop_of(name) for name in shared]
    rest = [x for x in stage.loops if x not in loops]
    if tile is not None:
        outer, inner = draft.s.split(stage.loop_of(tile.name), tile.size)
        loops[shared.index(tile.name)] = outer.name
        rest.insert(0, inner.name)
    if strips is not None:
        own = stage.loop_of(strips.name)
        outer, inner = draft.s.split(own, strips.size)
        loops.insert(len(loops) if strips_inside else 0, outer.name)
        rest[rest.index(own)] = inner.name
    if [str(x) for x in draft.s.loops(stage.name)] != loops + rest:
        draft.s.reorder(*loops, *rest)
    return loops


def shared_order(draft: Draft, chain: Chain) -> list[str]:
    """The shared iterators, that which gives threads most even work first; that of which some are done at once last."""
    tile, rounds = chain.tile, {name: chain.extent(name) for name in chain.shared}
    if not rounds:
        return []
    if tile is not None:
        rounds[tile.name] = -(-rounds.pop(tile.name) // tile.size)

    def is_even(name: str) -> bool:
        return rounds[name] >= 4 * draft.threads or (rounds[name] > 0 and rounds[name] % draft.threads == 0)

    first = next((name for name in rounds if is_even(name)), max(rounds, key=lambda name: rounds[name]))
    return [first, *(n for n in rounds if n != first)]


class ChainMover:
    """Moves the stages of a chain, from the last to the first, into the shared loops of its anchor."""

    def __init__(
        self, draft: AnyDraft, chain: Chain, shared: list[str], tile: ChainTile | None, loops: list[str]
    ) -> None:
        self.draft, self.chain, self.shared, self.tile, self.loops = draft, chain, shared, tile, loops
        stages = draft.stages
        self.order = sorted((stages[n] for n in chain.alignments), key=lambda s: -s.position)
        self.readers = {s.name: {r.name for r in stages.consumers_in_step(s)} & {*chain.alignments} for s in self.order}
        self.moved = {chain.anchor.name}

    def run(self) -> tuple[list[str], list[str]]:
        """The shared loops and the stages in them, in order; those that may not move stay where they are."""
        position = self.chain.anchor.position
        for sink in reversed([s for s in self.order if s.position > position]):
            self._attempt(sink, after=True)
        left = [s for s in self.order if s.position < position]
        while ready := [s for s in left if self._is_ready(s, left)]:
            # What moves last is next to its reader: contractions, so that what is done with each sum can join them.
            stage = next((s for s in ready if not is_contraction(s)), ready[0])
            self._attempt(stage, after=False)
            left.remove(stage)
        return self.loops, [s.name for s in reversed(self.order) if s.name in self.moved]

    def _is_ready(self, stage: Stage, left: list[Stage]) -> bool:
        """Whether all that reads it has moved; another result also waits for what is between it and the anchor."""
        if stage.name in self.moved or not self.readers[stage.name] <= self.moved:
            return False
        between = [s for s in left if s.position > stage.position and s.name not in self.moved]
        return stage.name not in self.chain.sinks or not between

    def _attempt(self, stage: Stage, *, after: bool) -> None:
        is_sink = stage.name in self.chain.sinks
        compute_at, attempt = self.draft.s.compute_at, self.draft.attempt
        refusal = attempt(self._merge, stage, after) if is_sink else attempt(compute_at, stage.name, self.loops[-1])
        if refusal is None:
            self.moved |= {s.name for s in self.order if s.write.buffer.name == stage.write.buffer.name}
        else:
            where = f"not computed at `{self.loops[-1]}`"
            self.draft.decide("fallback", stage.name, where, refusal.why or refusal.what)

    def _merge(self, sink: Stage, after: bool) -> None:
        """The loops of another result become those of the anchor; the first of the two keep their names."""
        theirs = {anchor: own for own, anchor in self.chain.alignments[sink.name].items()}
        tile = self.tile and replace(self.tile, name=theirs[self.tile.name])
        own = share_loops(self.draft, sink, [theirs[name] for name in self.shared], tile)
        for mine, other in zip(self.loops, own):
            self.draft.s.fuse_loops(*((mine, other) if after else (other, mine)))
        self.loops = self.loops if after else own
