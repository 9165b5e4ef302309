"""Statements over all lanes at once.

Each rule runs a statement in some lanes and returns those that go on with the next one, or None: a lane
that leaves a loop or returns is not among them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from weft.ir import stmt as ir
from weft.ir.asserts import format_message
from weft.ir.errors import UnsupportedError
from weft.ir.intrinsics import HINTS
from weft.sanitizer.lanes import Array, Lanes, one
from weft.sanitizer.run import Run
from weft.sanitizer.run_atomic import run_atomic
from weft.sanitizer.run_expr import evaluate
from weft.sanitizer.run_threads import run_barrier, run_concurrent

#: Iterations after which a while loop counts as endless.
ENDLESS = 1_000_000

Next: TypeAlias = "Lanes | None"


def run_stmt(s: ir.Stmt, lanes: Lanes, run: Run) -> Next:
    """The lanes that go on after ``s``."""
    if s.span is not None:
        run.span = s.span
    rule = _RULES.get(type(s))
    if rule is None:
        raise UnsupportedError(f"a {type(s).__name__.lower()} cannot be watched", span=s.span or run.span)
    return rule(s, lanes, run)


def _seq(s: ir.Seq, lanes: Lanes, run: Run) -> Next:
    left: Next = lanes
    for stmt in s.body:
        if left is None:
            return None
        left = run_stmt(stmt, left, run)
    return left


def _if(s: ir.If, lanes: Lanes, run: Run) -> Next:
    chosen = evaluate(s.condition, lanes, run)
    if chosen.ndim == 0:
        branch = s.then if chosen else s.otherwise
        return lanes if branch is None else run_stmt(branch, lanes, run)
    ends: list[Next] = []
    for branch, places in ((s.then, np.nonzero(chosen)[0]), (s.otherwise, np.nonzero(~chosen)[0])):
        if len(places):
            subset = lanes.part(places)
            ends.append(subset if branch is None else run_stmt(branch, subset, run))
    return _together(lanes, ends)


def _together(lanes: Lanes, ends: Sequence[Next]) -> Next:
    """The lanes of several branches."""
    if any(end is lanes for end in ends):
        return lanes
    places = [end.place_in(lanes) for end in ends if end is not None]
    if not places:
        return None
    return lanes.part(np.sort(np.concatenate([p for p in places if p is not None])))


def _for(s: ir.For, lanes: Lanes, run: Run) -> Next:
    if s.kind not in ("serial", "unroll"):
        run_concurrent(s, lanes, run, run_stmt)
        return lanes
    lo, hi = evaluate(s.lo, lanes, run), evaluate(s.hi, lanes, run)
    left = np.zeros(lanes.count, np.bool_)
    run.loops.append((lanes, left))
    alive: Next = lanes
    steps = int(np.max(hi - lo, initial=0))
    uniform = lo.ndim == 0 and hi.ndim == 0
    for step in range(steps):
        inside = alive if uniform else _within(alive, lanes, lo + step, hi)
        if inside is None:
            break
        run.variables[s.var.name] = (inside, lanes_value(inside, lanes, lo) + step)
        if run_stmt(s.body, inside, run) is not inside:
            alive = alive.staying(left, lanes)  # type: ignore[union-attr]
        if alive is None:
            break
    run.loops.pop()
    return lanes.staying(None, lanes)


def lanes_value(lanes: Lanes, home: Lanes, value: Array) -> Array:
    return np.asarray(lanes.bring(value, home))


def _within(alive: Next, lanes: Lanes, at: Array, hi: Array) -> Next:
    """Those of ``alive`` whose loop has an iteration left."""
    if alive is None:
        return None
    running = np.broadcast_to(at < hi, (lanes.count,))
    places = np.nonzero(alive.bring(running, lanes))[0]
    return alive.part(places) if len(places) else None


def _while(s: ir.While, lanes: Lanes, run: Run) -> Next:
    left = np.zeros(lanes.count, np.bool_)
    run.loops.append((lanes, left))
    alive: Next = lanes
    for step in range(ENDLESS + 1):
        condition = np.broadcast_to(evaluate(s.condition, alive, run), (alive.count,))  # type: ignore[arg-type,union-attr]
        places = np.nonzero(condition)[0]
        if not len(places):
            break
        inside = alive.part(places)  # type: ignore[union-attr]
        if step == ENDLESS:
            run.report_at("endless loop", f"this loop ran {ENDLESS:,} times", inside, np.arange(1), s.span)
            break
        alive = inside if run_stmt(s.body, inside, run) is inside else inside.staying(left, lanes)
        if alive is None:
            break
    run.loops.pop()
    return lanes.staying(None, lanes)


def _let(s: ir.Let, lanes: Lanes, run: Run) -> Next:
    run.variables[s.var.name] = (lanes, evaluate(s.value, lanes, run))
    return run_stmt(s.body, lanes, run)


def assign(name: str, value: Array, lanes: Lanes, run: Run) -> None:
    """A new value of a variable in some of the lanes that have it."""
    home, old = run.variables[name]
    place = lanes.place_in(home)
    if place is None:
        run.variables[name] = (home, value)
        return
    new = np.array(np.broadcast_to(old, (home.count,)))
    new[place] = value
    run.variables[name] = (home, new)


def _assign(s: ir.Assign, lanes: Lanes, run: Run) -> Next:
    assign(s.var.name, evaluate(s.value, lanes, run), lanes, run)
    return lanes


def _store(s: ir.Store, lanes: Lanes, run: Run) -> Next:
    run.store(s, lanes, evaluate(s.value, lanes, run))
    return lanes


def _atomic(s: ir.Atomic, lanes: Lanes, run: Run) -> Next:
    old = run_atomic(s, lanes, run)
    if s.result is not None:
        assign(s.result.name, old, lanes, run)
    return lanes


def _alloc(s: ir.Alloc, lanes: Lanes, run: Run) -> Next:
    run.allocate(s.buffer, lanes)
    return run_stmt(s.body, lanes, run)


def _barrier(s: ir.Barrier, lanes: Lanes, run: Run) -> Next:
    run_barrier(s, lanes, run)
    return lanes


def _break(s: ir.Break, lanes: Lanes, run: Run) -> Next:
    loop, left = run.loops[-1]
    place = lanes.place_in(loop)
    left[... if place is None else place] = True
    return None


def _return(s: ir.Return, lanes: Lanes, run: Run) -> Next:
    lanes.leave()
    return None


def _assert(s: ir.Assert, lanes: Lanes, run: Run) -> Next:
    holds = np.broadcast_to(evaluate(s.condition, lanes, run), (lanes.count,))
    bad = np.nonzero(~holds)[0]
    if len(bad):
        values = [int(one(evaluate(v, lanes, run), int(bad[0]))) for v in s.values]
        run.report_at("failed assert", format_message(s.message, values), lanes, bad, s.span or run.span)
    return lanes


def _evaluate(s: ir.Evaluate, lanes: Lanes, run: Run) -> Next:
    if s.call.name not in HINTS:
        raise UnsupportedError(
            f"`{s.call.name}` cannot be watched",
            span=s.span or run.span,
            why="it reaches memory on its own",
            help="write the loops it stands for",
        )
    return lanes


_RULES: dict[type[ir.Stmt], Callable[[Any, Lanes, Run], Next]] = {
    ir.Seq: _seq,
    ir.If: _if,
    ir.For: _for,
    ir.While: _while,
    ir.Let: _let,
    ir.Assign: _assign,
    ir.Store: _store,
    ir.Atomic: _atomic,
    ir.Alloc: _alloc,
    ir.Barrier: _barrier,
    ir.Break: _break,
    ir.Continue: lambda s, lanes, run: None,
    ir.Return: _return,
    ir.Assert: _assert,
    ir.Evaluate: _evaluate,
    ir.Tensorized: lambda s, lanes, run: run_stmt(s.body, lanes, run),
}
