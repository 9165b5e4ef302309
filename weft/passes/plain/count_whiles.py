"""``while`` loops that count, as loops that are known to.

``while v < n { A(v); v = v + 128 }`` becomes ``for i in 0:(n - v + 127) // 128 { A(v); v = v + 128 }``, whose variable
`close_inductions` then writes out.
"""

from __future__ import annotations

from weft.ir import dtype as dt
from weft.ir.affine import linear_form
from weft.ir.expr import Binary, Compare, Expr, Var, idx
from weft.ir.nesting import sequence
from weft.ir.simplify import assigned_names, simplify
from weft.ir.stmt import Assign, For, Seq, Stmt, While
from weft.ir.visit import free_vars, fresh_name, map_statements, used_names
from weft.passes.analysis.conditions import is_pure
from weft.passes.analysis.thread_teams import jumps_out


def count_whiles(s: Stmt) -> Stmt:
    """``s`` with loops that count for those that ask after each step whether to go on."""
    return _visit(s, used_names(s)) if assigned_names(s) else s


def _visit(s: Stmt, taken: set[str]) -> Stmt:
    if not assigned_names(s):
        return s
    s = map_statements(s, lambda n: _visit(n, taken))
    if isinstance(s, Seq):
        return sequence(s.body)
    return (_counted(s, taken) or s) if isinstance(s, While) else s


def _counted(loop: While, taken: set[str]) -> Stmt | None:
    if not isinstance(loop.body, Seq) or not loop.body.body or jumps_out(loop.body):
        return None
    *parts, last = loop.body.body
    if not isinstance(last, Assign) or last.var.dtype != dt.index:
        return None
    var, others = last.var, assigned_names(sequence(parts))
    step = linear_form(last.value - var)
    distance = _distance(loop.condition, var)
    if step.terms or step.constant <= 0 or distance is None or var.name in others:
        return None
    if not is_pure(distance, others):
        return None
    by = idx(step.constant)
    trips = simplify(Binary("//", distance + by - idx(1), by))
    count = Var(fresh_name(f"{var.name}_step", taken))
    return For(count, idx(0), trips, "serial", loop.body, span=loop.span)


def _distance(condition: Expr, var: Var) -> Expr | None:
    """By how much ``var`` is below what the loop ends at."""
    if not isinstance(condition, Compare) or condition.left.dtype != dt.index:
        return None
    left, right = condition.left, condition.right
    if condition.op in (">", ">="):
        left, right = right, left
    elif condition.op not in ("<", "<="):
        return None
    gap = right - left + idx(int(condition.op in ("<=", ">=")))
    terms = linear_form(gap).terms
    alone = terms.get(var) == -1 and not any(var.name in free_vars(e) for e in terms if e != var)
    return gap if alone else None
