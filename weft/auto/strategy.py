"""What a strategy is: a test whether it is meant for a stage, and steps, any of which may be refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from weft.auto.draft import Draft
from weft.auto.stages import Stage


class Strategy(NamedTuple):
    """``schedule(draft, name)`` schedules the nest of block ``name`` (and of blocks it takes along, which it adds to
    ``draft.scheduled``), or raises `ScheduleError`; then what it did is taken back."""

    name: str
    fits: Callable[[Draft, Stage], bool]
    schedule: Callable[[Draft, str], None]
