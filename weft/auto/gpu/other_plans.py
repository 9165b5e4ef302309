"""Other ways to schedule a product than the time model's first choice, for measuring to decide.

The model is some tenth off, and small products are a matter of latency: with the depth whole or in parts, by other
tiles. `OTHER_PLANS` names the ways; a schedule says which it takes (`Scheduling.plan`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from weft.auto.driver import AutoSchedule
from weft.auto.gpu.contraction_tiles import ContractionPlan
from weft.auto.gpu.scheduler import auto_schedule_gpu, rank_gpu_plans
from weft.auto.plan_names import OTHER_TILES, OTHERWISE_CUT
from weft.ir.errors import UnsupportedError
from weft.schedules.schedule import Schedule
from weft.target.cuda.machine import GpuMachine

#: Plans expected to take more than this many times as long as the best are not tried.
WORTH_TRYING = 1.6

Pick = Callable[[ContractionPlan, Sequence[ContractionPlan]], ContractionPlan | None]


def _otherwise_cut(first: ContractionPlan, plans: Sequence[ContractionPlan]) -> ContractionPlan | None:
    return next((p for p in plans if (p.parts == 1) != (first.parts == 1)), None)


def _other_tiles(first: ContractionPlan, plans: Sequence[ContractionPlan]) -> ContractionPlan | None:
    sizes = first.tiles.rows, first.tiles.columns, first.tiles.kind
    return next((p for p in plans if (p.tiles.rows, p.tiles.columns, p.tiles.kind) != sizes), None)


#: What finds each.
OTHER_PLANS: Mapping[str, Pick] = {OTHERWISE_CUT: _otherwise_cut, OTHER_TILES: _other_tiles}


def schedule_otherwise(schedule: Schedule, machine: GpuMachine, constants: frozenset[str], plan: str) -> AutoSchedule:
    """As the automatic scheduler does, but for products by the plan that `OTHER_PLANS` names; refused without one."""
    picked: list[ContractionPlan] = []

    def rank(subject: str, plans: Sequence[Any], seconds: Callable[[Any], float] | None) -> list[Any]:
        usual = rank_gpu_plans(subject, plans, seconds)
        if seconds is None or not plans or not isinstance(plans[0], ContractionPlan):
            return usual
        limit = WORTH_TRYING * seconds(usual[0])
        near = [p for p in sorted(plans, key=seconds) if seconds(p) <= limit]
        other = OTHER_PLANS[plan](usual[0], near)
        if other is None:
            return usual
        picked.append(other)
        return [other, *(p for p in usual if p != other)]

    made = auto_schedule_gpu(schedule, machine, constants, rank)
    if not picked:
        raise UnsupportedError(f"there is no plan with {plan}")
    return made
