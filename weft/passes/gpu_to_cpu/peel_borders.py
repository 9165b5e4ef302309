"""The first and the last thread of a row apart, where the others need not ask whether they are these.

``thread x in 0:w { B[x] = A[x == 0 ? x : x - 1] + A[x == w - 1 ? x : x + 1] }`` becomes one thread that is at ``0``,
one at ``w - 1``, and a row between them that tests nothing: vectors without masks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Literal

from weft.ir import dtype as dt
from weft.ir.affine import Linear, linear_form
from weft.ir.expr import Binary, Compare, Const, Expr, Select, Var, idx
from weft.ir.interval import Ranges, bounds
from weft.ir.nesting import has_loop
from weft.ir.simplify import assigned_names, simplify
from weft.ir.stmt import For, If, Kernel, Let, Seq, Stmt
from weft.ir.visit import count_nodes, free_vars, fresh_name, map_statements, mentions, rewrite, used_names, walk
from weft.passes.analysis.are_apart import sides
from weft.passes.analysis.conditions import guarded, is_pure
from weft.passes.analysis.loop_ranges import constant_extent, ranges_inside
from weft.passes.plain.inline_indices import inline_positions

#: Nodes of a row's body that may be written out three times, and threads of a row that stay together: a vector or two,
#: which cost less under masks than a few threads alone.
LONGEST, SHORTEST = 1000, 16


def peel_borders(kernel: Kernel) -> Kernel:
    """``kernel`` with threads at the ends of rows apart, where something is asked there."""
    body = _visit(kernel.body, {}, assigned_names(kernel.body), used_names(kernel))
    return replace(kernel, body=rewrite(body, _factored))


def _factored(n: object) -> Expr | None:
    """``c ? x + a : x + b`` as ``x + (c ? a : b)``, where ``c`` does not depend on ``x``: lanes stay side by side."""
    if not isinstance(n, Select) or n.dtype != dt.index:
        return None
    then, otherwise = linear_form(n.then), linear_form(n.otherwise)
    asked = set(free_vars(n.condition))
    common = Linear({
        e: factor
        for e, factor in then.terms.items()
        if otherwise.terms.get(e) == factor and asked.isdisjoint(free_vars(e))
    })  # fmt: skip
    if not common.terms:
        return None
    one, other = (arm.add(common, -1).expr(dt.index) for arm in (then, otherwise))
    return common.expr(dt.index) + Select(n.condition, one, other, span=n.span)


def _visit(s: Stmt, ranges: Ranges, changing: frozenset[str], taken: set[str]) -> Stmt:
    if isinstance(s, Let) and s.var.dtype == dt.index and s.var.name not in changing:
        ranges = {**ranges, s.var.name: bounds(s.value, ranges)}
    if not isinstance(s, For):
        return map_statements(s, lambda n: _visit(n, ranges, changing, taken))
    if s.kind == "thread" and not has_loop(s.body, "thread"):
        extent = constant_extent(s)
        short = extent is not None and extent <= SHORTEST
        return s if short or count_nodes(s.body) > LONGEST else _peeled(s, ranges, changing, taken)
    return replace(s, body=_visit(s.body, ranges_inside(s, ranges), changing, taken))


def _peeled(loop: For, ranges: Ranges, changing: frozenset[str], taken: set[str]) -> Stmt:
    apart: list[Stmt] = []
    for is_last in (False, True):
        end = next((e for e in _asked(loop, changing) if _is_end(e, loop, ranges, is_last=is_last)), None)
        if end is not None:
            there = [Compare("<=", loop.lo, end), Compare("<", end, loop.hi)]
            apart.append(guarded(list(map(simplify, there)), Let(loop.var, end, _decided(loop, end, is_there=True))))
            body = _decided(loop, end, is_there=False)
            if is_last:
                loop = replace(loop, hi=_extreme("min", loop.hi, end, ranges), body=body)
            else:
                loop = replace(loop, lo=_extreme("max", loop.lo, end + idx(1), ranges), body=body)
    inner = next(_asked(loop, changing), None)
    if inner is not None:
        return Seq((*apart, *_cut_at(loop, inner, taken)), span=loop.span)
    return Seq((*apart, _named(loop, taken)), span=loop.span) if apart else loop


def _cut_at(loop: For, place: Expr, taken: set[str]) -> Iterator[Stmt]:
    """The threads before ``place``, the one that is there, and those after it: where it is not known where it is."""
    elsewhere = replace(loop, body=_decided(loop, place, is_there=False))
    yield _named(replace(elsewhere, hi=simplify(Binary("min", loop.hi, place))), taken)
    there = [Compare("<=", loop.lo, place), Compare("<", place, loop.hi)]
    yield guarded(list(map(simplify, there)), Let(loop.var, place, _decided(loop, place, is_there=True)))
    yield _named(replace(elsewhere, lo=simplify(Binary("max", loop.lo, place + idx(1)))), taken)


def _named(loop: For, taken: set[str]) -> Stmt:
    """The loop with its bounds computed before it, so that what is made of it stays short."""
    first, end = (Var(fresh_name(f"{loop.var.name}_{what}", taken)) for what in ("first", "end"))
    return Let(first, loop.lo, Let(end, loop.hi, replace(loop, lo=first, hi=end)))


def _extreme(op: Literal["min", "max"], bound: Expr, limit: Expr, ranges: Ranges) -> Expr:
    """The extreme of both, without those parts of ``bound`` that ``limit`` is surely beyond."""
    extreme: Expr = limit
    for side in sides(bound, op):
        least = linear_form(side - limit if op == "min" else limit - side).bounds(ranges).lo
        if least is None or least < 0:
            extreme = Binary(op, extreme, side)
    return simplify(extreme)


def _asked(loop: For, changing: frozenset[str]) -> Iterator[Expr]:
    """What the variable is compared with."""
    inside = mentions(loop.body).bound
    for n in walk(loop.body):
        if isinstance(n, (If, Select)):
            for test in walk(n.condition):
                place = _place(test, loop.var) if isinstance(test, Compare) else None
                if place is not None and is_pure(place, changing) and not inside & set(free_vars(place)):
                    yield place


def _place(test: Compare, var: Var) -> Expr | None:
    """The value of ``var`` for which the two sides of ``test`` are equal."""
    if test.op not in ("==", "!=") or test.left.dtype != dt.index:
        return None
    gap = linear_form(Binary("-", test.right, test.left))
    factor = gap.terms.pop(var, 0)
    if factor not in (1, -1) or any(var.name in free_vars(e) for e in gap.terms):
        return None
    return Linear().add(gap, -factor).expr(dt.index)


def _is_end(place: Expr, loop: For, ranges: Ranges, *, is_last: bool) -> bool:
    """Whether no iteration of ``loop`` is before ``place``, or none is after it."""
    for side in sides(loop.hi, "min") if is_last else sides(loop.lo, "max"):
        beyond = place - side if is_last else side - place
        least = linear_form(beyond).bounds(ranges).lo
        if least is not None and least >= (-1 if is_last else 0):
            return True
    return False


def _decided(loop: For, place: Expr, *, is_there: bool) -> Stmt:
    """The body of ``loop`` where its variable is ``place``, or where it is not."""

    def value(n: object) -> Expr | None:
        if isinstance(n, Compare) and _place(n, loop.var) == place:
            return Const((n.op == "==") == is_there, dt.bool_)
        return None

    return simplify(inline_positions(simplify(rewrite(loop.body, value))))
