"""What of a kernel the CUDA generator has no code for."""

from __future__ import annotations

from weft.ir.stmt import Barrier, Kernel
from weft.target.refuse_missing import refuse_missing


def check_supported(kernel: Kernel) -> Kernel:
    """``kernel`` itself; raises where it holds something that cannot run on a GPU."""
    return refuse_missing(kernel, "the CUDA target does not have", _of_barrier)


def _of_barrier(barrier: Barrier) -> str | None:
    return "a barrier of all blocks: use two nests, which are two launches" if barrier.scope == "grid" else None
