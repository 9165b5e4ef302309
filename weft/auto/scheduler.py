"""The driver: fusion, then a strategy for every nest, the best that is not refused."""

from __future__ import annotations

from weft.auto.draft import Draft
from weft.auto.driver import AutoSchedule, Step, drive
from weft.auto.fuse import fuse_stages
from weft.auto.lookups import fits_lookups, schedule_lookups
from weft.auto.moves import fits_moves, schedule_moves
from weft.auto.plan import Ranker, rank_plans
from weft.auto.pointwise import schedule_pointwise
from weft.auto.recurrence import fold_states
from weft.auto.reduction import REDUCTION
from weft.auto.strategy import NOTHING, Strategy, one_way, schedule_nests
from weft.auto.strided_sums import stride_sums
from weft.auto.to_and_fro import turn_loops
from weft.auto.windows import fits_windows, schedule_windows
from weft.schedules.schedule import Schedule
from weft.target.cpu.host import Machine

#: Tried in this order on the nest of every block that no other strategy has scheduled.
STRATEGIES: tuple[Strategy[Draft], ...] = (
    NOTHING,
    REDUCTION,
    one_way("lookups", fits_lookups, schedule_lookups),
    one_way("windows", fits_windows, schedule_windows),
    one_way("moves", fits_moves, schedule_moves),
    one_way("pointwise", lambda draft, stage: True, schedule_pointwise),
)


def schedule_stages(draft: Draft) -> None:
    """Every nest by the first of `STRATEGIES` that takes it."""
    schedule_nests(draft, STRATEGIES)


def fold_buffers(draft: Draft) -> None:
    """Temporaries of recurrences as rings of what is read again."""
    fold_states(draft, draft.machine.caches)


STEPS: tuple[Step, ...] = (
    Step(stride_sums),
    Step(fuse_stages),
    Step(schedule_stages, simplest=True),
    Step(fold_buffers),
    Step(turn_loops),
)


def auto_schedule(
    schedule: Schedule,
    machine: Machine,
    threads: int,
    constants: frozenset[str] = frozenset(),
    rank: Ranker = rank_plans,
) -> AutoSchedule:
    """Schedules ``schedule``'s program for ``machine``; ``schedule`` itself is changed.

    ``rank`` orders plans: by the time model, unless a bench or a tuner has another opinion.
    """

    def start(s: Schedule) -> Draft:
        draft = Draft(s, machine, threads, constants)
        draft.rank = rank
        return draft

    return drive(schedule, start, STEPS)
