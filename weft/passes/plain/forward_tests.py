"""Variables that say whether a test held, as the test itself.

``done = false; if t < n { done = true; A }; barrier; if done { B }`` becomes ``done = t < n; if t < n { A }; barrier;
if t < n { B }``: what ``B`` depends on is known where it stands. This is if-conversion, then forward substitution of
what was assigned last.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from weft.ir import dtype as dt
from weft.ir.expr import Const, Expr, Var
from weft.ir.nesting import sequence
from weft.ir.simplify import assigned_names
from weft.ir.stmt import Assign, If, Let, Seq, Stmt
from weft.ir.visit import free_vars, map_statements, substitute
from weft.passes.analysis.conditions import is_pure


def forward_tests(s: Stmt, is_fixed: Callable[[Expr], bool]) -> Stmt:
    """``s`` with tests for the variables that hold them, where they are ``is_fixed``: the same wherever they stand."""
    if not assigned_names(s):
        return s
    s = map_statements(s, lambda n: forward_tests(n, is_fixed))
    if isinstance(s, Let) and s.var.dtype == dt.bool_:
        first, *others = s.body.body if isinstance(s.body, Seq) and s.body.body else (s.body,)
        value, first = _joined(s.var, s.value, first)
        return s if value is s.value else replace(s, value=value, body=sequence((first, *others)))
    return _forwarded(s, is_fixed) if isinstance(s, Seq) else s


def _joined(var: Var, value: Expr, following: Stmt) -> tuple[Expr, Stmt]:
    """What ``var``, which was just made ``value``, is after the ``following`` statement, where that is a test."""
    if not isinstance(following, If) or following.otherwise is not None or not is_pure(following.condition):
        return value, following
    then = following.then
    first, *others = then.body if isinstance(then, Seq) and then.body else (then,)
    is_told = isinstance(first, Assign) and first.var == var and _is(first.value, True)
    if not is_told or not _is(value, False) or var.name in free_vars(following.condition):
        return value, following
    return following.condition, replace(following, then=sequence(others))


def _is(e: Expr, value: bool) -> bool:
    return isinstance(e, Const) and e.value == value


def _forwarded(s: Seq, is_fixed: Callable[[Expr], bool]) -> Stmt:
    """A sequence in which what is assigned stands for the variable until that is assigned again."""
    body = list(s.body)
    held: dict[Var, Expr] = {}
    for n, stmt in enumerate(body):
        held = {var: value for var, value in held.items() if var.name not in assigned_names(stmt)}
        body[n] = stmt = substitute(stmt, held)
        if isinstance(stmt, Assign) and stmt.var.dtype == dt.bool_:
            value = stmt.value
            if n + 1 < len(body):
                value, body[n + 1] = _joined(stmt.var, value, body[n + 1])
            body[n] = replace(stmt, value=value)
            if is_fixed(value):
                held[stmt.var] = value
    return s if all(new is old or new == old for new, old in zip(body, s.body)) else sequence(body)
