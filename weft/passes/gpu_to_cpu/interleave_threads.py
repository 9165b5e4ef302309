"""Threads that walk through memory side by side, run side by side: loop interchange.

    thread t in 0:256 {                               for i in 0:(n + m - 1) // m {
      for i in 0:(n - t + m - 1) // m {                 thread t in 0:min(256, n - i * m) {
        atomic H[X[i * m + t]] += 1           =>          atomic H[X[i * m + t]] += 1
      }                                                 }
    }                                                 }

Lanes of a vector do so anyway; this is for threads that cannot well be lanes, as where they update memory that others
update too. Threads between two barriers may take turns after each iteration.
"""

from __future__ import annotations

from dataclasses import replace

from weft.ir.affine import linear_form
from weft.ir.expr import Binary, Compare, Expr, Load, idx
from weft.ir.interval import bounds
from weft.ir.nesting import exits, has_loop, strip
from weft.ir.simplify import assigned_names, simplify
from weft.ir.stmt import Atomic, For, If, Kernel, Stmt
from weft.ir.visit import free_vars, map_statements, mentions, substitute, walk
from weft.passes.analysis.check_vector import infer_step, infer_varying

#: Elements between neighbours that still share lines of a cache.
NEAR = 4


def interleave_threads(kernel: Kernel) -> Kernel:
    """``kernel`` with loops of threads inside the loops that threads run, where that is how they lie in memory."""
    return replace(kernel, body=_visit(kernel.body))


def _visit(s: Stmt) -> Stmt:
    if isinstance(s, For) and s.kind == "thread" and not has_loop(s.body, "thread"):
        return _interleaved(s) or s
    return map_statements(s, _visit)


def _interleaved(team: For) -> Stmt | None:
    loop = strip(team.body)
    if not isinstance(loop, For) or loop.kind not in ("serial", "unroll") or team.var.name in free_vars(loop.lo):
        return None
    if not any(isinstance(n, Atomic) for n in walk(loop.body)) or not _is_free(loop) or not _lies_across(team, loop):
        return None
    if team.var.name not in free_vars(loop.hi):
        return replace(loop, body=replace(team, body=loop.body))
    return _with_last_turns(team, loop)


def _is_free(loop: For) -> bool:
    """Whether an iteration hands nothing to the next one in variables, and none is the last before its time."""
    return not assigned_names(loop.body) - mentions(loop.body).bound and not exits(loop.body)


def _lies_across(team: For, loop: For) -> bool:
    """Whether neighbouring threads load near each other, and no thread near what it loaded before."""
    across, along = infer_varying(team), infer_varying(loop)
    found = [n for n in walk(loop.body) if isinstance(n, Load)]
    near = [n for n in found if _is_near(infer_step(n.buffer, n.indices, team.var.name, across))]
    return bool(near) and not any(_is_near(infer_step(n.buffer, n.indices, loop.var.name, along)) for n in found)


def _is_near(step: int | None) -> bool:
    return step is not None and 0 < abs(step) <= NEAR


def _with_last_turns(team: For, loop: For) -> Stmt | None:
    """The loops turned where thread ``t`` runs ``(n - t) // m`` iterations: the last turn has fewer threads."""
    trips = linear_form(loop.hi)
    match [*trips.terms.items()]:
        case [(Binary("//", distance, by), 1)] if linear_form(distance).terms.get(team.var) == -1:
            end = simplify(Binary("+", distance, team.var))
        case _:
            return None
    if {team.var.name, loop.var.name} & {*free_vars(end), *free_vars(by)}:
        return None
    # i < (end - t) // by + c holds for t <= end - (i - c + 1) * by, where by is positive
    turn = Binary("-", loop.var, idx(trips.constant - 1))
    last = Binary("-", end, Binary("*", turn, by))
    hi = simplify(Binary("min", team.hi, Binary("+", last, idx(1))))
    longest = simplify(substitute(loop.hi, {team.var: team.lo}))
    turned = replace(loop, hi=longest, body=replace(team, hi=hi, body=loop.body))
    return _where_positive(by, turned, team)


def _where_positive(by: Expr, turned: Stmt, team: For) -> Stmt:
    least = bounds(by, {}).lo
    return turned if least is not None and least > 0 else If(Compare(">", by, idx(0)), turned, team)
