"""Updates at places that data or reductions choose: every one by a thread of its own, in one step at memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from weft.auto.gpu.draft import GpuDraft
from weft.auto.gpu.grid import Shape, as_one, possible_shapes, spread
from weft.auto.gpu.streams import Grid, stream_of, streams_seconds
from weft.auto.rows import may_reorder
from weft.auto.stages import Stage
from weft.auto.strategy import Strategy
from weft.ir.expr import Load
from weft.ir.visit import free_vars, stores, walk


def fits_scatters(draft: GpuDraft, stage: Stage) -> bool:
    if stage.op == "=" or stage.is_inside or not stage.is_plain or not may_reorder(draft, stage):
        return False
    return not stage.write.is_affine or any(stage.write.uses(i.name) for i in stage.reductions)


@dataclass(frozen=True, slots=True)
class ScattersPlan:
    """Blocks of ``shape``."""

    shape: Shape
    way: str = "scattered"


def scatters_plans(draft: GpuDraft, stage: Stage) -> list[ScattersPlan]:
    if not fits_scatters(draft, stage):
        return []
    count = None if any(i.extent is None for i in stage.iters) else stage.points
    return [ScattersPlan(shape) for shape in possible_shapes(draft, count, 4)]


def apply_scatters(draft: GpuDraft, name: str, plan: ScattersPlan) -> None:
    stage, shape = draft.stage(name), plan.shape
    draft.s.atomic(name)
    last = _along(stage)
    order = [x for x in stage.loops if x not in last] + last
    if order != list(stage.loops):
        draft.s.reorder(*order)
    spread(draft, as_one(draft, order), shape)
    why = "threads may update one element, in any order"
    draft.decide(
        "parallel", name, f"each update in one step, blocks of {shape.threads} threads, {shape.each} updates each", why
    )


def _along(stage: Stage) -> list[str]:
    """Loops that decide the last subscript of what is written, where data do not: they go along memory."""
    *_, last = stores(stage.block.body)[0].indices
    if any(isinstance(n, Load) for n in walk(last)):
        return []
    names = free_vars(last)
    return [i.loop for i in stage.iters if i.name in names and i.loop is not None]


def scatters_prices(draft: GpuDraft, stage: Stage) -> Callable[[ScattersPlan], float]:
    """Threads side by side read and update side by side where data do not decide."""
    along = next((i.name for i in stage.iters if i.loop in _along(stage)[-1:]), None)

    def seconds(plan: ScattersPlan) -> float:
        threads, each = plan.shape.threads, plan.shape.each
        streams = [stream_of(stage, a, along, 1, each, 1) for a in stage.accesses]
        grid = Grid(stage.points / (threads * each), threads, each * (stage.operations + 4))
        return streams_seconds(draft.machine, grid, streams)

    return seconds


SCATTERS: Strategy[GpuDraft] = Strategy("scatters", scatters_plans, apply_scatters, scatters_prices)
