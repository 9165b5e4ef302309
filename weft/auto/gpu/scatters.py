"""Updates at places that data or reductions choose: every one by a thread of its own, in one step at memory."""

from __future__ import annotations

from weft.auto.gpu.draft import GpuDraft
from weft.auto.gpu.grid import as_one, choose_shape, spread
from weft.auto.rows import may_reorder
from weft.auto.stages import Stage
from weft.auto.strategy import Strategy, one_way
from weft.ir.expr import Load
from weft.ir.visit import free_vars, stores, walk

#: Bytes that an update reads, about.
UPDATE = 4


def fits_scatters(draft: GpuDraft, stage: Stage) -> bool:
    if stage.op == "=" or stage.is_inside or not stage.is_plain or not may_reorder(draft, stage):
        return False
    return not stage.write.is_affine or any(stage.write.uses(i.name) for i in stage.reductions)


def schedule_scatters(draft: GpuDraft, name: str) -> None:
    stage = draft.stage(name)
    shape = choose_shape(draft, None if any(i.extent is None for i in stage.iters) else stage.points, UPDATE)
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


SCATTERS: Strategy[GpuDraft] = one_way("scatters", fits_scatters, schedule_scatters)
