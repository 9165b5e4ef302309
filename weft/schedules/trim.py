"""``trim``: a loop runs only where the tests directly inside it hold."""

from __future__ import annotations

from weft.ir.stmt import For, If, Kernel
from weft.poly.verdict import Verdict, refuse
from weft.schedules.find import find_loop, ranges_at
from weft.schedules.loop_facts import check_no_barrier, check_runs_through, first_no
from weft.schedules.reorder import is_guard
from weft.schedules.rewrite import Rewrite, remembered, replace_stmt, simplify_bounds
from weft.schedules.trace import Numerics
from weft.schedules.widen_ranges import narrow_ranges


def check_trim(kernel: Kernel, loop: str, *, numerics: Numerics) -> Verdict:
    """There must be a test that is a range of the loop."""
    old = find_loop(kernel, loop)
    if _narrowed(old) is old:
        return refuse(f"no test that says where `{loop}` starts or ends stands directly in it")
    if old.kind not in ("serial", "parallel", "vector"):
        return refuse(f"`{loop}` is {old.kind}, its length is fixed")
    return first_no([check_runs_through(old), check_no_barrier(old, "a shorter range")])


@remembered
def trim(kernel: Kernel, loop: str) -> Rewrite:
    old = find_loop(kernel, loop)
    return Rewrite(replace_stmt(kernel, old, simplify_bounds(_narrowed(old), ranges_at(kernel, old))))


def _narrowed(loop: For) -> For:
    tests = []
    inside = loop.body
    while isinstance(inside, If) and is_guard(inside):
        tests.append(inside.condition)
        inside = inside.then
    narrowed = narrow_ranges(loop, tests, deep=False)
    assert isinstance(narrowed, For)
    return loop if narrowed.body is loop.body else narrowed
