"""Ranges that depend on other loops, made ready for a change of order.

A loop that is to stand outside one its range depends on, as in a triangle or after ``skew``, first gets
the widest range it can have and a test inside: the same iterations in the same order. Once the loops
have changed places, the test becomes part of the range of the loop it now stands in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from weft.ir.affine import Linear, linear_form
from weft.ir.expr import Binary, Compare, Expr, Var, idx
from weft.ir.simplify import simplify
from weft.ir.stmt import For, If, Kernel, Stmt
from weft.ir.visit import free_vars
from weft.poly.verdict import Verdict, refuse
from weft.schedules.rewrite import find_loop, ranges_at, replace_stmt


def widen_ranges(kernel: Kernel, chain: Sequence[For], order: Sequence[str]) -> tuple[Kernel, list[Expr]] | Verdict:
    """``kernel`` with no loop of ``chain`` depending on one that comes after it in ``order``, and the tests it took."""
    tests: list[Expr] = []
    for loop in reversed(chain):
        name = loop.var.name
        inside = [other for other in chain if other.var.name in order[order.index(name) + 1 :]]
        found = find_loop(kernel, name)
        lo, hi = _extreme(found.lo, inside, -1), _extreme(found.hi, inside, 1)
        if lo is None or hi is None:
            needed = {*free_vars(found.lo), *free_vars(found.hi)} & {other.var.name for other in inside}
            return refuse(f"the range of `{name}` depends on `{sorted(needed)[0]}`, which would be inside it")
        if lo == found.lo and hi == found.hi:
            continue
        own: list[Expr] = []
        if lo != found.lo:
            own.append(Compare(">=", found.var, found.lo))
        if hi != found.hi:
            own.append(Compare("<", found.var, found.hi))
        body = found.body
        for test in reversed(own):
            body = If(test, body, span=found.span)
        ranges = ranges_at(kernel, found)
        wide = replace(found, lo=simplify(lo, ranges), hi=simplify(hi, ranges), body=body)
        kernel = replace_stmt(kernel, found, wide)
        tests += own
    return kernel, tests


def _extreme(bound: Expr, inside: Sequence[For], sign: int) -> Expr | None:
    """The least (-1) or greatest value of ``bound`` over the loops ``inside``; None where it is not linear in them."""
    names = {loop.var.name for loop in inside}
    if not names & set(free_vars(bound)):
        return bound
    form = linear_form(bound)
    for loop in reversed(inside):
        factor = form.terms.pop(loop.var, 0)
        if factor:
            end = loop.hi - idx(1) if factor * sign > 0 else loop.lo
            form.add(linear_form(end), factor)
    found = form.expr(bound.dtype)
    return None if names & set(free_vars(found)) else found


def narrow_ranges(root: Stmt, tests: Sequence[Expr]) -> Stmt:
    """``root`` with each of ``tests`` that stands directly in a loop made part of that loop's range."""
    if isinstance(root, If):
        return replace(root, then=narrow_ranges(root.then, tests))
    if not isinstance(root, For):
        return root
    lo, hi, body = root.lo, root.hi, root.body
    while isinstance(body, If) and body.condition in tests:
        bound = _solve(body.condition, root.var)
        if bound is None:
            break
        least, most = bound
        lo = lo if least is None else Binary("max", lo, least)
        hi = hi if most is None else Binary("min", hi, most)
        body = body.then
    return replace(root, lo=lo, hi=hi, body=narrow_ranges(body, tests))


def _solve(test: Expr, var: Var) -> tuple[Expr | None, Expr | None] | None:
    """Where ``test`` holds: ``var`` from the first on, up to but not including the second."""
    if not isinstance(test, Compare):
        return None
    gap = linear_form(Binary("-", test.left, test.right))
    if test.op == "<":  # gap < 0, that is -gap - 1 >= 0
        gap = Linear().add(gap, -1).add(Linear({}, -1))
    elif test.op != ">=":
        return None
    factor = gap.terms.pop(var, 0)
    rest = gap.expr(var.dtype)
    if factor == 0 or var.name in free_vars(rest):
        return None
    if factor > 0:  # var >= ceil(-rest / factor)
        return (-rest if factor == 1 else -Binary("//", rest, idx(factor))), None
    return None, (rest if factor == -1 else Binary("//", rest, idx(-factor))) + idx(1)
