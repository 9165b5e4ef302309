"""Recurrences: loops whose iterations are the steps of several nests, one after another.

The steps stay in order and outermost; the nests of a step are scheduled as if each were a program of its own, with
threads, packing and what follows a product joined to its tiles. What does not change from step to step (packed weights)
is made once, before them; what only the next few steps read is kept for so many.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from weft.auto.stages import buffer_bytes
from weft.ir.expr import Const
from weft.ir.nesting import inner_statements, statements_in_turn
from weft.ir.stmt import Block, For, Kernel, Stmt
from weft.ir.visit import mentions
from weft.schedules.find import all_allocs
from weft.schedules.fold_storage import live_widths

if TYPE_CHECKING:
    from weft.auto.draft import AnyDraft

#: Temporaries of less than the first cache over this are not worth a ring.
WORTH_FOLDING = 4


def find_steps(kernel: Kernel) -> frozenset[str]:
    """The loops around several nests of a program that nobody has fused anything in yet."""
    found: set[str] = set()

    def count(s: Stmt) -> int:
        blocks = 1 if isinstance(s, Block) else sum(map(count, inner_statements(s)))
        if isinstance(s, For) and s.kind == "serial" and blocks > 1:
            found.add(s.var.name)
        return blocks

    count(kernel.body)
    return frozenset(found)


def fold_states(draft: AnyDraft, caches: Mapping[str, int]) -> None:
    """Temporaries of which steps read the last few slices alone are kept as a ring of these, where that saves much."""
    worth = next(iter(caches.values())) // WORTH_FOLDING
    for alloc in all_allocs(draft.s.kernel):
        buffer = alloc.buffer
        loops = [s for s in statements_in_turn(alloc.body) if isinstance(s, For) and _goes_on(s, buffer.name)]
        if buffer_bytes(buffer) <= worth or not loops:
            continue
        least = 1 if any(loop.var.name in draft.steps for loop in loops) else 2  # else nothing is handed on
        widths = live_widths(draft.s.kernel, buffer.name)
        for dim, (size, width) in enumerate(zip(buffer.shape, widths)):
            if width is None or not isinstance(size, Const) or not least <= width <= int(size.value) // 2:
                continue
            if draft.attempt(draft.s.fold_storage, buffer.name, dim, width) is None:
                why = f"no more of them are read again; {buffer_bytes(buffer) >> 10} KiB otherwise"
                draft.decide("storage", buffer.name, f"{width} of {size.value} slices kept at a time", why)
                break


def _goes_on(loop: For, buffer: str) -> bool:
    """Whether ``loop`` runs in order and may hand on ``buffer`` from one iteration to the next."""
    inside = mentions(loop)
    return loop.kind == "serial" and buffer in inside.stored and buffer in inside.loaded
