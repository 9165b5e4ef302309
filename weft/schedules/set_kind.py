"""How a loop runs: ``parallel``, ``vectorize``, ``unroll``, ``bind`` and ``serial``.

``parallel`` iterations run concurrently, on several threads; those of a ``vectorize``d loop become lanes of vector
instructions; an ``unroll``ed loop is written out, all of it or ``factor`` iterations at a time; ``bind`` makes a loop a
dimension of the grid of a GPU kernel, over blocks or over the threads of one; ``serial`` ones run one after another.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Literal

from weft.ir.printer import print_expr
from weft.ir.stmt import Kernel, LoopKind
from weft.poly.check_parallel import check_parallel as check_independent
from weft.poly.verdict import OK, Verdict, refuse
from weft.schedules.find import find_loop, ranges_at
from weft.schedules.loop_facts import check_number, check_places, extent, has_barrier, trip_count
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
    if old.kind in ("block", "thread") and has_barrier(old):
        return refuse(f"the iterations of `{loop}` wait for one another at a barrier")
    if kind in _IN_ORDER:
        return OK
    valid = check_places(set_kind(kernel, loop, kind).kernel)
    if not valid.ok:
        return valid
    return check_independent(kernel, loop, kind, numerics)


@remembered
def set_kind(kernel: Kernel, loop: str, kind: LoopKind) -> Rewrite:
    old = find_loop(kernel, loop)
    return Rewrite(replace_stmt(kernel, old, replace(old, kind=kind)))


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
        ranges = ranges_at(kernel, old)
        if trip_count(old, ranges) is None:
            runs = print_expr(extent(old, ranges))
            return refuse(f"`{loop}` runs {runs} times, not a known number", alternatives=(f's.unroll("{loop}", 4)',))
        return check_set_kind(kernel, loop, "unroll", numerics=numerics)
    verdict = check_split(kernel, loop, factor, tail, numerics=numerics)
    if tail == "clip":
        verdict = refuse("a tile that is cut short cannot be written out")
    if not verdict.ok:
        return verdict
    halves = split(kernel, loop, factor, tail)
    return check_set_kind(halves.kernel, halves.made[1], "unroll", numerics=numerics)


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
