"""``compute_root``: a temporary is computed in full, outside all loops: the place where every stage starts."""

from __future__ import annotations

from weft.ir.stmt import Kernel
from weft.poly.verdict import Verdict
from weft.schedules.compute_at import check_place, legal_places, place_at
from weft.schedules.rewrite import Rewrite
from weft.schedules.trace import Numerics


def check_compute_root(kernel: Kernel, block: str, *, numerics: Numerics) -> Verdict:
    verdict = check_place(kernel, block, None, numerics=numerics)
    if verdict.ok or verdict.alternatives:
        return verdict
    return Verdict(False, verdict.reason, verdict.witness, legal_places(kernel, block, numerics))


def compute_root(kernel: Kernel, block: str) -> Rewrite:
    """All that the program reads of the temporary, computed before its first reader."""
    return Rewrite(place_at(kernel, block, None))
