"""How a loop runs: ``parallel``, ``vectorize``, ``unroll``, ``bind`` and ``serial``.

``parallel`` iterations run concurrently, on several threads; those of a ``vectorize``d loop become lanes of vector
instructions; an ``unroll``ed loop is written out, all of it or ``factor`` iterations at a time; ``bind`` makes a loop a
dimension of the grid of a GPU kernel, over blocks or over the threads of one; ``serial`` ones run one after another.
``run_as`` does the same to several loops of a nest in one step.
"""

from __future__ import annotations

from functools import partial
from typing import Literal, get_args

from weft.ir.nesting import with_child
from weft.ir.printer import print_expr
from weft.ir.quick_init import replace
from weft.ir.stmt import For, Kernel, LoopKind, Stmt
from weft.poly.check_parallel import check_all_parallel
from weft.poly.check_parallel import check_parallel as check_independent
from weft.poly.verdict import OK, Verdict, refuse
from weft.schedules.find import find_loop, ranges_at
from weft.schedules.loop_facts import check_number, check_places, extent, first_no, has_barrier, trip_count
from weft.schedules.reorder import deepest_path
from weft.schedules.rewrite import Rewrite, primitive, remembered, replace_stmt
from weft.schedules.split import Tail, check_split, split
from weft.schedules.trace import Numerics

Level = Literal["block", "thread"]
_IN_ORDER = ("serial", "unroll")


def check_set_kind(kernel: Kernel, loop: str, kind: LoopKind, *, numerics: Numerics) -> Verdict:
    """Concurrent kinds need independent iterations; all kinds need a place the loop program allows."""
    old = find_loop(kernel, loop)
    if kind == old.kind:
        return OK
    apart = _check_apart(old)
    if not apart.ok:
        return apart
    if kind in _IN_ORDER:
        return OK
    valid = check_places(set_kind(kernel, loop, kind).kernel)
    if not valid.ok:
        return valid
    return check_independent(kernel, loop, kind, numerics)


def _check_apart(loop: For) -> Verdict:
    if loop.kind in ("block", "thread") and has_barrier(loop):
        return refuse(f"the iterations of `{loop.var.name}` wait for one another at a barrier")
    return OK


@remembered
def set_kind(kernel: Kernel, loop: str, kind: LoopKind) -> Rewrite:
    old = find_loop(kernel, loop)
    return Rewrite(replace_stmt(kernel, old, _of_kind(old, kind)))


def _of_kind(loop: For, kind: LoopKind) -> For:
    """``loop`` as one of ``kind``; what has no order has none that could be turned around."""
    return replace(loop, kind=kind, backward=loop.backward if kind in _IN_ORDER else None)


def _split_to(kernel: Kernel, loop: str, factor: int, tail: Tail, kind: LoopKind) -> Rewrite:
    """The loops a split makes, the inner one of ``kind``."""
    halves = split(kernel, loop, factor, tail)
    return Rewrite(set_kind(halves.kernel, halves.made[1], kind).kernel, halves.made, halves.fates)


@primitive(partial(check_set_kind, kind="parallel"), "cannot run loop `{0}` in parallel")
def parallel(kernel: Kernel, loop: str) -> Rewrite:
    return set_kind(kernel, loop, "parallel")


@primitive(partial(check_set_kind, kind="serial"), "cannot run loop `{0}` in order")
def serial(kernel: Kernel, loop: str) -> Rewrite:
    return set_kind(kernel, loop, "serial")


def check_bind(kernel: Kernel, loop: str, level: Level, *, numerics: Numerics) -> Verdict:
    find_loop(kernel, loop)
    if level not in ("block", "thread"):
        legal = tuple(f's.bind("{loop}", "{levels}")' for levels in ("block", "thread"))
        return refuse("a grid has blocks and threads", alternatives=legal)
    return check_set_kind(kernel, loop, level, numerics=numerics)


@primitive(check_bind, "cannot bind loop `{0}` to {1}s")
def bind(kernel: Kernel, loop: str, level: Level) -> Rewrite:
    return set_kind(kernel, loop, level)


def check_unroll(
    kernel: Kernel, loop: str, factor: int | None = None, tail: Tail = "guard", *, numerics: Numerics
) -> Verdict:
    old = find_loop(kernel, loop)
    if factor is None:
        known = _check_trips(kernel, old)
        return check_set_kind(kernel, loop, "unroll", numerics=numerics) if known.ok else known
    verdict = check_split(kernel, loop, factor, tail, numerics=numerics)
    if tail == "clip":
        verdict = refuse("a tile that is cut short cannot be written out")
    if not verdict.ok:
        return verdict
    halves = split(kernel, loop, factor, tail)
    return check_set_kind(halves.kernel, halves.made[1], "unroll", numerics=numerics)


def _check_trips(kernel: Kernel, loop: For) -> Verdict:
    name, ranges = loop.var.name, ranges_at(kernel, loop)
    if trip_count(loop, ranges) is not None:
        return OK
    runs = print_expr(extent(loop, ranges))
    return refuse(f"`{name}` runs {runs} times, not a known number", alternatives=(f's.unroll("{name}", 4)',))


@primitive(check_unroll, "cannot unroll loop `{0}`")
def unroll(kernel: Kernel, loop: str, factor: int | None = None, tail: Tail = "guard") -> Rewrite:
    """With a factor, makes the loops a split makes; the inner one is unrolled."""
    return set_kind(kernel, loop, "unroll") if factor is None else _split_to(kernel, loop, factor, tail, "unroll")


def check_vectorize(
    kernel: Kernel, loop: str, lanes: int | None = None, tail: Tail = "guard", *, numerics: Numerics
) -> Verdict:
    """Iterations must be independent; asked of the whole loop, so that the answer speaks of the user's loop."""
    find_loop(kernel, loop)
    if lanes is not None:
        number = check_number("number of lanes", lanes, 1)
        if not number.ok:
            return number
    verdict = check_set_kind(kernel, loop, "vector", numerics=numerics)
    if not verdict.ok or lanes is None:
        return verdict
    if tail == "clip":
        return refuse("a tile that is cut short does not fill a vector")
    return check_split(kernel, loop, lanes, tail, numerics=numerics)


@primitive(check_vectorize, "cannot vectorize loop `{0}`")
def vectorize(kernel: Kernel, loop: str, lanes: int | None = None, tail: Tail = "guard") -> Rewrite:
    """Without ``lanes`` the target chooses them; with, the loop is split unless it has just so many iterations."""
    old = find_loop(kernel, loop)
    if lanes is None or trip_count(old, ranges_at(kernel, old)) == lanes:
        return set_kind(kernel, loop, "vector")
    return _split_to(kernel, loop, lanes, tail, "vector")


def check_run_as(kernel: Kernel, kind: LoopKind, *loops: str, numerics: Numerics) -> Verdict:
    """What is asked of each loop alone, of the program as it is: what the others become changes no answer."""
    if kind not in get_args(LoopKind):
        return refuse(f"{kind!r} is no kind of loop", alternatives=tuple(f'"{known}"' for known in get_args(LoopKind)))
    if not loops:
        return refuse("no loop is named")
    nodes = [find_loop(kernel, loop) for loop in loops]
    nest = deepest_path(kernel, nodes)
    if isinstance(nest, Verdict):
        return nest
    new = [node for node in nodes if node.kind != kind]
    fit = first_no([*map(_check_apart, new), *(_check_trips(kernel, node) for node in new if kind == "unroll")])
    if not fit.ok or kind in _IN_ORDER:
        return fit
    valid = check_places(run_as(kernel, kind, *loops).kernel)
    if not valid.ok:
        return valid
    in_order = [s for s in nest if isinstance(s, For) and any(s is node for node in new)]
    return check_all_parallel(kernel, in_order, kind, numerics) if in_order else OK


@primitive(check_run_as, "cannot run loops as `{0}`")
def run_as(kernel: Kernel, kind: LoopKind, *loops: str) -> Rewrite:
    """Loops inside one another, in any order."""
    nest = deepest_path(kernel, [find_loop(kernel, loop) for loop in loops])
    assert not isinstance(nest, Verdict), "check_run_as answers this first"
    below: Stmt = nest[-1]
    assert isinstance(below, For)
    made: Stmt = _of_kind(below, kind)
    for outer in nest[-2::-1]:
        if isinstance(outer, For) and outer.var.name in loops:
            below, made = outer, replace(_of_kind(outer, kind), body=made)
        else:
            below, made = outer, with_child(outer, below, made)
    return Rewrite(replace(kernel, body=made))
