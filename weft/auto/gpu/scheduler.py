"""The driver: fusion, then a strategy for every nest, the best that is not refused; then what is left."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from weft.auto.block_factors import group_factors
from weft.auto.gpu.block_sums import take_blocks
from weft.auto.gpu.chained_products import take_pairs
from weft.auto.gpu.columns import COLUMNS
from weft.auto.gpu.contraction import CONTRACTION, take_prologues
from weft.auto.gpu.dots import DOTS
from weft.auto.gpu.draft import GpuDraft
from weft.auto.gpu.fallback import schedule_rest
from weft.auto.gpu.fuse import fuse_stages
from weft.auto.gpu.narrow_factors import narrow_factors
from weft.auto.gpu.online_chain import split_shared_axes
from weft.auto.gpu.online_products import take_online
from weft.auto.gpu.persistent import persist_steps
from weft.auto.gpu.points import POINTS
from weft.auto.gpu.rows import ROWS
from weft.auto.gpu.scans import take_scans
from weft.auto.gpu.scatters import SCATTERS
from weft.auto.gpu.score_products import take_scores
from weft.auto.gpu.tiles import TILES
from weft.auto.gpu.unfolded import unfold_sums
from weft.auto.gpu.windows import WINDOWS
from weft.auto.plan import Ranker, rank_plans
from weft.auto.product_axes import merge_product_axes
from weft.auto.recurrence import fold_states
from weft.auto.scheduler import AutoSchedule
from weft.auto.strategy import Strategy, schedule_nests
from weft.auto.strided_sums import stride_sums
from weft.schedules.schedule import Schedule
from weft.target.cuda.machine import GpuMachine

#: Times of the model that are closer than this are taken for the same on a GPU.
SAME_TIME = 1.1

#: Tried in this order on the nest of every block that no other strategy has scheduled.
STRATEGIES: tuple[Strategy[GpuDraft], ...] = (
    SCATTERS,
    DOTS,
    CONTRACTION,
    ROWS,
    COLUMNS,
    WINDOWS,
    TILES,
    POINTS,
)


def rank_gpu_plans(subject: str, plans: Sequence[Any], seconds: Callable[[Any], float] | None) -> list[Any]:
    """By the model, which is some tenth off: nearer than that, the usual plan is better."""
    return rank_plans(subject, plans, seconds, SAME_TIME)


def auto_schedule_gpu(
    schedule: Schedule, machine: GpuMachine, constants: frozenset[str] = frozenset(), rank: Ranker = rank_gpu_plans
) -> AutoSchedule:
    """Schedules ``schedule``'s program for ``machine``; ``schedule`` itself is changed. Plans are ``rank``'s choice."""
    draft = GpuDraft(schedule, machine, constants)
    draft.rank = rank
    take_online(draft)
    split_shared_axes(draft)
    take_scores(draft)
    narrow_factors(draft)
    take_blocks(draft)
    group_factors(draft)
    fuse_stages(draft)
    stride_sums(draft)
    merge_product_axes(draft)
    unfold_sums(draft)
    take_scans(draft)
    take_pairs(draft)
    take_prologues(draft)
    schedule_nests(draft, STRATEGIES)
    schedule_rest(draft)
    fold_states(draft, machine.caches)
    persist_steps(draft)
    return AutoSchedule(draft.s, tuple(draft.decisions))
