"""What one access of a warp costs: sectors of memory it touches, or how often threads meet in a bank of shared memory.

The addresses of the 32 threads are worked out from the subscripts; all other loops stand still.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd

from weft.auto.gpu.draft import WIDEST
from weft.schedules.nests import Access, Nest
from weft.target.cuda.machine import WARP
from weft.target.cuda.rates import BANK_BYTES, BANKS, L1_BYTES, LINE, SECTOR


@dataclass(frozen=True, slots=True)
class WarpAccess:
    """``count`` instructions for all lanes of a vector loop, ``sectors`` of memory that all of them touch together, and
    ``cycles`` of the load and store path."""

    count: float
    sectors: float
    cycles: float


def warp_access(access: Access, threads: Sequence[Nest], vector: Nest | None) -> WarpAccess:
    """``access`` by the first warp over loops ``threads``, outermost first, with the lanes of loop ``vector``."""
    item = access.buffer.dtype.itemsize
    lanes = int(vector.trips) if vector is not None else 1
    step = access.step(vector.name, lanes) if vector is not None else 0
    if any(f.scattered & {t.name for t in threads} for f in access.forms):
        width = item * (lanes if step == 1 else 1)
        count = max(1.0, width / WIDEST) * (lanes if step not in (0, 1) else 1)
        return WarpAccess(count, WARP * max(1.0, width / SECTOR), WARP * count)
    addresses = _addresses(access, threads, item)
    if step == 1:
        width = gcd(lanes * item, WIDEST)
        return _cost(access, addresses, width, lanes * item // width)
    return _cost(access, addresses, item, lanes if step != 0 else 1)


def _addresses(access: Access, threads: Sequence[Nest], item: int) -> list[int]:
    """The byte each thread of the first warp starts at."""
    terms = [
        (term, times * stride * item)
        for form, stride in zip(access.forms, access.strides)
        for term, times in form.coefficients.items()
    ]
    loops: list[tuple[int, list[tuple[int, int, int]]]] = []
    reach = 1
    for nest in reversed(threads):
        own = [(t.divisor, t.modulus, c) for t, c in terms if t.variable == nest.name]
        loops.append((max(1, int(nest.trips)), own))
        reach *= max(1, int(nest.trips))
        if reach >= WARP:
            break
    found = []
    for lane in range(min(WARP, reach)):
        address, rest = 0, lane
        for trips, own in loops:
            value, rest = rest % trips, rest // trips
            for divisor, modulus, times in own:
                digit = value // divisor
                address += times * (digit % modulus if modulus else digit)
        found.append(address)
    return found


def _cost(access: Access, addresses: list[int], width: int, count: int) -> WarpAccess:
    """``count`` accesses of ``width`` bytes each, which lie in the same sectors."""
    if access.buffer.scope == "shared":
        return WarpAccess(count, 0.0, count * _bank_cycles(addresses, width))
    touched = {a // SECTOR for a in addresses} | {(a + width - 1) // SECTOR for a in addresses}
    lines = {s * SECTOR // LINE for s in touched}
    return WarpAccess(count, len(touched), count * max(len(lines), len(addresses) * width / L1_BYTES))


def _bank_cycles(addresses: list[int], width: int) -> float:
    """Cycles of one access to shared memory: other words of one bank come one after another, the same word once."""
    banks: dict[int, set[int]] = {}
    for address in addresses:
        first = address // BANK_BYTES
        for word in range(first, first + max(1, width // BANK_BYTES)):
            banks.setdefault(word % BANKS, set()).add(word)
    return float(max(map(len, banks.values())))
