"""What matrix instructions cost: products on their own units, operands read from shared memory once for a warp."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from weft.schedules.nests import Leaf, Nest
from weft.target.cuda.machine import WARP
from weft.target.cuda.rates import L1_BYTES, Rates

#: Products of one instruction of a warp.
PRODUCTS = 16 * 8 * 16


@dataclass(frozen=True, slots=True)
class MatrixWork:
    """Of one block: ``cycles`` of the units, of shared memory (``lsu``), instructions, and what a warp waits for."""

    cycles: float
    lsu: float
    issued: float
    chain: float


def matrix_work(leaf: Leaf, threads: Sequence[Nest], own: Sequence[Nest], rates: Rates) -> MatrixWork:
    name = leaf.intrinsic or ""
    grouped = name.startswith("wgmma")
    warps = prod(n.trips for n in threads) / WARP
    products = warps * WARP * prod(n.trips for n in own) * leaf.share
    rate = rates.wgmma * rates.wgmma_share if grouped else rates.mma * rates.mma_share / (2 if "tf32" in name else 1)
    read = _read_bytes(leaf, threads, own, grouped) * warps * leaf.share
    pieces = prod(n.trips for n in own if n.kind == "serial" and leaf.nests.index(n) < _first_thread(leaf))
    instructions = products / PRODUCTS
    issued = instructions / 16 if grouped else instructions + read / (L1_BYTES * 4)
    waits = pieces * (rates.barrier + rates.shared_latency + rates.mma_latency)
    return MatrixWork(products / rate, read / (L1_BYTES * rates.shared_share), issued, waits + products / rate)


def _read_bytes(leaf: Leaf, threads: Sequence[Nest], own: Sequence[Nest], grouped: bool) -> float:
    """What a warp reads of shared memory; of what all warps of a group need, a quarter."""
    lanes, total = _lanes(threads), 0.0
    for access in (a for a in leaf.accesses if a.buffer.scope == "shared"):
        count = prod(n.trips for n in (*own, *lanes) if access.moves_with(n.name))
        alike = grouped and not any(access.moves_with(n.name) for n in threads if n not in lanes)
        total += count * access.buffer.dtype.itemsize / (4 if alike else 1)
    return total


def _lanes(threads: Sequence[Nest]) -> list[Nest]:
    found: list[Nest] = []
    reach = 1.0
    for nest in reversed(threads):
        if reach >= WARP:
            break
        found.append(nest)
        reach *= nest.trips
    return found


def _first_thread(leaf: Leaf) -> int:
    return next((i for i, n in enumerate(leaf.nests) if n.kind == "thread"), len(leaf.nests))
