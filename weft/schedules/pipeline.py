"""``pipeline``: software pipelining. Storage that each iteration of a loop fills and then uses is filled some ahead.

With three stages::

    for k_o {                                  alloc B_cache[3, ...]
      alloc B_cache[...]                       for k_o ahead 2 of B_cache {
      load into B_cache                          load into B_cache[k_o % 3]
      use of B_cache                             use of B_cache[k_o % 3]
    }                                          }

so that loads and the use of what was loaded before can overlap: how is up to the target (see `weft.ir.ahead`). With two
stages this is double buffering (`double_buffer`).
"""

from __future__ import annotations

from weft.ir.ahead import changed_sources, why_not_ahead
from weft.ir.expr import Binary, idx
from weft.ir.quick_init import replace
from weft.ir.stmt import Ahead, Kernel
from weft.ir.visit import mentions
from weft.poly.conflicts import after
from weft.poly.leaves import leaves
from weft.poly.refuse_meeting import refuse_meeting, touches
from weft.poly.verdict import OK, Verdict, refuse
from weft.schedules.expand_storage import check_slices, making_loop, with_slices
from weft.schedules.find import find_alloc, find_loop, listed
from weft.schedules.loop_facts import check_number, check_valid
from weft.schedules.rewrite import Rewrite, primitive, remembered, replace_stmt
from weft.schedules.trace import Numerics


def check_pipeline(kernel: Kernel, *buffers: str, stages: int = 2, numerics: Numerics) -> Verdict:
    """Filling ahead must read what it would have read later, and nothing but filling may write."""
    number = check_number("number of stages", stages, 2)
    if not number.ok:
        return number
    if not buffers:
        return refuse("no storage is given")
    for buffer in buffers:
        verdict = _check_ring(kernel, buffer, stages)
        if not verdict.ok:
            return verdict
        kernel = _make_ring(kernel, buffer, stages)
    return check_valid(kernel)


@primitive(check_pipeline, "cannot fill ahead {*}")
def pipeline(kernel: Kernel, *buffers: str, stages: int = 2) -> Rewrite:
    """A ring of ``stages`` for each of the buffers, which is filled ahead in the loop that makes it."""
    for buffer in buffers:
        kernel = _make_ring(kernel, buffer, stages)
    return Rewrite(kernel)


def check_double_buffer(kernel: Kernel, buffer: str, *, numerics: Numerics) -> Verdict:
    return check_pipeline(kernel, buffer, numerics=numerics)


@primitive(check_double_buffer, "cannot fill `{0}` ahead")
def double_buffer(kernel: Kernel, buffer: str) -> Rewrite:
    """The storage twice, before the loop: one half is used while the other is filled for the next iteration."""
    return pipeline(kernel, buffer)


def check_runs_ahead(kernel: Kernel) -> Verdict:
    """Whether what was to run ahead still may; asked after each other step."""
    for loop in listed(kernel).loops:
        why = None if loop.ahead is None else why_not_ahead(loop)
        if why is not None:
            alternatives = ("the step before s.pipeline",)
            return refuse(
                f"part of loop `{loop.var.name}` would not run ahead any more: {why}", alternatives=alternatives
            )
    return OK


def _check_ring(kernel: Kernel, buffer: str, stages: int) -> Verdict:
    alloc = find_alloc(kernel, buffer)
    loop, old = making_loop(kernel, alloc), alloc.buffer
    if loop is None:
        return refuse(f"`{buffer}` is not made in every iteration of a loop")
    if buffer not in mentions(alloc.body).stored:
        return refuse(f"nothing fills `{buffer}`")
    if old.scope == "register":
        return refuse(f"`{buffer}` is in registers, which cannot take turns")
    if not (sliced := check_slices(alloc, loop)).ok:
        return sliced
    alone = kernel if loop.ahead is None else replace_stmt(kernel, loop, replace(loop, ahead=None))
    made = find_loop(_make_ring(alone, buffer, stages), loop.var.name)
    why, changing = why_not_ahead(made), changed_sources(made)
    if why is None or not changing:
        return OK if why is None else refuse(why)
    inside = [leaf for leaf in leaves(kernel) if loop.var.name in leaf.loop_names]
    fills = [leaf for leaf in inside if any(a.writes and a.buffer.name == buffer for a in leaf.accesses)]
    reads, writes = touches(fills, changing[0], writes=False), touches(inside, changing[0], reads=False)
    # Only what an iteration before writes is read too early.
    return refuse_meeting(why, kernel, writes, list(reads), [[after(loop.var.name)]])


@remembered
def _make_ring(kernel: Kernel, buffer: str, stages: int) -> Kernel:
    """The storage ``stages`` times, before the loop; iterations take turns with it, and may fill it ahead."""
    loop = making_loop(kernel, find_alloc(kernel, buffer))
    assert loop is not None
    before = loop.ahead or Ahead(stages - 1, ())
    ahead = Ahead(min(before.distance, stages - 1), (*before.rings, buffer))
    turn = Binary("%", loop.var - loop.lo, idx(stages))
    return with_slices(kernel, buffer, idx(stages), turn, ahead)
