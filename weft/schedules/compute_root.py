"""``compute_root``: a temporary is computed in full, outside all loops: the place where every stage starts."""

from __future__ import annotations

from weft.ir.stmt import Kernel
from weft.poly.verdict import Verdict
from weft.schedules.compute_at import check_place, place_at
from weft.schedules.rewrite import Rewrite
from weft.schedules.trace import Numerics


def check_compute_root(kernel: Kernel, block: str, *, numerics: Numerics) -> Verdict:
    return check_place(kernel, block, None, numerics=numerics)


def compute_root(kernel: Kernel, block: str) -> Rewrite:
    """All that the program reads of the temporary, computed before its first reader."""
    return Rewrite(place_at(kernel, block, None))
