"""``double_buffer``: storage that each iteration of a loop fills and then uses, filled one iteration ahead.

::

    for k_o:                                   alloc B_cache[2, ...]
      alloc B_cache[...]                       load of k_o = 0 into B_cache[0]
      load into B_cache                        for k_o:
      use of B_cache                             if another one follows: load of k_o + 1 into B_cache[(k_o + 1) % 2]
                                                 use of B_cache[k_o % 2]

so that a load and the use of the one before it can overlap.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from weft.ir import dtype as dt
from weft.ir.buffer import Buffer
from weft.ir.expr import Binary, Compare, Const, Expr, idx
from weft.ir.interval import Interval
from weft.ir.simplify import simplify
from weft.ir.stmt import Alloc, Atomic, For, If, Kernel, Let, Seq, Stmt
from weft.ir.visit import free_vars, loads, stores, walk
from weft.poly.conflicts import after
from weft.poly.leaves import leaves
from weft.poly.refuse_meeting import refuse_meeting, touches
from weft.poly.verdict import OK, Verdict, refuse
from weft.schedules.layouts import plain_layout
from weft.schedules.loop_facts import check_valid, exits, has_barrier
from weft.schedules.redirect import Placement, Redirection, only_plain_accesses
from weft.schedules.rewrite import (
    Rewrite,
    find_alloc,
    fresh_copy,
    loop_range,
    path_to,
    ranges_at,
    replace_in,
    replace_stmt,
    replace_vars,
    sequence,
    taken_names,
)
from weft.schedules.trace import Numerics


@dataclass(frozen=True, slots=True)
class Stages:
    """Storage made in each iteration of ``loop``: the statements that fill it, then those that use it."""

    loop: For
    alloc: Alloc
    fill: tuple[Stmt, ...]
    use: tuple[Stmt, ...]


def check_double_buffer(kernel: Kernel, buffer: str, *, numerics: Numerics) -> Verdict:
    """Filling ahead must read what it would have read later, and nothing but filling may write."""
    found = find_stages(kernel, buffer)
    if isinstance(found, str):
        return refuse(found)
    for verdict in (_check_loop(found, buffer), _check_fill(kernel, found, buffer)):
        if not verdict.ok:
            return verdict
    return check_valid(double_buffer(kernel, buffer).kernel)


def double_buffer(kernel: Kernel, buffer: str) -> Rewrite:
    """The storage twice, before the loop; each iteration fills the half for the next one."""
    found = find_stages(kernel, buffer)
    assert not isinstance(found, str)
    loop, old = found.loop, found.alloc.buffer
    ranges, taken = ranges_at(kernel, loop), taken_names(kernel)
    inner = {**ranges, loop.var.name: loop_range(loop, ranges)}
    both = replace(old, shape=(idx(2), *old.shape), strides=None)
    turn = simplify(Binary("%", loop.var - loop.lo, idx(2)), {})
    fill = sequence(found.fill)
    first = _sent(replace_vars(fill, {loop.var: loop.lo}, ranges), old, both, idx(0), ranges, taken)
    first = fresh_copy(first, taken, "_first")
    following = simplify(loop.var + 1, ranges)
    next_turn = simplify(Binary("%", following - loop.lo, idx(2)), {})
    ahead = _sent(replace_vars(fill, {loop.var: following}, inner), old, both, next_turn, inner, taken)
    use = _sent(sequence(found.use), old, both, turn, inner, taken)
    body = sequence([If(Compare("<", following, loop.hi), ahead), use])
    running = replace(loop, body=replace_in(loop.body, found.alloc, body))
    start = simplify(Compare("<", loop.lo, loop.hi), ranges)
    begin = first if start == Const(True, dt.bool_) else If(start, first)
    return Rewrite(replace_stmt(kernel, loop, Alloc(both, sequence([begin, running]))))


def find_stages(kernel: Kernel, buffer: str) -> Stages | str:
    """How an iteration makes, fills and uses ``buffer``, or why it does not."""
    alloc = find_alloc(kernel, buffer)
    path = path_to(kernel, alloc)[:-1]
    loop = next((s for s in reversed(path) if not isinstance(s, (Seq, Alloc))), None)
    if not isinstance(loop, For):
        return f"`{buffer}` is not made in every iteration of a loop"
    parts = alloc.body.body if isinstance(alloc.body, Seq) else (alloc.body,)
    writes = [n for n, s in enumerate(parts) if any(w.buffer.name == buffer for w in stores(s))]
    if not writes:
        return f"nothing fills `{buffer}`"
    last = writes[-1] + 1
    return Stages(loop, alloc, tuple(parts[:last]), tuple(parts[last:]))


def _check_loop(found: Stages, buffer: str) -> Verdict:
    loop, old = found.loop, found.alloc.buffer
    if loop.kind not in ("serial", "unroll"):
        return refuse(f"the iterations of the {loop.kind} loop `{loop.var.name}` do not follow one another")
    if old.scope == "register":
        return refuse(f"`{buffer}` is in registers, which cannot take turns")
    if loop.var.name in {name for e in old.shape for name in free_vars(e)}:
        return refuse(f"the size of `{buffer}` changes with `{loop.var.name}`")
    if exits(loop.body) or has_barrier(loop.body):
        return refuse(f"a break, continue, return or barrier in the body of `{loop.var.name}`")
    if not only_plain_accesses(found.alloc.body, buffer):
        return refuse(f"an intrinsic takes the address of `{buffer}`")
    return OK


def _check_fill(kernel: Kernel, found: Stages, buffer: str) -> Verdict:
    written = {w.buffer.name for w in stores(found.loop.body)}
    for s in found.fill:
        if any(isinstance(n, (Atomic, Let)) for n in walk(s)):
            return refuse(f"`{buffer}` is filled by more than plain stores")
        foreign = [w.buffer.name for w in stores(s) if w.buffer.name != buffer]
        if foreign:
            return refuse(f"filling `{buffer}` writes `{foreign[0]}` too")
        changing = [x.buffer.name for x in loads(s) if x.buffer.name in written]
        if changing:
            name, loop = changing[0], found.loop.var.name
            reason = f"`{buffer}` is filled from `{name}`, which `{loop}` changes"
            reads = touches(leaves(kernel, s), name, writes=False)
            writes = touches((leaf for leaf in leaves(kernel) if loop in leaf.loop_names), name, reads=False)
            # Only what the iteration before writes is read too early.
            return refuse_meeting(reason, kernel, writes, list(reads), [[after(loop)]])
    return OK


def _sent(s: Stmt, old: Buffer, both: Buffer, half: Expr, ranges: Mapping[str, Interval], taken: set[str]) -> Stmt:
    """``s`` working on one half of the storage."""
    starts = tuple(idx(0) for _ in old.shape)
    place = Placement(old, both, starts, plain_layout(old.rank), ((0, half),))
    return Redirection(place, taken).apply(s, ranges)
