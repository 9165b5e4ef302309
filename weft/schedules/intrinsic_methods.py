"""The methods of `Schedule` for hardware intrinsics and explanations."""

from __future__ import annotations

from weft.schedules.explain import explain
from weft.schedules.handles import AnyLoop
from weft.schedules.state import ScheduleState
from weft.schedules.tensorize import check_tensorize, tensorize


class IntrinsicMethods(ScheduleState):
    """Primitives for hardware intrinsics and explanations."""

    def tensorize(self, loop: AnyLoop, intrinsic: str) -> None:
        """The nest of ``loop`` becomes the hardware intrinsic of that name (see `weft.intrinsic`).

        It must do what the intrinsic means, down to the order of operations; machines without the
        instruction run the loops. To be done last: the loops are not to change any more.
        """
        self.run(check_tensorize, tensorize, self.name(loop), intrinsic)

    def explain(self, **sizes: int) -> str:
        """A table of the loops: how often and how they run, what they touch, what moves between the caches.

        ``sizes`` stand in for symbolic ones. Estimates for one core; see `weft.schedules.explain`.
        """
        caches = None if self.machine is None else self.machine.caches
        return explain(self.kernel, sizes, caches, 16 if self.machine is None else self.machine.lanes(32))
