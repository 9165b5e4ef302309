"""The driver: fusion, then a strategy for every nest, the best that is not refused."""

from __future__ import annotations

from dataclasses import dataclass

from weft.auto.contraction import fits_contraction, schedule_contraction
from weft.auto.dots import fits_dots, schedule_dots
from weft.auto.draft import Draft
from weft.auto.fuse import fuse_stages
from weft.auto.lookups import fits_lookups, schedule_lookups
from weft.auto.moves import fits_moves, schedule_moves
from weft.auto.plan import Decision
from weft.auto.pointwise import schedule_pointwise
from weft.auto.pools import fits_pools, schedule_pools
from weft.auto.rows import fits_rows, schedule_rows
from weft.auto.strategy import Strategy, one_way, schedule_nests
from weft.auto.windows import fits_windows, schedule_windows
from weft.schedules.schedule import Schedule
from weft.target.cpu.host import Machine


@dataclass(frozen=True, slots=True)
class AutoSchedule:
    """An ordinary schedule, and how it came about."""

    schedule: Schedule
    decisions: tuple[Decision, ...]


#: Tried in this order on the nest of every block that no other strategy has scheduled.
STRATEGIES: tuple[Strategy[Draft], ...] = (
    one_way("nothing", lambda draft, stage: stage.is_empty, lambda draft, name: None),
    one_way("dots", fits_dots, schedule_dots),
    one_way("contraction", fits_contraction, schedule_contraction),
    one_way("pools", fits_pools, schedule_pools),
    one_way("rows", fits_rows, schedule_rows),
    one_way("lookups", fits_lookups, schedule_lookups),
    one_way("windows", fits_windows, schedule_windows),
    one_way("moves", fits_moves, schedule_moves),
    one_way("pointwise", lambda draft, stage: True, schedule_pointwise),
)


def auto_schedule(
    schedule: Schedule, machine: Machine, threads: int, constants: frozenset[str] = frozenset()
) -> AutoSchedule:
    """Schedules ``schedule``'s program for ``machine``; ``schedule`` itself is changed."""
    draft = Draft(schedule, machine, threads, constants)
    fuse_stages(draft)
    schedule_nests(draft, STRATEGIES)
    return AutoSchedule(draft.s, tuple(draft.decisions))
