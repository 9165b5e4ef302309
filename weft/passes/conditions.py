"""Conditions as sets of facts that hold together, for passes that move tests around."""

from __future__ import annotations

from weft.ir.affine import Linear, linear_form
from weft.ir.dtype import index
from weft.ir.expr import Binary, Compare, Expr, Load, Var
from weft.ir.stmt import If, Stmt
from weft.ir.visit import rebuild, walk


def conjuncts(condition: Expr) -> list[Expr]:
    """The parts of ``a && b && c``."""
    if isinstance(condition, Binary) and condition.op == "&&":
        return [*conjuncts(condition.left), *conjuncts(condition.right)]
    return [condition]


def guarded(parts: list[Expr], body: Stmt) -> Stmt:
    """``body`` under all of ``parts``, the first tested first."""
    for part in reversed(parts):
        body = If(part, body, span=part.span or body.span)
    return body


def peel_guards(s: Stmt) -> tuple[list[Expr], Stmt]:
    """The conditions of the ifs (without else) that stand directly around a statement, and that statement."""
    parts: list[Expr] = []
    while isinstance(s, If) and s.otherwise is None:
        parts += conjuncts(s.condition)
        s = s.then
    return parts, s


def without_tests(s: Stmt, parts: list[Expr]) -> Stmt:
    """``s`` without the tests ``parts``."""
    s = rebuild(s, lambda n: without_tests(n, parts) if isinstance(n, Stmt) else n)
    if isinstance(s, If) and s.otherwise is None:
        return guarded([p for p in conjuncts(s.condition) if p not in parts], s.then)
    return s


def slack(condition: Expr) -> Linear | None:
    """The sum that must not be negative for a comparison of indices to hold, or None for other conditions."""
    if not isinstance(condition, Compare) or condition.left.dtype != index:
        return None
    low, high = condition.left, condition.right
    if condition.op in (">", ">="):
        low, high = high, low
    elif condition.op not in ("<", "<="):
        return None
    gap = Linear().add(linear_form(high)).add(linear_form(low), -1)
    gap.constant -= condition.op in ("<", ">")
    return gap


def is_pure(e: Expr, changing: frozenset[str] = frozenset()) -> bool:
    """Whether ``e`` reads neither memory nor variables that are assigned to: it may be evaluated anywhere in scope."""
    return not any(isinstance(n, Load) or (isinstance(n, Var) and n.name in changing) for n in walk(e))


def mentions(e: Expr, name: str) -> bool:
    return any(isinstance(n, Var) and n.name == name for n in walk(e))
