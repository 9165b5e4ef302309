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

#: What each kind of plan takes, and its steps.
_WAYS: dict[type, tuple[Callable[[Draft, Stage, Any], float], Callable[[Draft, str, Any], None]]] = {
    ContractionPlan: (contraction_seconds, apply_contraction),
    PoolPlan: (pool_seconds, apply_pools),
    RowsPlan: (rows_seconds, apply_rows),
}

REDUCTION: Strategy[Draft] = Strategy(
    "reduction",
    lambda draft, stage: [*contraction_plans(draft, stage), *pool_plans(draft, stage), *rows_plans(draft, stage)],
    lambda draft, name, plan: _WAYS[type(plan)][1](draft, name, plan),
    lambda draft, stage: lambda plan: _WAYS[type(plan)][0](draft, stage, plan),
)
