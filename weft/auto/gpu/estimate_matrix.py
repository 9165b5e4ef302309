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
    grouped = (leaf.intrinsic or "").startswith("wgmma")
    count = prod(n.trips for n in threads)
    products = count * prod(n.trips for n in own) * leaf.share
    narrow = 2 if "tf32" in (leaf.intrinsic or "") else 1
    rate = rates.wgmma * rates.wgmma_share if grouped else rates.mma * rates.mma_share / narrow
    lanes = _lanes(threads)
    warps = count / WARP
    read = 0.0
    for access in leaf.accesses:
        if access.buffer.scope == "shared":
            inside = [n for n in (*own, *lanes) if access.moves_with(n.name)]
            shares = (
                warps / 4
                if grouped and not any(access.moves_with(n.name) for n in threads if n not in lanes)
                else warps
            )
            read += prod(n.trips for n in inside) * access.buffer.dtype.itemsize * shares * leaf.share
    pieces = prod(n.trips for n in own if n.kind == "serial" and leaf.nests.index(n) < _first_thread(leaf))
    instructions = products / PRODUCTS
    issued = instructions / 16 if grouped else instructions + read / (L1_BYTES * 4)
    waits = pieces * (rates.barrier + rates.shared_latency + 2 * rates.mma_latency)
    return MatrixWork(
        products / rate, read / (L1_BYTES * rates.shared_share), issued, waits + products / warps * 4 / rate
    )


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
