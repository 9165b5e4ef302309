"""Integers that are assigned in a straight line get a name for each value, so that each name has one value.

``let n = t - 1; n = max(n, 0); A[n]`` becomes ``let n = t - 1; let n_1 = max(n, 0); A[n_1]``: static single assignment,
where no branch joins; loops in two branches that share a counter get one each. What is then never assigned can be
written out and computed again.
"""

from __future__ import annotations

from dataclasses import replace

from weft.ir.expr import Var
from weft.ir.nesting import inner_statements, sequence
from weft.ir.simplify import assigned_names
from weft.ir.stmt import Alloc, Assign, If, Let, Seq, Stmt
from weft.ir.visit import fresh_name, map_statements, substitute, used_names

#: Assignments to a variable that are renamed: each value is a scope inside the one before.
MOST = 16


def rename_assigned(s: Stmt) -> Stmt:
    """``s`` without assignments to integers that all statements after them in their scope come through."""
    return _visit(s, used_names(s)) if assigned_names(s) else s


def _visit(s: Stmt, taken: set[str]) -> Stmt:
    if not assigned_names(s):
        return s
    if isinstance(s, Let) and not s.var.dtype.is_float and 0 < _count_assignments(s.body, s.var) <= MOST:
        s = replace(s, body=_renamed(s.body, s.var, s.var.name, taken))
    return map_statements(s, lambda n: _visit(n, taken))


def _count_assignments(s: Stmt, var: Var) -> int:
    if var.name not in assigned_names(s):
        return 0
    return isinstance(s, Assign) + sum(_count_assignments(inner, var) for inner in inner_statements(s))


def _renamed(s: Stmt, var: Var, base: str, taken: set[str]) -> Stmt:
    """``s``, which ends the scope of ``var``, with new names after ``base`` for what is assigned to it."""
    if isinstance(s, (Let, Alloc)):
        return replace(s, body=_renamed(s.body, var, base, taken))
    if isinstance(s, If):
        otherwise = None if s.otherwise is None else _renamed(s.otherwise, var, base, taken)
        return replace(s, then=_renamed(s.then, var, base, taken), otherwise=otherwise)
    if not isinstance(s, Seq) or not s.body:
        return s
    at = next((n for n, stmt in enumerate(s.body) if isinstance(stmt, Assign) and stmt.var == var), None)
    if at is None:
        return replace(s, body=(*s.body[:-1], _renamed(s.body[-1], var, base, taken)))
    assign = s.body[at]
    assert isinstance(assign, Assign)
    new = replace(var, name=fresh_name(base, taken))
    rest = _renamed(substitute(Seq(s.body[at + 1 :]), {var: new}), new, base, taken)
    return sequence((*s.body[:at], Let(new, assign.value, rest, span=assign.span)))
