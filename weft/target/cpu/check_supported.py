"""What of a kernel the CPU generator has no code for."""

from __future__ import annotations

from weft.ir.stmt import Kernel
from weft.target.refuse_missing import refuse_missing


def check_supported(kernel: Kernel) -> Kernel:
    """``kernel`` itself; raises where it holds something that cannot run on a CPU yet."""
    return refuse_missing(kernel, "the CPU target does not have yet")
