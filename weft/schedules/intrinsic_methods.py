"""The methods of `Schedule` for hardware intrinsics and explanations."""

from __future__ import annotations

from weft.schedules.state import ScheduleState


class IntrinsicMethods(ScheduleState):
    """Primitives for hardware intrinsics and explanations."""
