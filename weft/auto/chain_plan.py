"""Whether stages are computed together, in which loops and how many iterations at a time: plans, and their ranking."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from weft.auto.align import Chain, ChainTile
from weft.auto.chain import pays_threads, schedule_chain
from weft.auto.chain_strips import chains_in_strips, choose_strips
from weft.auto.chain_time import apart_seconds, chain_seconds, last_tile_seconds
from weft.auto.contraction_plan import footprint, is_contraction
from weft.auto.draft import Draft
from weft.auto.fuse_chains import ChainRules
from weft.auto.fuse_tiles import choose_tile, even_tile, is_along_memory
from weft.auto.plan import SAME_TIME
from weft.auto.stages import Stage, StageAccess
from weft.auto.strategy import tell_others


@dataclass(frozen=True, slots=True)
class ChainPlan:
    """``members`` together in loops over iterators ``shared``, some values of one at a time; none shared: apart."""

    members: tuple[str, ...]
    shared: tuple[str, ...] = ()
    tile: ChainTile | None = None
    strips: ChainTile | None = None

    @property
    def way(self) -> str:
        return f"{self.members} {self.shared}{' in strips' if self.strips is not None else ''}"

    def __str__(self) -> str:
        if not self.shared and self.strips is None:
            return f"{', '.join(self.members)} apart"
        sizes = {self.tile.name: self.tile.size} if self.tile is not None else {}
        shared = [f"{name}:{sizes.get(name, 1)}" for name in self.shared]
        strips = [f"{self.strips.name}:{self.strips.size}"] if self.strips is not None else []
        loops = " x ".join((*shared, *strips))
        return f"{', '.join(self.members)} together in {loops}"


def why_apart(draft: Draft, chain: Chain, stage: Stage) -> str | None:
    """Why ``stage``, the last that joined ``chain``, cannot be computed with it; None where it can."""
    if not chain.shared:
        return "no iterator goes along with all of both"
    rounds = prod(map(chain.extent, chain.shared))
    if rounds < draft.threads and pays_threads(draft, chain):
        return f"they share {rounds} iterations, too few for {draft.threads} threads"
    if stage.steps and is_contraction(stage) and not all(_is_reused(stage, a) for a in stage.reads):
        return "each element of an operand is used once in a step: nothing stays near"
    return None


def _is_reused(stage: Stage, access: StageAccess) -> bool:
    """Whether several results are computed from what ``access`` reads."""
    return any(i.count > 1 and not access.uses(i.name) for i in stage.spatial)


def _leaves_nothing(draft: Draft, chain: Chain) -> bool:
    """Whether a contraction would be left without rows or lanes: what follows it joins its own tiles instead.

    Not one of which each element of an operand is used once, such as the maximum of scores plus a mask for all heads.
    """
    products = (
        s for s in chain.members if is_contraction(s) and not any(_is_used_once(s, a) for a in s.distinct_reads)
    )
    return any(_is_all_shared(chain, s) for s in products)


def _is_used_once(stage: Stage, access: StageAccess) -> bool:
    """Whether there are as many elements as the stage has points."""
    return footprint(stage, access) >= stage.points


def _is_all_shared(chain: Chain, stage: Stage) -> bool:
    """Whether no iterator of the stage's result is left to its own nest."""
    alignment = chain.alignments[stage.name]
    return all(alignment.get(i.name) in chain.shared for i in stage.spatial if i.extent != 1)


def choose_chain(draft: Draft, grown: Sequence[Chain]) -> Chain | None:
    """The variant that the time model expects to be fastest; None where that is the stages apart."""
    every = {s.name: s for chain in grown for s in chain.members}
    plans: dict[ChainPlan, Chain | None] = {}
    for chain in reversed(grown):
        for variant in _variants(draft, chain):
            plans[ChainPlan(tuple(variant.alignments), variant.shared, variant.tile, variant.strips)] = variant
    plans[ChainPlan(tuple(every))] = None  # listed last: of plans about as fast, one that moves less
    subject = f"{grown[-1].anchor.name}, fusion"
    times = draft.expected.setdefault(subject, {})
    times.update(_chain_times(draft, every, plans))
    ranked = draft.rank(subject, list(plans), times.__getitem__)
    best = ranked[0] if ranked else ChainPlan(tuple(every))  # a tuner may want none of them
    tell_others(draft, subject, best)
    chosen = plans[best]
    if chosen is None or chosen.strips is not None:
        return chosen
    return replace(chosen, strips=choose_strips(draft, chosen))


def _chain_times(
    draft: Draft, every: dict[str, Stage], plans: Mapping[ChainPlan, Chain | None]
) -> dict[ChainPlan, float]:
    """What is expected of each plan; of those too slow to be chosen whatever their last tile takes, less that."""
    rest = {p: [s for n, s in every.items() if c is not None and n not in c.alignments] for p, c in plans.items()}
    full = {
        p: apart_seconds(draft, every.values()) if c is None else chain_seconds(draft, c, rest[p])
        for p, c in plans.items()
    }

    @functools.cache
    def whole(plan: ChainPlan) -> float:
        chain = plans[plan]
        last = 0.0 if chain is None else last_tile_seconds(draft, chain, rest[plan], full[plan])
        return full[plan] + last

    enough = SAME_TIME * whole(min(full, key=full.__getitem__))
    return {plan: whole(plan) if time <= enough else time for plan, time in full.items()}


def _variants(draft: Draft, chain: Chain) -> Iterator[Chain]:
    """In strips of rows, with whole rows of memory left to the nests inside, with columns of products, batch by batch,
    and with all that can be shared."""
    along = next((name for name in reversed(chain.shared) if is_along_memory(draft, chain, name)), None)
    if along is not None:
        yield from chains_in_strips(draft, chain, along)
    if along is not None and len(chain.shared) > 1:
        smaller = replace(chain, left_inside=frozenset({along}))
        if not _is_too_few(draft, smaller):
            yield replace(smaller, tile=choose_tile(draft, smaller))
        panels = replace(chain, left_inside=frozenset(chain.shared) - {along})
        if chain.anchor.steps and any(map(is_contraction, chain.members)):  # their operands are packed but once
            yield replace(panels, tile=choose_tile(draft, panels))
    batches = _batches(chain)
    if batches and len(batches) < len(chain.shared):
        by_batch = replace(chain, left_inside=frozenset(chain.shared) - batches)
        if not _is_too_few(draft, by_batch):
            yield by_batch
    whole = replace(chain, tile=choose_tile(draft, chain))
    even = even_tile(draft, whole) if any(map(is_contraction, chain.members)) else None
    yield whole if even is None else replace(whole, tile=even)  # what is done with sums joins full tiles alone


def _is_too_few(draft: Draft, chain: Chain) -> bool:
    """Whether its shared loops run once, or leave threads nothing to do."""
    rounds = prod(map(chain.extent, chain.shared))
    return rounds <= 1 or (rounds < draft.threads and pays_threads(draft, chain))


def _batches(chain: Chain) -> frozenset[str]:
    """The shared iterators that all operands of all products use: a head of attention is a product by itself."""
    products = [s for s in chain.members if is_contraction(s)]
    own = {name: [(s, chain.counterpart(s, name) or "") for s in products] for name in chain.shared}
    return frozenset(n for n, of in own.items() if of and all(a.uses(i) for s, i in of for a in s.distinct_reads))


#: What pays on a CPU.
CPU_RULES = ChainRules(schedule_chain, why_apart, _leaves_nothing, choose_chain)
