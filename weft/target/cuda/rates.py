"""How fast the parts of a multiprocessor are, by architecture: what the time model of schedules computes with.

Rates follow from data sheets (operations a second over multiprocessors and clock) and published microbenchmarks of each
generation; what was measured by ourselves says so. Sizes and clocks are the device's own (`machine.GpuMachine`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

#: Bytes a cycle between a multiprocessor's registers and its first cache or shared memory.
L1_BYTES = 128
#: Bytes that memory is moved by, and bytes of a line of a cache.
SECTOR, LINE = 32, 128
#: Instructions a cycle that a multiprocessor starts, one for each of its four schedulers.
ISSUE = 4
#: Bytes of shared memory that the system takes for each block.
RESERVED_SHARED = 1 << 10
#: Banks of shared memory, and bytes of one.
BANKS, BANK_BYTES = 32, 4


@dataclass(frozen=True, slots=True)
class Rates:
    """Of one multiprocessor and cycle unless it says otherwise: ``fma`` and ``special`` are lanes, ``mma`` (of 16-bit
    elements by one warp) and ``wgmma`` (by four) products added up; tf32 has half of that. From the second cache come
    ``l2_bytes`` for threads, and ``fetched_bytes`` by the copy engine."""

    fma: int
    mma: int
    wgmma: int = 0
    special: int = 16
    l2_bytes: float = 28.0
    fetched_bytes: float = 48.0
    #: Cycles until data come from shared memory, the second cache, memory that is idle, by the copy engine while it is
    #: busy; and how many more from memory that is busy all the time.
    shared_latency: int = 32
    l2_latency: int = 270
    memory_latency: int = 560
    fetch_latency: int = 1200
    queueing: int = 1400
    #: Cycles of a barrier of a block, of a matrix instruction until its sums are there, until the next block starts.
    barrier: int = 50
    mma_latency: int = 70
    block_start: int = 160
    #: The shares of nominal rates that the best programs reach for long: bandwidth of memory, multiplications of
    #: threads, matrix instructions of warps, of groups, and of groups whose operands the copy engine brings, bandwidth
    #: of shared memory.
    copy_share: float = 0.88
    fma_share: float = 0.68
    mma_share: float = 0.75
    wgmma_share: float = 0.55
    fetched_share: float = 0.66
    shared_share: float = 0.9
    #: Seconds between two launches of a graph that do nothing, and of a barrier of all blocks.
    launch: float = 1.6e-6
    grid_barrier: float = 0.85e-6


#: What was measured, on one H200 by `bench.gpu.model_rank`, and is taken for all others too.
MEASURED = frozenset(
    ("queueing", "block_start", "copy_share", "fma_share", "mma_share", "wgmma_share", "fetched_share", "shared_share")
) | {"launch", "grid_barrier", "fetched_bytes", "fetch_latency"}

_AMPERE = Rates(64, 1024, l2_bytes=28.0, l2_latency=210, memory_latency=520)
_SMALL = Rates(128, 512, l2_bytes=16.0, memory_latency=550)
_HOPPER = Rates(128, 1024, wgmma=2048)

#: By compute capability, from the one named up to the next.
_BY_CAPABILITY = {
    70: Rates(64, 512, l2_bytes=18.0, l2_latency=200, memory_latency=480),
    75: Rates(64, 512, l2_bytes=20.0, l2_latency=190, memory_latency=440),
    80: _AMPERE,
    86: _SMALL,
    90: _HOPPER,
    100: replace(_HOPPER, wgmma=0),
    120: replace(_SMALL, mma=256),
}


@cache
def rates_of(capability: int) -> Rates:
    """Those of the newest architecture that is not newer."""
    return _BY_CAPABILITY[max((c for c in _BY_CAPABILITY if c <= capability), default=70)]
