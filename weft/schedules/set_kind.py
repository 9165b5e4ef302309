"""How a loop runs: what ``parallel``, ``vectorize``, ``unroll``, ``bind`` and ``serial`` have in common."""

from __future__ import annotations

from dataclasses import replace

from weft.ir.stmt import Kernel, LoopKind
from weft.poly.check_parallel import check_parallel as check_independent
from weft.poly.verdict import OK, Verdict, refuse
from weft.schedules.find import find_loop
from weft.schedules.loop_facts import check_valid, has_barrier
from weft.schedules.rewrite import Rewrite, remembered, replace_stmt
from weft.schedules.trace import Numerics

_IN_ORDER = ("serial", "unroll")


def check_set_kind(kernel: Kernel, loop: str, kind: LoopKind, *, numerics: Numerics) -> Verdict:
    """Concurrent kinds need independent iterations; all kinds need a place the loop program allows."""
    old = find_loop(kernel, loop)
    if kind == old.kind:
        return OK
    if old.kind in ("block", "thread") and has_barrier(old):
        return refuse(f"the iterations of `{loop}` wait for one another at a barrier")
    if kind in _IN_ORDER:
        return OK
    valid = check_valid(set_kind(kernel, loop, kind).kernel)
    if not valid.ok:
        return valid
    return check_independent(kernel, loop, kind, numerics)


@remembered
def set_kind(kernel: Kernel, loop: str, kind: LoopKind) -> Rewrite:
    old = find_loop(kernel, loop)
    return Rewrite(replace_stmt(kernel, old, replace(old, kind=kind)))
