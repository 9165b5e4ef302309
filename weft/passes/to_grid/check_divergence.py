"""Barriers that some threads of a block surely never reach: on a GPU the others would wait for ever."""

from __future__ import annotations

import itertools
from math import prod

from weft.ir.errors import UnsupportedError
from weft.ir.expr import Const, Expr, idx
from weft.ir.nesting import inner_statements, statement_kinds
from weft.ir.simplify import simplify
from weft.ir.stmt import JUMPS, For, If, Kernel, Stmt
from weft.ir.visit import free_vars, loads, substitute
from weft.passes.analysis.thread_teams import Team, holds, refuse

#: Threads for each of which a condition is tried.
MOST_TRIED = 1024


def check_divergence(kernel: Kernel) -> Kernel:
    """``kernel`` itself; raises where a block barrier stands in an `if` that only some threads take for sure.

    What threads decide by what they load, or leave before, they may well agree on.
    """
    if statement_kinds(kernel.body).isdisjoint(JUMPS):
        _visit(kernel.body, ())
    return kernel


def _visit(s: Stmt, threads: tuple[For, ...]) -> None:
    if not holds(s, "block"):
        return
    if isinstance(s, If) and len(outcomes(Team(threads), s.condition) or ()) > 1:
        raise divergent(s, "block", "threads decide differently")
    inside = (*threads, s) if isinstance(s, For) and s.kind == "thread" else threads
    for inner in inner_statements(s):
        _visit(inner, inside)


def divergent(s: If, scope: str, how: str) -> UnsupportedError:
    return refuse(
        f"a {scope} barrier in an `if` that {how}",
        "some threads would wait at the barrier, others would never reach it",
        s.condition if s.condition.span is not None else s,
        "move the barrier out of the `if`, or make the condition one that all threads agree on",
    )


def outcomes(team: Team, condition: Expr) -> set[bool] | None:
    """What ``condition`` is in the threads of ``team``, where trying them all shows it."""
    ranges = [range(int(a.value), int(b.value)) for a, b in _bounds(team)]
    size = prod(map(len, ranges))
    if len(ranges) < len(team.loops) or size > MOST_TRIED or loads(condition) or set(free_vars(condition)) - team.names:
        return None
    outcomes_seen = set()
    for point in itertools.product(*ranges):
        value = simplify(substitute(condition, {loop.var: idx(n) for loop, n in zip(team.loops, point)}))
        if not isinstance(value, Const):
            return None
        outcomes_seen.add(bool(value.value))
    return outcomes_seen


def _bounds(team: Team) -> list[tuple[Const, Const]]:
    """Where the threads along each loop begin and end, as far as these are numbers."""
    return [(loop.lo, loop.hi) for loop in team.loops if isinstance(loop.lo, Const) and isinstance(loop.hi, Const)]
