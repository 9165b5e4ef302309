"""How many lanes a vector loop gets: whole registers of its widest data, several where that hides latency."""

from __future__ import annotations

from typing import Protocol

from weft.ir.dtype import index
from weft.ir.expr import Binary, Call, Cast, Const, Load
from weft.ir.intrinsics import INTRINSICS
from weft.ir.stmt import Assert, Atomic, For, Let, Store
from weft.ir.visit import Node, walk
from weft.passes.analysis.check_vector import infer_step, infer_varying
from weft.passes.analysis.loop_ranges import constant_extent, extent_range

#: Registers' worth of lanes per step: chains of dependent operations overlap when there are several.
PLAIN, CALLS, REDUCTION, MOST = 2, 2, 4, 8
#: Lanes whose data lie apart, one cache line each: more of them than a cache set has ways evict each other.
GATHER_LANES = 4
#: Intrinsics of a few instructions each.
SIMPLE_CALLS = frozenset(name for name, intrinsic in INTRINSICS.items() if intrinsic.flops <= 2)


class VectorMachine(Protocol):
    """What is asked of a machine."""

    @property
    def has_masks(self) -> bool: ...

    def lanes(self, bits: int) -> int: ...


def choose_lanes(loop: For, scheduled: bool, *, machine: VectorMachine) -> int:
    """A power of two, no more than the loop needs; 1 to run the loop as it is.

    In a ``scheduled`` program a loop's constant extent was chosen on purpose and is kept; all loops through registers
    cut them up in the same way.
    """
    extent = constant_extent(loop)
    accesses = (n for n in walk(loop.body) if isinstance(n, (Load, Store)))
    on_purpose = extent is not None and (scheduled or any(n.buffer.scope == "register" for n in accesses))
    lanes = machine.lanes(data_bits(loop)) * (MOST if on_purpose else _registers(loop))
    if not on_purpose and _gathers_in_loops(loop):
        lanes = min(lanes, GATHER_LANES)
    if extent is None:
        most = extent_range(loop, {}).hi
        return lanes if most is None else min(lanes, 1 << max(0, most - 1).bit_length())
    if extent < 2:
        return 1
    even, whole = extent & -extent, machine.lanes(data_bits(loop))
    if on_purpose and whole <= even < extent:
        return min(lanes, even)  # three registers, say: whole ones, no masks
    if on_purpose and whole < extent and even != extent:
        return whole  # four registers and a half, say: no mask but for the last one
    enough = 1 << (extent - 1).bit_length()
    if not machine.has_masks and enough > extent:
        enough //= 2
    return max(1, min(lanes, enough))


def data_bits(loop: For) -> int:
    """Bits of the widest element the loop's body computes with; subscripts count only where they take divisions."""
    widest = 8
    for n in walk(loop.body):
        if isinstance(n, Assert) or _divides_indices(n):
            widest = max(widest, index.bits)
        elif isinstance(n, (Load, Store, Atomic)):
            dtype = n.buffer.dtype
            widest = max(widest, 32 if dtype.is_narrow_float else dtype.bits)
        elif isinstance(n, (Let, Call, Cast)):
            dtype = n.var.dtype if isinstance(n, Let) else n.dtype
            if isinstance(n, Cast) and dtype == index:
                continue
            widest = max(widest, 32 if dtype.is_narrow_float else dtype.bits)
    return widest


def _divides_indices(n: Node) -> bool:
    """Whether ``n`` takes a division of subscripts that is one instruction for each lane."""
    return isinstance(n, Binary) and n.op in ("//", "%") and n.dtype == index and not isinstance(n.right, Const)


def _registers(loop: For) -> int:
    nodes = list(walk(loop.body))
    if any(isinstance(n, Call) and n.name not in SIMPLE_CALLS for n in nodes):
        return CALLS
    return REDUCTION if any(isinstance(n, For) for n in nodes) or _accumulates(loop) else PLAIN


def _accumulates(loop: For) -> bool:
    """Whether all iterations update one element: each waits for the last, unless there are several sums."""
    store = loop.body
    if not isinstance(store, Store) or any(n == loop.var for i in store.indices for n in walk(i)):
        return False
    return any(isinstance(n, Load) and n.buffer.name == store.buffer.name for n in walk(store.value))


def _gathers_in_loops(loop: For) -> bool:
    """Whether loops inside walk along data of each lane that lie apart."""
    varying = infer_varying(loop)
    inside = (n for inner in walk(loop.body) if isinstance(inner, For) for n in walk(inner.body))
    steps = (infer_step(n.buffer, n.indices, loop.var.name, varying) for n in inside if isinstance(n, Load))
    return any(step not in (0, 1, -1) for step in steps)
