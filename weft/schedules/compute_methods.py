"""The methods of `Schedule` for moving computation."""

from __future__ import annotations

from weft.schedules.compute_at import check_compute_at, compute_at
from weft.schedules.compute_root import check_compute_root, compute_root
from weft.schedules.handles import AnyBlock, AnyLoop
from weft.schedules.state import ScheduleState


class ComputeMethods(ScheduleState):
    """Primitives for moving computation."""

    def compute_at(self, block: AnyBlock, loop: AnyLoop) -> None:
        """What ``block`` computes, computed in each iteration of ``loop``: as much as the iteration reads.

        ``block`` writes a temporary whose readers are all inside ``loop``; its new loops are ``s.loops(block)``.
        """
        self.run(check_compute_at, compute_at, self.name(block), self.name(loop))

    def compute_root(self, block: AnyBlock) -> None:
        """What ``block`` computes, computed once in full before its first reader."""
        self.run(check_compute_root, compute_root, self.name(block))
