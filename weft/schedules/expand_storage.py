"""``expand_storage``: storage that each iteration of a loop makes anew is made once, with a slice for each iteration.

::

    for t in 0:T {                             alloc P[T, 8]
      alloc P[8]                               for t in 0:T {
      P[j] = ...                        =>       P[t, j] = ...
      ... P[j]                                   ... P[t, j]
    }                                          }

This is array expansion, the opposite of storage folding: iterations share no storage any more, so that a loop may be
distributed over its statements (`fission`), or run on threads.
"""

from __future__ import annotations

from weft.ir.expr import Expr, idx
from weft.ir.interval import loop_range
from weft.ir.nesting import path_to, replace_in
from weft.ir.quick_init import replace
from weft.ir.simplify import simplify
from weft.ir.stmt import Ahead, Alloc, For, Kernel, Seq
from weft.ir.visit import free_vars
from weft.poly.verdict import OK, Verdict, refuse
from weft.schedules.find import find_alloc, ranges_at
from weft.schedules.layouts import plain_layout
from weft.schedules.loop_facts import check_runs_through, check_valid, extent, first_no, not_negative
from weft.schedules.redirect import Placement, Redirection, only_plain_accesses
from weft.schedules.rewrite import Rewrite, primitive, replace_stmt, taken_names
from weft.schedules.trace import Numerics


def check_expand_storage(kernel: Kernel, buffer: str, *, numerics: Numerics) -> Verdict:
    """Legal wherever a loop makes the storage: what one iteration leaves in it, no other reads."""
    alloc = find_alloc(kernel, buffer)
    loop = making_loop(kernel, alloc)
    if loop is None:
        return refuse(f"`{buffer}` is not made in every iteration of a loop")
    if loop.kind == "vector" or alloc.buffer.scope != "global":
        return refuse(f"`{buffer}` is in {alloc.buffer.scope} memory of each iteration of `{loop.var.name}`")
    verdict = first_no([check_slices(alloc, loop), check_runs_through(loop)])
    return check_valid(expand_storage(kernel, buffer).kernel) if verdict.ok else verdict


@primitive(check_expand_storage, "cannot give `{0}` a slice for each iteration")
def expand_storage(kernel: Kernel, buffer: str) -> Rewrite:
    """A first dimension for the loop that makes the storage, before which it is made now."""
    loop = making_loop(kernel, find_alloc(kernel, buffer))
    assert loop is not None, "the check answers this first"
    count = not_negative(extent(loop, ranges_at(kernel, loop)), ranges_at(kernel, loop))
    return Rewrite(with_slices(kernel, buffer, count, loop.var - loop.lo, loop.ahead))


def making_loop(kernel: Kernel, alloc: Alloc) -> For | None:
    """The loop in each iteration of which the storage is made."""
    around = (s for s in reversed(path_to(kernel, alloc)[:-1]) if not isinstance(s, (Seq, Alloc)))
    loop = next(around, None)
    return loop if isinstance(loop, For) else None


def check_slices(alloc: Alloc, loop: For) -> Verdict:
    """Whether all iterations of ``loop`` can have their storage as slices of one buffer."""
    buffer = alloc.buffer
    if loop.var.name in {name for e in buffer.shape for name in free_vars(e)}:
        return refuse(f"the size of `{buffer.name}` changes with `{loop.var.name}`")
    if not only_plain_accesses(alloc.body, buffer.name):
        return refuse(f"an intrinsic takes the address of `{buffer.name}`")
    return OK


def with_slices(kernel: Kernel, buffer: str, count: Expr, turn: Expr, ahead: Ahead | None) -> Kernel:
    """The storage ``count`` times, before the loop that makes it; an iteration uses number ``turn``."""
    alloc = find_alloc(kernel, buffer)
    loop, old = making_loop(kernel, alloc), alloc.buffer
    assert loop is not None
    ranges = ranges_at(kernel, loop)
    slices = replace(old, shape=(count, *old.shape), strides=None)
    extra = ((0, simplify(turn, {})),)
    place = Placement(old, slices, tuple(idx(0) for _ in old.shape), plain_layout(old.rank), extra)
    inner = {**ranges, loop.var.name: loop_range(loop, ranges)}
    body = Redirection(place, taken_names(kernel)).apply(alloc.body, inner)
    running = replace(loop, body=replace_in(loop.body, alloc, body), ahead=ahead)
    return replace_stmt(kernel, loop, Alloc(slices, running, span=alloc.span))
