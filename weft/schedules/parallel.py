"""``parallel``: a loop is marked so that its iterations run concurrently, on several threads."""

from __future__ import annotations

from weft.ir.stmt import Kernel
from weft.poly.verdict import Verdict
from weft.schedules.rewrite import Rewrite
from weft.schedules.set_kind import check_set_kind, set_kind
from weft.schedules.trace import Numerics


def check_parallel(kernel: Kernel, loop: str, *, numerics: Numerics) -> Verdict:
    return check_set_kind(kernel, loop, "parallel", numerics=numerics)


def parallel(kernel: Kernel, loop: str) -> Rewrite:
    return set_kind(kernel, loop, "parallel")
