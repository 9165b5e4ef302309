"""The driver: fusion, then a strategy for every nest, the best that is not refused; then what is left."""

from __future__ import annotations

from weft.auto.gpu.columns import COLUMNS
from weft.auto.gpu.contraction import fits_contraction_gpu, schedule_contraction_gpu
from weft.auto.gpu.draft import GpuDraft
from weft.auto.gpu.fallback import schedule_rest
from weft.auto.gpu.fuse import fuse_stages
from weft.auto.gpu.points import POINTS
from weft.auto.gpu.rows import fits_rows, schedule_rows
from weft.auto.gpu.scatters import SCATTERS
from weft.auto.gpu.tiles import TILES
from weft.auto.scheduler import AutoSchedule
from weft.auto.strategy import Strategy, one_way, schedule_nests
from weft.schedules.schedule import Schedule
from weft.target.cuda.machine import GpuMachine

#: Tried in this order on the nest of every block that no other strategy has scheduled.
STRATEGIES: tuple[Strategy[GpuDraft], ...] = (
    SCATTERS,
    one_way("contraction", fits_contraction_gpu, schedule_contraction_gpu),
    one_way("rows", fits_rows, schedule_rows),
    COLUMNS,
    TILES,
    POINTS,
)


def auto_schedule_gpu(schedule: Schedule, machine: GpuMachine, constants: frozenset[str] = frozenset()) -> AutoSchedule:
    """Schedules ``schedule``'s program for ``machine``; ``schedule`` itself is changed."""
    draft = GpuDraft(schedule, machine, constants)
    fuse_stages(draft)
    schedule_nests(draft, STRATEGIES)
    schedule_rest(draft)
    return AutoSchedule(draft.s, tuple(draft.decisions))
