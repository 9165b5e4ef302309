"""``double_buffer``: storage that each iteration of a loop fills and then uses, filled one iteration ahead.

A `pipeline` of two stages, in any memory but registers, whose copies are plain ones.
"""

from __future__ import annotations

from weft.ir.stmt import Kernel
from weft.poly.verdict import Verdict
from weft.schedules.pipeline import check_ring, fill_ahead
from weft.schedules.rewrite import Rewrite
from weft.schedules.trace import Numerics


def check_double_buffer(kernel: Kernel, buffer: str, *, numerics: Numerics) -> Verdict:
    """Filling ahead must read what it would have read later, and nothing but filling may write."""
    return check_ring(kernel, buffer, 2)


def double_buffer(kernel: Kernel, buffer: str) -> Rewrite:
    """The storage twice, before the loop; each iteration fills the half for the next one."""
    return fill_ahead(kernel, buffer, 2)
