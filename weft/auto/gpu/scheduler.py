"""The driver: fusion, then a strategy for every nest, the best that is not refused; then what is left."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from weft.auto.block_factors import group_factors
from weft.auto.driver import AutoSchedule, Step, drive
from weft.auto.gpu.block_sums import take_blocks
from weft.auto.gpu.chained_products import take_pairs
from weft.auto.gpu.columns import COLUMNS
from weft.auto.gpu.contraction import CONTRACTION, take_prologues
from weft.auto.gpu.dots import DOTS
from weft.auto.gpu.draft import GpuDraft
from weft.auto.gpu.fallback import schedule_rest
from weft.auto.gpu.fits import find_misfit
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
from weft.auto.strategy import NOTHING, Strategy, schedule_nests
from weft.auto.strided_sums import stride_sums
from weft.schedules.schedule import Schedule
from weft.target.cuda.machine import GpuMachine

#: Times of the model that are closer than this are taken for the same on a GPU.
SAME_TIME = 1.1

#: Tried in this order on the nest of every block that no other strategy has scheduled.
STRATEGIES: tuple[Strategy[GpuDraft], ...] = (
    NOTHING,
    SCATTERS,
    DOTS,
    CONTRACTION,
    ROWS,
    COLUMNS,
    WINDOWS,
    TILES,
    POINTS,
)


def schedule_stages(draft: GpuDraft) -> None:
    """Every nest by the first of `STRATEGIES` that takes it."""
    schedule_nests(draft, STRATEGIES)


def fold_buffers(draft: GpuDraft) -> None:
    """Temporaries of recurrences as rings of what is read again."""
    fold_states(draft, draft.machine.caches)


STEPS: tuple[Step, ...] = (
    *map(Step, (take_online, split_shared_axes, take_scores, narrow_factors, take_blocks, group_factors)),
    *map(Step, (fuse_stages, stride_sums, merge_product_axes, unfold_sums, take_scans, take_pairs, take_prologues)),
    Step(schedule_stages, simplest=True),
    Step(schedule_rest, simplest=True),
    *map(Step, (fold_buffers, persist_steps)),
)


def rank_gpu_plans(subject: str, plans: Sequence[Any], seconds: Callable[[Any], float] | None) -> list[Any]:
    """By the model, which is some tenth off: nearer than that, the usual plan is better."""
    return rank_plans(subject, plans, seconds, SAME_TIME)


def auto_schedule_gpu(
    schedule: Schedule, machine: GpuMachine, constants: frozenset[str] = frozenset(), rank: Ranker = rank_gpu_plans
) -> AutoSchedule:
    """Schedules ``schedule``'s program for ``machine``; ``schedule`` itself is changed. Plans are ``rank``'s choice."""

    def start(s: Schedule) -> GpuDraft:
        draft = GpuDraft(s, machine, constants)
        draft.rank = rank
        return draft

    return drive(schedule, start, STEPS, find_misfit)
