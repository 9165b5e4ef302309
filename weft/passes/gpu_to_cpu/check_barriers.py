"""Barriers that a program cannot be split at, found before any is removed."""

from __future__ import annotations

from weft.ir.stmt import Kernel
from weft.passes.analysis.thread_teams import check_shared
from weft.passes.gpu_to_cpu.split_threads import split_once
from weft.passes.plain.inline_indices import inline_indices


def check_barriers(kernel: Kernel) -> Kernel:
    """``kernel`` itself; raises where it cannot be split at its barriers as they are.

    Asked first: once barriers that order nothing are gone, nobody would see that some threads never reached one.
    """
    check_shared(kernel.body)
    split_once(inline_indices(kernel))
    return kernel
