"""The methods of `Schedule` for data movement and reductions."""

from __future__ import annotations

from weft.schedules.state import ScheduleState


class DataMethods(ScheduleState):
    """Primitives for data movement and reductions."""
