"""What the time model expects of stages that are computed together in shared loops, and of the same stages apart."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import replace
from math import inf

from weft.auto.align import Chain
from weft.auto.chain import has_even_shares, pays_threads, shared_order
from weft.auto.chain_strips import rows_of_strip
from weft.auto.contraction_dots import adds_products
from weft.auto.contraction_epilogue import find_epilogue, may_join
from weft.auto.contraction_plan import Contraction, ContractionPlan
from weft.auto.contraction_tiles import contraction_plans, usual_plan
from weft.auto.contraction_time import contraction_seconds, draw_contraction
from weft.auto.draft import Draft
from weft.auto.pointwise import vector_iterator
from weft.auto.rows import iterator_along_memory
from weft.auto.sketch import Loop, Sketch
from weft.auto.stages import Stage
from weft.ir.visit import replace_buffers
from weft.schedules.index_forms import NOTHING, Forms, add_forms, variables
from weft.schedules.nests import Place
from weft.schedules.passed_tests import TestShare


def apart_seconds(draft: Draft, stages: Iterable[Stage]) -> float:
    """The time of ``stages``, each by itself."""
    dots, others = _part_dots(draft, stages)

    def drawn() -> Sketch:
        sketch = Sketch()
        _draw_apart(draft, sketch, others)
        return sketch

    return dots + _kept_seconds(draft, frozenset(s.name for s in others), drawn)


def _part_dots(draft: Draft, stages: Iterable[Stage]) -> tuple[float, tuple[Stage, ...]]:
    """The time of those that a dot product instruction computes, which no sketch shows, and the others."""
    seconds, others = 0.0, []
    for stage in stages:
        own = _dot_seconds(draft, stage)
        if own is None:
            others.append(stage)
        else:
            seconds += own
    return seconds, tuple(others)


def _dot_seconds(draft: Draft, stage: Stage) -> float | None:
    """The time of ``stage`` by the best of such instructions; None where there is none."""
    if not adds_products(stage):
        return None
    looks, times = (stage.name, "by dots"), draft.stages.times
    if looks not in times:
        dots = [plan for plan in contraction_plans(draft, stage) if plan.dot is not None]
        times[looks] = min((contraction_seconds(draft, stage, plan) for plan in dots), default=inf)
    return times[looks] if times[looks] < inf else None


def _kept_seconds(draft: Draft, looks: Hashable, draw: Callable[[], Sketch]) -> float:
    """The time of what ``draw`` gives, asked for once: chains that grow from other results meet the same stages."""
    times = draft.stages.times
    if looks not in times:
        times[looks] = draw().seconds(draft)
    return times[looks]


def _draw_apart(draft: Draft, sketch: Sketch, stages: Iterable[Stage]) -> None:
    once = _made_once(draft)
    every = [s for s in stages if s.write.buffer.name not in once]
    joined = _find_joined(draft, every)
    for stage in (s for s in every if s not in joined.values()):
        places, forms = sketch.enter_outer(stage, draft.stages)
        draw_nest(draft, sketch, places, _writing(stage, joined.get(stage.name)), usual_plan(draft, stage), forms)


def _made_once(draft: Draft) -> set[str]:
    """What depends on constants alone: by itself it is computed once for all calls."""
    found = set(draft.constants)
    for stage in draft.stages:
        if stage.reads and {a.buffer.name for a in stage.reads} <= found:
            found.add(stage.write.buffer.name)
    return found


def _find_joined(draft: Draft, stages: Iterable[Stage]) -> dict[str, Stage]:
    """What is done with each sum of a contraction, by its name, where both are among ``stages`` and it joins tiles."""
    by_name, found = {s.name: s for s in stages}, {}
    for stage in by_name.values():
        plan = usual_plan(draft, stage)
        reader = None if plan is None else find_epilogue(draft, draft.stage(stage.name))
        if plan is None or reader is None or reader.name not in by_name:
            continue
        if _dot_seconds(draft, draft.stage(stage.name)) is not None:  # apart another plan is taken, which nothing joins
            continue
        if may_join(Contraction(stage, plan, draft.lanes(stage), draft.enough_sums), reader):
            found[stage.name] = by_name[reader.name]
    return found


def _writing(stage: Stage, reader: Stage | None) -> Stage:
    """``stage`` as if it wrote its sums where ``reader`` puts what it makes of them, which takes about as long."""
    if reader is None:
        return stage
    made = replace(reader.write.buffer, dtype=stage.write.buffer.dtype)
    block = replace_buffers(stage.block, {stage.write.buffer: made})
    return replace(stage, block=block, write=replace(stage.write, buffer=made))


def last_tile_seconds(draft: Draft, chain: Chain, apart: Sequence[Stage], full: float) -> float:
    """What comes on top of ``full``, the time with all tiles full, where the last one is not."""
    if chain.tile is None or chain.extent(chain.tile.name) % chain.tile.size == 0:
        return 0.0
    rounds = -(-chain.extent(chain.tile.name) // chain.tile.size)
    if rounds > draft.model.vector_bits:  # even bit by bit the last tile would not count
        return 0.0
    return (chain_seconds(draft, chain, apart, tests=True) - full) / rounds


def chain_seconds(draft: Draft, chain: Chain, apart: Sequence[Stage], *, tests: bool = False) -> float:
    """The time of ``chain`` in its shared loops, as if all tiles were full, and of stages ``apart`` by themselves.

    With ``tests`` as if lanes were tested in all tiles.
    """
    shared, tile = shared_order(draft, chain), chain.tile
    sizes = {name: tile.size if tile is not None and tile.name == name else 1 for name in shared}
    own = frozenset((s.name, *(chain.counterpart(s, name) for name in shared)) for s in chain.members)
    dots, drawn = _part_dots(draft, apart)
    results, others = frozenset((chain.anchor.name, *chain.sinks)), frozenset(s.name for s in drawn)
    looks = (own, tuple(sizes.values()), results, others, tests, chain.strips)
    return dots + _kept_seconds(draft, looks, lambda: _draw_chain(draft, chain, drawn, sizes, tests=tests))


def _draw_chain(draft: Draft, chain: Chain, apart: Sequence[Stage], sizes: dict[str, int], *, tests: bool) -> Sketch:
    """``chain`` in its shared loops, so many values of each iterator at a time, and stages ``apart``."""
    sketch, tile, shared = Sketch(), chain.tile, list(sizes)
    _draw_apart(draft, sketch, apart)
    loops = [Loop(name, sizes[name], -(-chain.extent(name) // sizes[name])) for name in shared]
    rows = (None if chain.strips is None else rows_of_strip(chain, chain.strips)) or {}
    if chain.strips is not None:
        at = len(loops) if has_even_shares(draft, chain) else 0
        trips = -(-chain.anchor.by_name[chain.strips.name].count // chain.strips.size)
        loops.insert(at, Loop(chain.strips.name, chain.strips.size, trips))
    if pays_threads(draft, chain):
        loops[0] = replace(loops[0], kind="parallel")
    places, forms = sketch.enter_outer(chain.anchor, chain.stages)
    places = [*places]
    for loop in loops:
        place, forms = sketch.enter(places[-1], [loop], forms, chain.anchor.name)
        places.append(place)
    handed_on = [s for s in chain.members if s.name not in (chain.anchor.name, *chain.sinks)]
    sketch.keep_inside(places[-1], [s.write.buffer.name for s in handed_on if not chain.stages.is_output(s)])
    members = sorted(chain.members, key=lambda s: s.position)
    along = {s.name: {own: name for name in shared if (own := chain.counterpart(s, name)) is not None} for s in members}
    taken = {s.name: {own: sizes[name] for own, name in along[s.name].items()} for s in members}
    for name, strip in rows.items():
        taken[name][strip.iterator] = strip.count
    inside = [_inside(s, taken[s.name], loops) for s in members]
    joined = _find_joined(draft, inside)
    for stage in (s for s in inside if s not in joined.values()):
        bound = sketch.enter_outer(chain.stages[stage.name], chain.stages)[1]
        bound |= {mine: forms[theirs] for mine, theirs in along[stage.name].items()}
        if chain.strips is not None and (needed := rows.get(stage.name)) is not None:
            bound[needed.iterator] = add_forms(NOTHING, forms[chain.strips.name], needed.step)
        plan = usual_plan(draft, stage)
        draw_nest(draft, sketch, places, _writing(stage, joined.get(stage.name)), plan, bound)
        if tests and tile is not None:
            _test_lanes(places[-1], chain.counterpart(stage, tile.name) or "")
    return sketch


def _test_lanes(at: Place, name: str) -> None:
    """Lanes along a shared iterator are tested, in every unrolled copy: nobody takes such tests out of a nest."""
    for leaf in at.nest.below():
        loops = variables(leaf.forms.get(name, NOTHING))
        if any(n.kind == "vector" and n.name in loops for n in leaf.nests) and not leaf.tests:
            leaf.tests = (TestShare(loops | {n.name for n in leaf.nests if n.kind == "unroll"}, 1.0),)


def _inside(stage: Stage, sizes: dict[str, int], loops: list[Loop]) -> Stage:
    """``stage`` as it is inside shared loops: so many values of each iterator that these go through are left."""
    iters = tuple(
        replace(i, loop=i.loop if sizes[i.name] > 1 else None, extent=sizes[i.name]) if i.name in sizes else i
        for i in stage.iters
    )
    gone = {i.loop for i in stage.iters if sizes.get(i.name) == 1}
    outer = (*stage.outer, *(stage.loop_of(name) for name in sizes))
    counts = (*stage.outer_counts, *(int(loop.trips) for loop in loops))
    return replace(
        stage, iters=iters, loops=tuple(x for x in stage.loops if x not in gone), outer=outer, outer_counts=counts
    )


def draw_nest(
    draft: Draft, sketch: Sketch, places: Sequence[Place], stage: Stage, plan: ContractionPlan | None, forms: Forms
) -> None:
    """The nest of ``stage`` as the strategies for it would make it, about, inside the last of ``places``.

    Where it is a contraction, it follows ``plan``.
    """
    if plan is not None:
        draw_contraction(draft, sketch, places, Contraction(stage, plan, draft.lanes(stage), draft.enough_sums), forms)
        return
    along = iterator_along_memory(stage) if stage.reductions else vector_iterator(stage)
    own = [i for i in stage.iters if i.loop is not None and i.count > 1 and (along is None or i.name != along.name)]
    order = [*sorted(own, key=lambda i: i.is_reduction), *([along] if along is not None else [])]
    loops = [Loop(i.name, 1, i.count) for i in order]
    if loops and draft.pays_threads(stage):
        loops[0] = replace(loops[0], kind="parallel")
    sketch.draw_stage(places[-1], stage, loops, forms)
