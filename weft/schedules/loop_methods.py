"""The methods of `Schedule` that change loops."""

from __future__ import annotations

from weft.schedules.handles import AnyLoop, Loop
from weft.schedules.split import Tail, check_split, split
from weft.schedules.state import ScheduleState


class LoopMethods(ScheduleState):
    """Primitives on loops; each returns the loops it made."""

    def split(self, loop: AnyLoop, factor: int, tail: Tail = "guard") -> tuple[Loop, Loop]:
        """``loop`` as an outer loop over tiles of ``factor`` iterations and an inner one through each.

        ``tail``: ``"guard"`` tests every iteration, ``"separate"`` makes a third loop ``m_t`` for the
        rest, ``"pad"`` is refused unless the tiles come out even.
        """
        outer, inner, *_ = self.run(check_split, split, self.name(loop), factor, tail=tail)
        return self.handle(Loop, outer), self.handle(Loop, inner)
