"""Reductions over small windows of one operand, as pools do: lanes are neighbouring results, windows written out."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from weft.auto.draft import Draft
from weft.auto.parallel_loops import parallel_outermost
from weft.auto.sketch import Loop, Sketch, TileNest
from weft.auto.stages import NEAR_STEPS, Stage, StageIter
from weft.ir.stmt import LoopKind

#: Points of a window that are written out, at most.
LARGEST = 64


@dataclass(frozen=True, slots=True)
class PoolPlan:
    """Lanes along ``along``, the window written out."""

    along: str

    @property
    def way(self) -> str:
        return "windows"

    def __str__(self) -> str:
        return f"windows written out, lanes along {self.along}"


def pool_plans(draft: Draft, stage: Stage) -> list[PoolPlan]:
    along = _along(stage) if fits_pools(draft, stage) else None
    return [PoolPlan(along.name)] if along is not None else []


def pool_seconds(draft: Draft, stage: Stage, plan: PoolPlan) -> float:
    lanes, along = draft.lanes(stage), stage.by_name[plan.along]
    outer = [i for i in stage.spatial if i is not along and i.count > 1]
    first: LoopKind = "parallel" if draft.pays_threads(stage) else "serial"
    loops = [Loop(i.name, 1, i.count, "serial" if n else first) for n, i in enumerate(outer)]
    tiles = Loop(along.name, lanes, along.count / lanes)
    window = tuple(Loop(i.name, 1, i.count, "unroll") for i in stage.reductions if i.count > 1)
    sketch = Sketch()
    places, forms = sketch.enter_outer(stage, draft.stages)
    nest = TileNest((*loops, tiles), window, (Loop(along.name, 1, lanes, "vector"),))
    sketch.draw_tiles(places, stage, nest, forms)
    return sketch.seconds(draft)


def fits_pools(draft: Draft, stage: Stage) -> bool:
    if stage.op == "=" or not stage.is_affine or not stage.is_plain or stage.reads_target or not stage.reductions:
        return False
    extents = [i.extent for i in stage.reductions]
    if None in extents or prod(e for e in extents if e is not None) > LARGEST:
        return False
    along = _along(stage)
    return along is not None and (along.extent or draft.lanes(stage)) >= draft.lanes(stage) and _is_window(stage)


def _along(stage: Stage) -> StageIter | None:
    """The iterator along which results lie in memory, and what they read lies near."""
    for i in stage.spatial:
        steps = [a.stride(i.name) for a in stage.reads]
        if stage.write.stride(i.name) == 1 and all(s in (0, *NEAR_STEPS) for s in steps):
            return i
    return None


def _is_window(stage: Stage) -> bool:
    """Whether each reduction moves within what some result reads: a subscript has both."""
    rows = [row for a in stage.reads for row in a.rows or ()]
    spatial = {i.name for i in stage.spatial}
    return all(any(i.name in row and spatial & set(row) for row in rows) for i in stage.reductions)


def apply_pools(draft: Draft, name: str, plan: PoolPlan) -> None:
    stage, lanes = draft.stage(name), draft.lanes(draft.stage(name))
    along = stage.by_name[plan.along]
    loop = stage.loop_of(along.name)
    window = [stage.loop_of(i.name) for i in stage.reductions]
    others = [x for x in stage.loops if x not in (loop, *window)]
    outer, inner = draft.s.split(loop, lanes)
    draft.s.reorder(*others, outer, *window, inner)
    draft.s.vectorize(inner)
    for x in window:
        draft.s.unroll(x)
    if draft.pays_threads(stage):
        parallel_outermost(draft, name, others)
    draft.s.cache_write(stage.write.buffer.name, scope="register", at=outer)
    points = prod(i.extent or 1 for i in stage.reductions)
    draft.decide("vector", name, f"`{along.name}` in vectors of {lanes}", "results lie along it")
    draft.decide("registers", name, f"windows of {points} written out", "results stay in a register meanwhile")
