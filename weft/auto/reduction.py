"""Reductions: as contractions, whose operands are reused from registers; over small windows; or row by row.

All list their plans, and the time model compares them.
"""

from __future__ import annotations

from collections.abc import Callable

from weft.auto.contraction import apply_contraction
from weft.auto.contraction_plan import ContractionPlan
from weft.auto.contraction_tiles import contraction_plans
from weft.auto.contraction_time import contraction_seconds
from weft.auto.draft import Draft
from weft.auto.pools import PoolPlan, apply_pools, pool_plans, pool_seconds
from weft.auto.rows import RowsPlan, apply_rows, rows_plans, rows_seconds
from weft.auto.stages import Stage

ReductionPlan = ContractionPlan | PoolPlan | RowsPlan


def reduction_plans(draft: Draft, stage: Stage) -> list[ReductionPlan]:
    return [*contraction_plans(draft, stage), *pool_plans(draft, stage), *rows_plans(draft, stage)]


def reduction_prices(draft: Draft, stage: Stage) -> Callable[[ReductionPlan], float]:
    def seconds(plan: ReductionPlan) -> float:
        if isinstance(plan, ContractionPlan):
            return contraction_seconds(draft, stage, plan)
        return pool_seconds(draft, stage, plan) if isinstance(plan, PoolPlan) else rows_seconds(draft, stage, plan)

    return seconds


def apply_reduction(draft: Draft, name: str, plan: ReductionPlan) -> None:
    if isinstance(plan, ContractionPlan):
        apply_contraction(draft, name, plan)
    elif isinstance(plan, PoolPlan):
        apply_pools(draft, name, plan)
    else:
        apply_rows(draft, name, plan)
