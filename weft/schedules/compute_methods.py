"""The methods of `Schedule` for moving computation."""

from __future__ import annotations

from weft.schedules.state import ScheduleState


class ComputeMethods(ScheduleState):
    """Primitives for moving computation."""
