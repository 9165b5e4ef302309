"""Reductions: as contractions, whose operands are reused from registers; over small windows; or row by row.

All list their plans, and the time model compares them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.auto.contraction import apply_contraction
from weft.auto.contraction_plan import ContractionPlan
from weft.auto.contraction_tiles import contraction_plans
from weft.auto.contraction_time import contraction_seconds
from weft.auto.draft import Draft
from weft.auto.pools import PoolPlan, apply_pools, pool_plans, pool_seconds
from weft.auto.rows import RowsPlan, apply_rows, rows_plans, rows_seconds
from weft.auto.stages import Stage
from weft.auto.strategy import Strategy

_SECONDS: dict[type, Callable[[Draft, Stage, Any], float]] = {
    ContractionPlan: contraction_seconds,
    PoolPlan: pool_seconds,
    RowsPlan: rows_seconds,
}
_STEPS: dict[type, Callable[[Draft, str, Any], None]] = {
    ContractionPlan: apply_contraction,
    PoolPlan: apply_pools,
    RowsPlan: apply_rows,
}

REDUCTION: Strategy[Draft] = Strategy(
    "reduction",
    lambda draft, stage: [*contraction_plans(draft, stage), *pool_plans(draft, stage), *rows_plans(draft, stage)],
    lambda draft, name, plan: _STEPS[type(plan)](draft, name, plan),
    lambda draft, stage: lambda plan: _SECONDS[type(plan)](draft, stage, plan),
)
