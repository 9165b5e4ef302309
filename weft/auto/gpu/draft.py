"""An automatic schedule for a GPU under way, and the figures of the machine that strategies ask for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from math import prod

from weft.auto.draft import AnyDraft
from weft.auto.stages import StageAccess
from weft.ir.errors import ScheduleError
from weft.ir.expr import Const
from weft.schedules.find import find_buffer
from weft.schedules.schedule import Schedule
from weft.target.cuda.machine import WARP, GpuMachine

#: Bytes of the widest access of one thread to memory.
WIDEST = 16
#: Threads of a block, unless there is a reason for more or fewer: blocks start and end often enough to fill gaps.
THREADS = 256
#: Seconds from asking memory for something to having it, when memory is busy.
LATENCY = 1.5e-6


class GpuDraft(AnyDraft):
    """A schedule, the GPU it is for, and the decisions so far."""

    def __init__(self, schedule: Schedule, machine: GpuMachine, constants: frozenset[str] = frozenset()) -> None:
        super().__init__(schedule, constants)
        self.machine = machine
        #: Operands that are formulas of others, to be written into what copies them, and bytes of these side by side.
        self.gathered: dict[str, int] = {}

    @property
    def bytes_in_flight(self) -> int:
        """What each multiprocessor must have asked for at any time, so that memory is never idle (Little's law)."""
        return round(self.machine.bandwidth * LATENCY / self.machine.sms)

    def fills(self, blocks: int) -> bool:
        """Whether there are blocks enough for every multiprocessor to have several."""
        return blocks >= 2 * self.machine.sms

    def check_size(self, storage: str, most: int) -> None:
        """A copy must not be of more than is used: of regions that are no boxes, boxes around them would be copied."""
        shape = find_buffer(self.s.kernel, storage).shape
        if prod(int(e.value) if isinstance(e, Const) else most + 1 for e in shape) > most:
            raise ScheduleError(f"`{storage}` would hold more than is used")

    def check_registers(self, storage: str) -> None:
        """What a thread keeps must fit its registers: of a result written through sums of iterators it is all of it."""
        buffer = find_buffer(self.s.kernel, storage)
        words = max(1, buffer.dtype.itemsize // 4)
        self.check_size(storage, self.machine.max_registers_per_thread // words)

    def fold(self, storage: str, sizes: Sequence[tuple[int, int]]) -> None:
        """Dimensions of ``storage`` in rings of these sizes, in one step."""
        if sizes:
            self.s.fold_storage(storage, *sizes[0], *chain.from_iterable(sizes[1:]))


def lanes_for(accesses: Iterable[StageAccess]) -> int:
    """Elements in 16 bytes of the widest type: neighbouring threads then touch memory without gaps at every access."""
    return max(1, WIDEST // max((a.buffer.dtype.itemsize for a in accesses), default=WIDEST))


def whole_warps(threads: int) -> int:
    """``threads`` rounded up to warps; one for none, which is what a nest over nothing needs."""
    return max(1, -(-threads // WARP)) * WARP
