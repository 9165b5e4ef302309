"""``pipeline``: storage that each iteration of a loop fills and then uses, filled some iterations ahead.

With three stages::

    for k_o:                                   alloc B_cache[3, ...]
      alloc B_cache[...]                       loads of k_o = 0 and 1 into B_cache[0] and B_cache[1]
      load into B_cache                        for k_o:
      use of B_cache                             if it follows: load of k_o + 2 into B_cache[(k_o + 2) % 3]
                                                 use of B_cache[k_o % 3]

so that loads and the use of what was loaded before can overlap. Shared storage may be filled by copies that run on
their own while the threads go on: hints say which copies these are and where those of one stage end. With two stages
this is double buffering: `double_buffer` fills storage of any memory one iteration ahead, without hints.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from weft.ir import dtype as dt
from weft.ir.expr import AddressOf, Binary, Call, Compare, Const, Expr, idx
from weft.ir.interval import Interval
from weft.ir.simplify import simplify
from weft.ir.stmt import Alloc, Atomic, Evaluate, For, If, Kernel, Let, Seq, Stmt
from weft.ir.visit import free_vars, loads, stores, walk
from weft.poly.conflicts import after
from weft.poly.leaves import leaves
from weft.poly.refuse_meeting import refuse_meeting, touches
from weft.poly.verdict import OK, Verdict, refuse
from weft.schedules.layouts import plain_layout
from weft.schedules.loop_facts import check_number, check_valid, exits, has_barrier
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
class Turns:
    """Storage made in each iteration of ``loop``: the statements that fill it, then those that use it."""

    loop: For
    alloc: Alloc
    fill: tuple[Stmt, ...]
    use: tuple[Stmt, ...]


def check_pipeline(kernel: Kernel, *buffers: str, stages: int = 2, numerics: Numerics) -> Verdict:
    """Filling ahead must read what it would have read later, and nothing but filling may write."""
    number = check_number("number of stages", stages, 2)
    if not number.ok:
        return number
    if not buffers:
        return refuse("no storage is given")
    for buffer in buffers:
        verdict = check_ring(kernel, buffer, stages)
        if not verdict.ok:
            return verdict
        kernel = fill_ahead(kernel, buffer, stages).kernel
    return OK


def pipeline(kernel: Kernel, *buffers: str, stages: int = 2) -> Rewrite:
    """A ring of ``stages`` for each of the buffers; those in shared memory may be filled asynchronously."""
    together = len({_loop_name(kernel, buffer) for buffer in buffers}) == 1
    before: list[list[Stmt]] = [[] for _ in range(stages - 1)]
    for buffer in buffers:
        commits = buffer == buffers[-1]
        kernel = fill_ahead(kernel, buffer, stages, commits=commits, before=before if together else None).kernel
    return Rewrite(kernel)


def check_ring(kernel: Kernel, buffer: str, stages: int) -> Verdict:
    """Whether ``buffer`` may become a ring of ``stages`` that is filled ahead."""
    found = find_turns(kernel, buffer)
    if isinstance(found, str):
        return refuse(found)
    for verdict in (_check_loop(found, buffer), _check_fill(kernel, found, buffer)):
        if not verdict.ok:
            return verdict
    return check_valid(fill_ahead(kernel, buffer, stages).kernel)


def fill_ahead(
    kernel: Kernel, buffer: str, stages: int, *, commits: bool | None = None, before: list[list[Stmt]] | None = None
) -> Rewrite:
    """The storage ``stages`` times, before the loop; each iteration fills the part for a later one.

    ``commits``: whether a hint ends the copies of each stage; None for no hints at all. What fills the first stages
    joins what fills them ``before`` for other storage, and is in the program with the last: stage after stage, so
    that the first is there early.
    """
    found = find_turns(kernel, buffer)
    assert not isinstance(found, str)
    alone = before is None
    before = [[] for _ in range(stages - 1)] if before is None else before
    ring = _Ring(kernel, found, stages, _taken(kernel, before))
    hints = commits is not None and found.alloc.buffer.scope == "shared"
    end = (ring.hint("async_commit"),) if hints and commits else ()
    start = (ring.hint("async_fill"),) if hints else ()
    for step, fills in enumerate(before):
        fills.append(ring.fill_first(step))
    is_last = commits is not False or alone
    first = [s for fills in before for s in (*fills, *end)] if is_last else []
    body = sequence([ring.fill_later(), *end, ring.use()])
    running = replace(found.loop, body=replace_in(found.loop.body, found.alloc, body))
    return Rewrite(replace_stmt(kernel, found.loop, Alloc(ring.storage, sequence([*start, *first, running]))))


def _loop_name(kernel: Kernel, buffer: str) -> str:
    found = find_turns(kernel, buffer)
    assert not isinstance(found, str)
    return found.loop.var.name


def _taken(kernel: Kernel, fills: list[list[Stmt]]) -> set[str]:
    """Names in the program and in what will join it."""
    return taken_names(replace(kernel, body=sequence([kernel.body, *(s for some in fills for s in some)])))


class _Ring:
    """The statements that fill and use storage in turns."""

    def __init__(self, kernel: Kernel, found: Turns, stages: int, taken: set[str]) -> None:
        self.loop, self.old, self.stages = found.loop, found.alloc.buffer, stages
        self.filling, self.using = sequence(found.fill), sequence(found.use)
        self.ranges, self.taken = ranges_at(kernel, found.loop), taken
        self.inner = {**self.ranges, self.loop.var.name: loop_range(self.loop, self.ranges)}
        self.storage = replace(self.old, shape=(idx(stages), *self.old.shape), strides=None)

    def hint(self, name: str) -> Stmt:
        place = AddressOf(self.storage, tuple(idx(0) for _ in self.storage.shape))
        return Evaluate(Call(name, (place,), dt.index))

    def fill_first(self, step: int) -> Stmt:
        """What is filled before the loop, for its iteration number ``step``."""
        value = simplify(self.loop.lo + step, self.ranges)
        s = self._sent(replace_vars(self.filling, {self.loop.var: value}, self.ranges), idx(step), self.ranges)
        suffix = "_first" if step == 0 else f"_first{step}"
        return _if(simplify(Compare("<", value, self.loop.hi), self.ranges), fresh_copy(s, self.taken, suffix))

    def fill_later(self) -> Stmt:
        """What an iteration fills for one that follows it."""
        value = simplify(self.loop.var + (self.stages - 1), self.ranges)
        s = self._sent(replace_vars(self.filling, {self.loop.var: value}, self.inner), self._turn(value), self.inner)
        return _if(Compare("<", value, self.loop.hi), s)

    def use(self) -> Stmt:
        return self._sent(self.using, self._turn(self.loop.var), self.inner)

    def _turn(self, value: Expr) -> Expr:
        return simplify(Binary("%", value - self.loop.lo, idx(self.stages)), {})

    def _sent(self, s: Stmt, turn: Expr, ranges: Mapping[str, Interval]) -> Stmt:
        """``s`` working on one part of the storage."""
        starts = tuple(idx(0) for _ in self.old.shape)
        place = Placement(self.old, self.storage, starts, plain_layout(self.old.rank), ((0, turn),))
        return Redirection(place, self.taken).apply(s, ranges)


def _if(condition: Expr, s: Stmt) -> Stmt:
    return s if condition == Const(True, dt.bool_) else If(condition, s)


def find_turns(kernel: Kernel, buffer: str) -> Turns | str:
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
    return Turns(loop, alloc, tuple(parts[:last]), tuple(parts[last:]))


def _check_loop(found: Turns, buffer: str) -> Verdict:
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


def _check_fill(kernel: Kernel, found: Turns, buffer: str) -> Verdict:
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
