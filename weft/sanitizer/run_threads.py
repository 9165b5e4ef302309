"""Concurrent loops and barriers: where lanes come from and what orders them."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np

from weft.ir.expr import Const
from weft.ir.interpret_threads import WARP
from weft.ir.nesting import perfect_nest
from weft.ir.stmt import Barrier, For, Kernel, Stmt
from weft.ir.visit import children, walk
from weft.sanitizer.findings import Finding, Party
from weft.sanitizer.lanes import Array, Lanes, Level
from weft.sanitizer.run import Run
from weft.sanitizer.run_expr import evaluate

#: Lanes that run at once: enough to make Python's share small, few enough for their values to stay in a cache.
LANES_AT_ONCE = 1 << 15
#: Threads of a block where the program does not say.
_SOME_THREADS = 256

RunStmt = Callable[[Stmt, Lanes, Run], "Lanes | None"]


def concurrent_depth(s: Stmt | Kernel, warps: bool) -> int:
    """How many levels of concurrent loops there are."""
    if isinstance(s, For) and s.kind not in ("serial", "unroll"):
        own = 2 if warps and s.kind == "thread" else 1
        return own + concurrent_depth(perfect_nest(s, s.kind)[1], warps)
    inner = [c for c in children(s) if isinstance(c, Stmt)]
    return max((concurrent_depth(c, warps) for c in inner), default=0)


def run_concurrent(s: For, lanes: Lanes, run: Run, run_stmt: RunStmt) -> None:
    """All iterations of a nest, in as many lanes; a great nest of blocks in parts."""
    nest, body = perfect_nest(s, s.kind)
    every = _expand(nest, lanes, run)
    if every is None:
        return
    loops, run.loops = run.loops, []
    if lanes.levels or any(isinstance(n, Barrier) and n.scope == "grid" for n in walk(s)):
        run.widest = max(run.widest, every.count)
        run_stmt(body, every, run)
    else:
        step = max(1, LANES_AT_ONCE // _threads_inside(body))
        for start in range(0, every.count, step):
            subset = every.part(np.arange(start, min(every.count, start + step)))
            run.widest = subset.count
            run_stmt(body, subset, run)
            run.threads += run.widest
    run.loops = loops


def _threads_inside(body: Stmt) -> int:
    nests = [perfect_nest(n, "thread")[0] for n in walk(body) if isinstance(n, For) and n.kind == "thread"]
    return max((_extent(nest) for nest in nests), default=1)


def _extent(nest: tuple[For, ...]) -> int:
    sizes: list[int] = []
    for loop in nest:
        if not (isinstance(loop.lo, Const) and isinstance(loop.hi, Const)):
            return _SOME_THREADS
        sizes.append(int(loop.hi.value) - int(loop.lo.value))
    return max(1, prod(sizes))


def _expand(nest: tuple[For, ...], lanes: Lanes, run: Run) -> Lanes | None:
    """A lane for each iteration of ``nest`` in each of ``lanes``."""
    inner, box = lanes, list[tuple[int, int]]()
    is_box = True
    for loop in nest:
        lo, hi = evaluate(loop.lo, inner, run), evaluate(loop.hi, inner, run)
        counts = np.broadcast_to(np.maximum(0, hi - lo), (inner.count,))
        total = int(counts.sum())
        if not total:
            return None
        is_box = is_box and lo.ndim == 0 and hi.ndim == 0
        box.append((int(lo.max()), int(counts.max())))
        origin = np.repeat(np.arange(inner.count), counts)
        within = np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts)
        inner = Lanes(inner, origin)
        run.variables[loop.var.name] = (inner, inner.bring(np.asarray(lo), inner.parent) + within)  # type: ignore[arg-type]
    return _leveled(nest, lanes, inner, tuple(box) if is_box else None, run)


def _leveled(
    nest: tuple[For, ...], lanes: Lanes, inner: Lanes, box: tuple[tuple[int, int], ...] | None, run: Run
) -> Lanes:
    """``inner``, the iterations of ``nest``, as the lanes of a loop."""
    place = inner.place_in(lanes)
    assert place is not None
    counts = np.bincount(place, minlength=lanes.count)
    numbers = np.arange(inner.count) - np.repeat(np.cumsum(counts) - counts, counts)
    names = tuple(loop.var.name for loop in nest)
    starts = None if box is None else tuple(lo for lo, _ in box)
    extents = None if box is None else tuple(n for _, n in box)
    outer = lanes
    if run.warps and nest[0].kind == "thread":
        outer, origin = _warps(lanes, place, numbers, run)
    else:
        origin = place
    level = Level(nest[0].kind, outer, run.new_forks(outer.count), names, starts, extents)
    made = Lanes(outer, origin, level, numbers)
    for loop in nest:  # their values are now those of the new lanes
        home, value = run.variables[loop.var.name]
        run.variables[loop.var.name] = (made, inner.bring(value, home))
    return made


def _warps(lanes: Lanes, place: Array, numbers: Array, run: Run) -> tuple[Lanes, Array]:
    """The warps of thread teams, and for each thread its warp."""
    starts = np.nonzero(numbers % WARP == 0)[0]
    level = Level("warp", lanes, run.new_forks(lanes.count), (), None, None)
    warps = Lanes(lanes, place[starts], level, numbers[starts] // WARP)
    return warps, np.cumsum(numbers % WARP == 0) - 1


def run_barrier(s: Barrier, lanes: Lanes, run: Run) -> None:
    """Orders what the teams that arrive did before against what they do after."""
    held = {"grid": ("thread", "warp", "block"), "block": ("thread", "warp"), "warp": ("thread",)}[s.scope]
    around: list[Lanes] = []
    for level in reversed(lanes.levels):
        if level.level is None or level.level.kind not in held or (around and s.scope == "warp"):
            break
        around.append(level)
    if not around:
        return
    every, outermost = around[0], around[-1].level
    assert outermost is not None
    teams = every.place_in(outermost.home)
    assert teams is not None
    here = lanes.bring(teams, every)
    count = outermost.home.count
    arrived = np.bincount(here, minlength=count)
    staying = np.bincount(teams if every.returned is None else teams[~every.returned], minlength=count)
    _check_divergence(s, lanes, every, (arrived > 0) & (arrived < staying), teams, run)
    passed = np.nonzero(arrived)[0]
    outermost.forks[passed] = run.new_forks(len(passed))
    for inner in around[:-1]:  # what is ordered outside is ordered inside
        assert inner.level is not None
        inner.level.forks[:] = run.new_forks(len(inner.level.forks))
    run.clock += 1


def _check_divergence(s: Barrier, lanes: Lanes, every: Lanes, bad: Array, teams: Array, run: Run) -> None:
    """Reports teams of which some threads that have not returned do not arrive."""
    if not bad.any():
        return
    missing = np.ones(every.count, np.bool_)
    place = lanes.place_in(every)
    missing[... if place is None else place] = False
    if every.returned is not None:
        missing &= ~every.returned
    away = np.nonzero(missing & bad[teams])[0]
    here = np.nonzero(lanes.bring(bad[teams], every))[0]
    span = s.span or run.span
    parties = (
        Party("waits here", lanes.describe(int(here[0]), run.variables), span),
        Party("of the same team does not come", every.describe(int(away[0]), run.variables)),
    )
    what = f"not all threads reach this {s.scope} barrier"
    help = "move the barrier out of what only some threads run"
    run.report(("divergent barrier", id(s)), Finding("divergent barrier", what, parties, help, int(bad.sum())))
