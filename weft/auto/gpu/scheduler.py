"""The driver: fusion, then a strategy for every nest, the best that is not refused; then what is left."""

from __future__ import annotations

from weft.auto.gpu.columns import fits_columns, schedule_columns
from weft.auto.gpu.contraction import fits_contraction_gpu, schedule_contraction_gpu
from weft.auto.gpu.draft import GpuDraft
from weft.auto.gpu.fallback import schedule_rest
from weft.auto.gpu.fuse import fuse_stages
from weft.auto.gpu.points import schedule_points
from weft.auto.gpu.rows import fits_rows, schedule_rows
from weft.auto.gpu.scatters import fits_scatters, schedule_scatters
from weft.auto.gpu.tiles import fits_tiles, schedule_tiles
from weft.auto.scheduler import AutoSchedule
from weft.auto.strategy import Strategy, one_way, schedule_nests
from weft.schedules.schedule import Schedule
from weft.target.cuda.machine import GpuMachine

#: Tried in this order on the nest of every block that no other strategy has scheduled.
STRATEGIES: tuple[Strategy[GpuDraft], ...] = (
    one_way("scatters", fits_scatters, schedule_scatters),
    one_way("contraction", fits_contraction_gpu, schedule_contraction_gpu),
    one_way("rows", fits_rows, schedule_rows),
    one_way("columns", fits_columns, schedule_columns),
    one_way("tiles", fits_tiles, schedule_tiles),
    one_way("points", lambda draft, stage: True, schedule_points),
)


def auto_schedule_gpu(schedule: Schedule, machine: GpuMachine, constants: frozenset[str] = frozenset()) -> AutoSchedule:
    """Schedules ``schedule``'s program for ``machine``; ``schedule`` itself is changed."""
    draft = GpuDraft(schedule, machine, constants)
    fuse_stages(draft)
    schedule_nests(draft, STRATEGIES)
    schedule_rest(draft)
    return AutoSchedule(draft.s, tuple(draft.decisions))
