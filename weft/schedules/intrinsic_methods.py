"""The methods of `Schedule` for hardware intrinsics and explanations."""

from __future__ import annotations

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
