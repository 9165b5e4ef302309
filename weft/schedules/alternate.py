"""``alternate``: a loop runs forward in one iteration of an outer loop and backward in the next.

::

    for t in 0:64                          for t in 0:64
      for j in 0:8 { reads W[j] }    =>      for j in 0:8 backward if t % 2 == 1 { reads W[j] }

Others call this a serpentine order. Where all that an iteration of the outer loop reads is a little larger than a
cache, going round and round finds nothing of it there: each part was driven out just before its turn. To and fro, the
part that was read last is the first to be read again. Legal where the loop's iterations may run in any order, which is
asked again after each later step.
"""

from __future__ import annotations

from weft.ir.expr import Binary, Compare, idx
from weft.ir.quick_init import replace
from weft.ir.stmt import Block, For, Kernel
from weft.ir.visit import free_vars, loads
from weft.poly.check_parallel import check_any_order
from weft.poly.verdict import OK, Verdict, refuse
from weft.schedules.find import blocks_inside, find_loop, listed, loops_around
from weft.schedules.loop_facts import check_runs_through, first_no
from weft.schedules.rewrite import Rewrite, primitive, replace_stmt
from weft.schedules.trace import Numerics

_IN_ORDER = ("serial", "unroll")


def check_alternate(kernel: Kernel, loop: str, outer: str, *, numerics: Numerics) -> Verdict:
    """Both loops run in order, one around the other, and the order of the inner one is free."""
    node, other = find_loop(kernel, loop), find_loop(kernel, outer)
    around = [f.var.name for f in loops_around(kernel, node) if f.kind in _IN_ORDER]
    for each in (node, other):
        if each.kind not in _IN_ORDER:
            return refuse(
                f"the iterations of the {each.kind} loop `{each.var.name}` have no order that could alternate"
            )
    if outer not in around:
        legal = tuple(f's.alternate("{loop}", "{name}")' for name in around)
        return refuse(f"`{outer}` is not around `{loop}`", alternatives=legal)
    return _check_turned(kernel, node, numerics)


@primitive(check_alternate, "cannot run loop `{0}` to and fro in `{1}`")
def alternate(kernel: Kernel, loop: str, outer: str) -> Rewrite:
    old, other = find_loop(kernel, loop), find_loop(kernel, outer)
    odd = Compare("==", Binary("%", other.var, idx(2)), idx(1))
    return Rewrite(replace_stmt(kernel, old, replace(old, backward=odd)))


def check_alternates(kernel: Kernel, *, numerics: Numerics) -> Verdict:
    """Whether loops that run backward at times still may; asked after each other step."""
    for loop in listed(kernel).loops:
        if loop.backward is None:
            continue
        lost = free_vars(loop.backward).keys() - {f.var.name for f in loops_around(kernel, loop)}
        verdict = refuse(f"`{min(lost)}` is not around it") if lost else _check_turned(kernel, loop, numerics)
        if not verdict.ok:
            reason = f"`{loop.var.name}` could not run to and fro any more: {verdict.reason}"
            return refuse(reason, alternatives=("the step before s.alternate",))
    return OK


def _check_turned(kernel: Kernel, loop: For, numerics: Numerics) -> Verdict:
    """Whether the last iteration of ``loop`` may run first."""
    name = loop.var.name
    if any(loads(e) for e in (loop.lo, loop.hi)):
        return refuse(f"the range of `{name}` is read from memory")
    for block in blocks_inside(loop):
        if block.init is not None and _sums_along(block, name):
            reason = f"block `{block.name}` starts its sum in the first iteration of `{name}`"
            return refuse(reason, alternatives=(f's.decompose_reduction("{block.name}", "{name}") first',))
    return first_no([check_runs_through(loop), check_any_order(kernel, loop, numerics)])


def _sums_along(block: Block, loop: str) -> bool:
    return any(i.kind == "reduce" and loop in free_vars(i.binding) for i in block.iters)
