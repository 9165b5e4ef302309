"""Schedules that were just made: who does their steps again on the same program gets the outcome.

A schedule is made by hand or found step by step, then built, and a first call replays it for its signature, which
as a rule is the very one it was made for. Every step was checked on an equal program a moment ago.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from weft.schedules.trace import Trace

if TYPE_CHECKING:
    from weft.schedules.state import ScheduleState

_finished: deque[ScheduleState] = deque(maxlen=8)


def remember_finished(schedule: ScheduleState) -> None:
    """``schedule``, as it is now, need not be checked again on the program it started from."""
    _finished.append(schedule.copy())


def forget_finished() -> None:
    """Every schedule is checked anew, as in a new process."""
    _finished.clear()


def find_finished(schedule: ScheduleState, trace: Trace) -> ScheduleState | None:
    """What becomes of ``schedule``, which has no steps yet, by those of ``trace``, where that is known."""
    for finished in tuple(_finished):
        if (
            finished.trace == trace
            and finished.numerics == schedule.numerics
            and finished.sizes == schedule.sizes
            and finished.machine == schedule.machine
            and finished.start == schedule.kernel
        ):
            return finished
    return None
