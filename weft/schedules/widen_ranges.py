"""Ranges that depend on other loops, made ready for a change of order.

A loop that is to stand outside one its range depends on, as in a triangle or after ``skew``, first gets
the widest range it can have and a test inside: the same iterations in the same order. Once the loops
have changed places, the test becomes part of the range of the loop it now stands in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from weft.ir.affine import Linear, linear_form
from weft.ir.expr import Binary, Compare, Const, Expr, Var, idx
from weft.ir.simplify import simplify
from weft.ir.stmt import For, If, Kernel, Stmt
from weft.ir.visit import free_vars
from weft.poly.verdict import Verdict, refuse
from weft.schedules.find import find_loop, ranges_at
from weft.schedules.rewrite import replace_stmt


def widen_ranges(kernel: Kernel, chain: Sequence[For], order: Sequence[str]) -> tuple[Kernel, list[Expr]] | Verdict:
    """``kernel`` with no loop of ``chain`` depending on one that comes after it in ``order``, and the tests it took."""
    tests: list[Expr] = []
    for loop in reversed(chain):
        name = loop.var.name
        inside = [other for other in chain if other.var.name in order[order.index(name) + 1 :]]
        loop_node = find_loop(kernel, name)
        lo, hi = _extreme(loop_node.lo, inside, -1), _extreme(loop_node.hi, inside, 1)
        if lo is None or hi is None:
            needed = {*free_vars(loop_node.lo), *free_vars(loop_node.hi)} & {other.var.name for other in inside}
            return refuse(f"the range of `{name}` depends on `{sorted(needed)[0]}`, which would be inside it")
        if lo == loop_node.lo and hi == loop_node.hi:
            continue
        own: list[Expr] = []
        if lo != loop_node.lo:
            own += _tests(">=", loop_node.var, loop_node.lo)
        if hi != loop_node.hi:
            own += _tests("<", loop_node.var, loop_node.hi)
        body = loop_node.body
        for test in reversed(own):
            body = If(test, body, span=loop_node.span)
        ranges = ranges_at(kernel, loop_node)
        wide = replace(loop_node, lo=simplify(lo, ranges), hi=simplify(hi, ranges), body=body)
        kernel = replace_stmt(kernel, loop_node, wide)
        tests += own
    return kernel, tests


def _extreme(bound: Expr, inside: Sequence[For], sign: int) -> Expr | None:
    """The least (-1) or greatest value of ``bound`` over the loops ``inside``, or one beyond it; None if unknown."""
    extreme: Expr | None = bound
    for loop in reversed(inside):
        extreme = None if extreme is None else _at_end(extreme, loop, sign)
    names = {loop.var.name for loop in inside}
    return None if extreme is None or names & set(free_vars(extreme)) else extreme


def _at_end(e: Expr, loop: For, sign: int) -> Expr | None:
    """``e`` with ``loop`` at the end of its range where ``e`` is least (-1) or greatest."""
    if loop.var.name not in free_vars(e):
        return e
    total = linear_form(e)
    for part, factor in list(total.terms.items()):
        if loop.var.name not in free_vars(part):
            continue
        towards = sign if factor > 0 else -sign
        if part == loop.var:
            end: Expr | None = loop.hi - idx(1) if towards > 0 else loop.lo
        else:
            end = _part_at_end(part, loop, towards)
        if end is None:
            return None
        total.terms.pop(part)
        total.add(linear_form(end), factor)
    return total.expr(e.dtype)


def _part_at_end(e: Expr, loop: For, sign: int) -> Expr | None:
    """The same for an expression that is no sum: one that grows with its operands."""
    if not isinstance(e, Binary) or not (e.op in ("min", "max") or (e.op == "//" and _is_positive(e.right))):
        return None
    left, right = _at_end(e.left, loop, sign), _at_end(e.right, loop, sign)
    return None if left is None or right is None else Binary(e.op, left, right)


def _is_positive(e: Expr) -> bool:
    return isinstance(e, Const) and int(e.value) > 0


def _tests(op: Literal["<", ">="], value: Expr, bound: Expr) -> list[Expr]:
    """``value op bound`` as tests without quotients, minima and maxima where that is possible."""
    extreme = "min" if op == "<" else "max"
    form = linear_form(bound)
    for part, factor in form.terms.items():
        if factor != 1 or not isinstance(part, Binary):
            continue
        rest = Linear().add(form).add(linear_form(part), -1).expr(bound.dtype)
        if part.op == extreme:
            return [t for side in (part.left, part.right) for t in _tests(op, value, side + rest)]
        if part.op == "//" and _is_positive(part.right):
            # v >= e // n means n * v + n - 1 >= e, and v < e // n means n * v + n - 1 < e.
            last = (value - rest) * part.right + (part.right - idx(1))
            return _tests(op, last, part.left)
    return [Compare(op, value, bound)]


def narrow_ranges(root: Stmt, tests: Sequence[Expr], *, deep: bool = True) -> Stmt:
    """``root`` with each of ``tests`` that stands directly in a loop made part of that loop's range.

    Only of the outermost loop where not ``deep``.
    """
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
    return replace(root, lo=lo, hi=hi, body=narrow_ranges(body, tests) if deep else body)


def _solve(test: Expr, var: Var) -> tuple[Expr | None, Expr | None] | None:
    """Where ``test`` holds: ``var`` from the first on, up to but not including the second."""
    if not isinstance(test, Compare) or test.left.dtype != var.dtype:
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
