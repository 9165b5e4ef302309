"""Loops around barriers written out where they run a known, small number of times.

``for i in 0:2 { if t > i { done = true; A }; barrier; if i == 1 { break }; B }; if done { C }`` is ``A; barrier; B; A``
and ``C``. Written out before threads are split at barriers, what a thread computes in one round and uses in a later one
has a name for each round, and need not be stored for all threads (`live_ranges`, `forward_tests`).
"""

from __future__ import annotations

from dataclasses import replace

from weft.ir.stmt import Kernel, Stmt
from weft.passes.analysis.thread_teams import barriers_in
from weft.passes.gpu_to_cpu.unroll_phases import Unroller

#: Nodes that a loop may have when it is written out: less than once barriers are gone, since each pair is looked at.
LONGEST = 1500


def unroll_rounds(kernel: Kernel) -> Kernel:
    """``kernel`` with short loops around barriers written out."""
    if not barriers_in(kernel.body):
        return kernel
    return replace(kernel, body=Unroller(_has_barriers, LONGEST).visit(kernel.body, {})[0])


def _has_barriers(s: Stmt) -> bool:
    return bool(barriers_in(s))
