"""What the polyhedral mode asks about the blocks of the program as it was written: accesses, extents, ranks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from weft.auto.stages import UNKNOWN_EXTENT
from weft.ir.buffer import Buffer
from weft.ir.expr import Const
from weft.ir.interval import loop_range
from weft.ir.stmt import Kernel
from weft.poly.domain import Touch, touch_of
from weft.poly.leaves import leaves
from weft.schedules.find import find_loop, ranges_at


@dataclass(frozen=True, slots=True)
class Facts:
    """By block: its loops with their extents, and its accesses."""

    extents: Mapping[str, Mapping[str, int]]
    accesses: Mapping[str, tuple[Touch, ...]]

    def of(self, blocks: Iterable[str]) -> list[Touch]:
        return [a for b in blocks for a in self.accesses[b]]


def read_facts(kernel: Kernel) -> Facts:
    """The facts about every block of ``kernel``."""
    extents: dict[str, dict[str, int]] = {}
    accesses: dict[str, tuple[Touch, ...]] = {}
    for leaf in leaves(kernel):
        if leaf.block is None:
            continue
        found = (touch_of(leaf, access) for access in leaf.accesses)
        accesses[leaf.block] = (*accesses.get(leaf.block, ()), *found)
        extents[leaf.block] = {name: _extent(kernel, name) for name in leaf.loop_names}
    return Facts(extents, accesses)


def _extent(kernel: Kernel, loop: str) -> int:
    loop_node = find_loop(kernel, loop)
    span = loop_range(loop_node, ranges_at(kernel, loop_node))
    return UNKNOWN_EXTENT if span.lo is None or span.hi is None else max(1, span.hi - span.lo + 1)


def buffer_shape(buffer: Buffer) -> list[int]:
    return [int(e.value) if isinstance(e, Const) else UNKNOWN_EXTENT for e in buffer.shape]
