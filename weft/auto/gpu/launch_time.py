"""How long one launch takes: what its blocks ask of a multiprocessor and of memory, against what these can do.

Blocks run side by side on a multiprocessor as far as threads, registers and shared memory reach (occupancy), the others
after them. What all of them ask of a unit takes that unit some time; what one block has to wait for, one thing after
the other, takes it at least so long, however idle the units are. These overlap, so the longest counts most.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil

from weft.target.cuda.launch_bounds import resident_blocks
from weft.target.cuda.machine import WARP, GpuMachine
from weft.target.cuda.rates import ISSUE, Rates, rates_of

#: How much of the shorter times hides behind the longest: times are added as if raised to this power.
OVERLAP = 4.0


@dataclass(frozen=True, slots=True)
class LaunchWork:
    """``blocks`` of so many ``threads``, each with ``registers``, and ``shared`` bytes of a block.

    ``dram`` and ``l2`` are bytes that the whole launch moves from and to memory and the second cache. Of one block:
    ``issued`` instructions of warps, cycles of its loads and stores (``lsu``), of special functions and of matrix
    instructions, the ``chain`` of cycles that it takes at least, and besides how often it waits for memory (``trips``).
    """

    blocks: float
    threads: int
    registers: int
    shared: int
    dram: float
    l2: float
    issued: float
    lsu: float
    special: float = 0.0
    matrix: float = 0.0
    chain: float = 0.0
    trips: float = 0.0


@dataclass(frozen=True, slots=True)
class LaunchTime:
    """``seconds``, the ``parts`` it comes from, and how many blocks a multiprocessor has at a time (``resident``)."""

    seconds: float
    parts: Mapping[str, float]
    resident: int

    @property
    def bound(self) -> str:
        return max(self.parts, key=lambda name: self.parts[name])


def launch_time(work: LaunchWork, machine: GpuMachine) -> LaunchTime:
    """What ``work`` takes on ``machine``."""
    rates = rates_of(machine.capability)
    resident = max(1, resident_blocks(machine, work.threads, work.registers, work.shared))
    blocks = max(1.0, work.blocks)
    most = ceil(blocks / machine.sms)  # blocks of the multiprocessor that has most
    rounds = max(1.0, most / resident) if most > 4 * resident else ceil(most / resident)
    cycles = {
        "instructions": most * work.issued * max(1.0 / ISSUE, WARP / (2 * rates.fma)) / rates.fma_share,
        "loads and stores": most * work.lsu,
        "special functions": most * work.special * WARP / rates.special,
        "matrix instructions": most * work.matrix,
        "starting blocks": most * rates.block_start,
        "latency": 1.0 + rounds * (work.chain + work.trips * rates.memory_latency),
        "second cache": work.l2 / (rates.l2_bytes * min(machine.sms, blocks)),
    }
    parts = {name: count / machine.clock for name, count in cycles.items() if count}
    parts["memory"] = work.dram / (machine.bandwidth * rates.copy_share)
    busy = min(1.0, parts["memory"] / max(parts.values()))
    parts["latency"] += busy * rounds * work.trips * rates.queueing / machine.clock
    together = sum(p**OVERLAP for p in parts.values()) ** (1 / OVERLAP)
    return LaunchTime(rates.launch + together, parts, resident)


def combination_cycles(rates: Rates, threads: int) -> float:
    """What a block waits for when ``threads`` combine their results: shuffles, then one element of each warp."""
    warps, steps = ceil(threads / WARP), min(threads, WARP).bit_length() - 1
    shuffles = steps * rates.shared_latency
    if warps == 1:
        return float(shuffles)
    return shuffles + 2 * rates.barrier + 2 * rates.shared_latency + warps * SHUFFLED / ISSUE


#: Instructions of a warp that combines results.
SHUFFLED = 36
