"""``double_buffer``: storage that each iteration of a loop fills and then uses, filled one iteration ahead.

Software pipelining with two stages: a `pipeline`, where one half of the storage is used while the other is filled.
"""

from __future__ import annotations

from weft.ir.stmt import Kernel
from weft.poly.verdict import Verdict
from weft.schedules.pipeline import check_pipeline, pipeline
from weft.schedules.rewrite import Rewrite
from weft.schedules.trace import Numerics


def check_double_buffer(kernel: Kernel, buffer: str, *, numerics: Numerics) -> Verdict:
    """Filling ahead must read what it would have read later, and nothing but filling may write."""
    return check_pipeline(kernel, buffer, stages=2, numerics=numerics)


def double_buffer(kernel: Kernel, buffer: str) -> Rewrite:
    """The storage twice, before the loop; each iteration may fill the half for the next one."""
    return pipeline(kernel, buffer, stages=2)
