"""The work of a launch from what a plan says, before anything is scheduled: what each thread reads and writes, how
wide, and how far from its neighbour.

`estimate` finds the same out of a program that is scheduled; both are priced by `launch_time`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil

from weft.auto.gpu.launch_time import LaunchWork, launch_time
from weft.auto.stages import Stage, StageAccess, buffer_bytes
from weft.target.cuda.machine import WARP, GpuMachine
from weft.target.cuda.rates import L1_BYTES, LINE, SECTOR

#: Instructions for each access: it, and a part of its address.
ACCESS = 1.5
#: Registers of a thread for addresses and counters.
BASE_REGISTERS = 24
#: Cycles of a warp from one instruction to the next that needs its result, where several are under way.
DEPENDENT = 2.5
#: The part of operations that are special functions (roots, powers of two), about.
SPECIAL = 0.1


@dataclass(frozen=True, slots=True)
class Stream:
    """A thread makes ``count`` accesses of ``width`` bytes; its neighbour's begin ``step`` bytes further on (None:
    anywhere), of ``beside`` threads that are side by side, from a multiple of ``aligned`` bytes on. All threads
    together touch ``whole`` bytes of memory; ``turns`` is how many accesses, or groups of them, wait for others."""

    count: float
    width: int
    step: int | None
    whole: float
    is_store: bool = False
    turns: float = 1.0
    beside: int = WARP
    aligned: int = LINE

    @property
    def sectors(self) -> float:
        """What an access of a warp touches."""
        if self.step is None or self.step >= SECTOR + self.width:
            return WARP * ceil(self.width / SECTOR)
        return self._groups * self._touched(SECTOR)

    @property
    def cycles(self) -> float:
        """What an access of a warp takes on the way to the first cache."""
        if self.step is None or self.step >= LINE:
            return WARP
        return max(self._groups * self._touched(LINE), WARP * self.width / L1_BYTES)

    @property
    def _groups(self) -> float:
        return max(1.0, WARP / self.beside)

    def _touched(self, unit: int) -> float:
        """Sectors or lines of what threads side by side access, which may begin within one, and end within another."""
        run = (min(WARP, self.beside) - 1) * (self.step or 0) + self.width
        return ceil(run / unit) if self.aligned % unit == 0 else run / unit + 1


@dataclass(frozen=True, slots=True)
class Grid:
    """Blocks of threads with ``registers`` and ``shared`` bytes; a thread does ``operations``, a block waits ``chain``
    cycles for more than memory; ``extra`` are cycles of its loads and stores besides streams."""

    blocks: float
    threads: int
    operations: float
    registers: float = 0.0
    shared: int = 0
    chain: float = 0.0
    extra: float = 0.0


def streams_seconds(machine: GpuMachine, grid: Grid, streams: Iterable[Stream]) -> float:
    """What a launch takes that is nothing but streams and operations on them."""
    warps = ceil(grid.threads / WARP)
    found = list(streams)
    accesses = sum(s.count for s in found)
    reads = [s for s in found if not s.is_store]
    issued = warps * (ACCESS * accesses + grid.operations)
    l2 = sum(min(grid.blocks * warps * s.count * s.sectors * SECTOR, _most_l2(machine, s, grid)) for s in found)
    work = LaunchWork(
        blocks=grid.blocks,
        threads=grid.threads,
        registers=round(BASE_REGISTERS + grid.registers),
        shared=grid.shared,
        dram=sum(s.whole for s in found),
        l2=l2,
        issued=issued,
        lsu=warps * sum(s.count * s.cycles for s in found) + grid.extra,
        special=warps * SPECIAL * grid.operations,
        chain=grid.chain + DEPENDENT * (grid.operations + accesses),
        trips=max((s.turns for s in reads), default=0.0),
    )
    return launch_time(work, machine).seconds


def _most_l2(machine: GpuMachine, stream: Stream, grid: Grid) -> float:
    """What every block reads alike, and little of it, each multiprocessor fetches once."""
    small = not stream.is_store and stream.whole <= 1 << 15
    return stream.whole * machine.sms if small else float("inf")


def stream_of(stage: Stage, access: StageAccess, along: str | None, lanes: int, times: float, turns: float) -> Stream:
    """``access`` by threads that have ``lanes`` results side by side along iterator ``along``, ``times`` over."""
    item = access.buffer.dtype.itemsize
    whole = float(buffer_bytes(access.buffer))
    step = access.stride(along) if along is not None and access.is_affine else None
    if step == 1:
        return Stream(times, lanes * item, lanes * item, whole, access.is_write, turns)
    if step == 0:
        return Stream(times, item, 0, whole, access.is_write, turns)
    apart = None if step is None else abs(step) * lanes * item
    return Stream(times * lanes, item, apart, whole, access.is_write, turns)
