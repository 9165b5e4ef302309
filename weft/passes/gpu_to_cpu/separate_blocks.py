"""Blocks in the middle of the data apart from those at its edges.

Threads test whether they are inside the data. In most blocks all threads are: one test for the whole block picks
a copy of its code in which these tests are decided.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from weft.ir import dtype as dt
from weft.ir.affine import Linear, linear_form
from weft.ir.expr import Binary, Compare, Const, Expr, Select, idx
from weft.ir.interval import Interval
from weft.ir.nesting import has_loop, strip
from weft.ir.simplify import Simplifier, assigned_names, simplify
from weft.ir.stmt import Alloc, For, If, Kernel, Stmt
from weft.ir.visit import children, count_nodes, free_vars, map_statements, mentions, rewrite, walk
from weft.passes.analysis.conditions import all_of, conjuncts, is_fixed, is_pure, slack, strictest
from weft.passes.analysis.loop_ranges import constant_extent, loop_range
from weft.passes.analysis.truth import Inner, for_all_inner, least_over

#: Nodes of a block's code that may be written out twice, and tests that may be made for it.
LONGEST, MOST_TESTS = 6000, 16


@dataclass(frozen=True, slots=True)
class _Decided:
    """Where ``when`` holds, ``test`` is ``value`` in every thread."""

    test: Expr
    when: Expr
    value: bool


def separate_blocks(kernel: Kernel) -> Kernel:
    """``kernel`` with code of its own for blocks in which tests of positions hold for all threads."""
    return replace(kernel, body=_visit(kernel.body))


def _visit(s: Stmt) -> Stmt:
    if isinstance(s, For) and s.kind == "block" and not has_loop(s.body, "block"):
        return replace(s, body=_separate(s.body)) if has_loop(s.body, "thread") else s
    return map_statements(s, _visit)


def _separate(body: Stmt) -> Stmt:
    """Storage stays around both copies."""
    body = strip(body)
    if isinstance(body, Alloc):
        return replace(body, body=_separate(body.body))
    conditions, middle = decide(body)
    if not conditions or len(conditions) > MOST_TESTS or count_nodes(body) > LONGEST:
        return body
    condition = simplify(all_of(conditions))
    return If(condition, _Middle(condition, assigned_names(middle)).node(middle), body, span=body.span)


class _Middle(Simplifier):
    """Simplifies where ``condition`` holds; ``min(t + 1, n - b)`` is ``t + 1`` if ``n - b`` is beyond all threads."""

    def __init__(self, condition: Expr, changing: frozenset[str]) -> None:
        super().__init__(None)
        self.mutable = set(changing)
        self.ranges = self.facts(condition, True)
        lasting = [c for c in conjuncts(condition) if is_pure(c, changing)]
        self.known = [gap for gap in map(slack, lasting) if gap is not None]

    def difference(self, left: Expr, right: Expr, t: dt.DType) -> Interval:
        """Bounds of ``left - right``, which is more than 0 by what it is more than a sum that is not negative."""
        found = super().difference(left, right, t)
        if t == dt.index and found.lo is None:
            found = found.intersect(Interval(self._least(left, right), None))
        if t == dt.index and found.hi is None:
            most = self._least(right, left)
            found = found.intersect(Interval(None, None if most is None else -most))
        return found

    def _least(self, left: Expr, right: Expr) -> int | None:
        gap = linear_form(left).add(linear_form(right), -1)
        shared = (one for one in self.known if not one.terms.keys().isdisjoint(gap.terms))
        more = [Linear().add(gap).add(one, -1).bounds(self.ranges).lo for one in shared]
        return max((least for least in more if least is not None), default=None)


def decide(body: Stmt) -> tuple[list[Expr], Stmt]:
    """``body`` with tests of positions decided for all its threads, and what must hold for that."""
    decided = list(_decided(body))
    values = {d.test: Const(d.value, dt.bool_) for d in decided}
    middle = simplify(rewrite(body, lambda n: values.get(n) if isinstance(n, Compare) else None))
    return strictest(d.when for d in decided), middle


def _decided(body: Stmt) -> Iterator[_Decided]:
    loops: dict[str, list[For]] = {}
    for n in walk(body):
        if isinstance(n, For):
            loops.setdefault(n.var.name, []).append(n)
    stored = mentions(body).stored
    inner = {**dict.fromkeys(mentions(body).bound), **{name: _range_of(found) for name, found in loops.items()}}
    for test in _tests(body):
        names = set(free_vars(test))
        if names & set(inner) and names - set(inner):
            yield from _decide(test, inner, stored)


def _range_of(loops: Sequence[For]) -> Interval | None:
    """What a variable can be in any of its ``loops``; a test may stand in all of them."""
    if any(constant_extent(loop) is None for loop in loops):
        return None
    return functools.reduce(Interval.union, (loop_range(loop, {}) for loop in loops))


def _tests(s: Stmt) -> Iterator[Compare]:
    """Comparisons of positions that choose what is done."""
    for n in walk(s):
        if isinstance(n, (If, Select)):
            yield from _comparisons(n.condition)


def _comparisons(e: Expr) -> Iterator[Compare]:
    if isinstance(e, Compare) and e.left.dtype == dt.index:
        yield e
    elif not isinstance(e, Compare):
        for conjunct in children(e):
            if isinstance(conjunct, Expr):
                yield from _comparisons(conjunct)


def _decide(test: Compare, inner: Inner, stored: frozenset[str]) -> Iterator[_Decided]:
    gap = slack(test)
    if gap is not None:
        when = for_all_inner(test, inner, stored=stored)
        if when is not None:
            yield _Decided(test, when, True)
        return
    if not is_fixed(test, stored=stored):
        return
    apart = linear_form(Binary("-", test.right, test.left))
    below, above = least_over(apart, inner), least_over(Linear().add(apart, -1), inner)
    if below is not None and above is not None and test.op in ("==", "!="):
        beyond = [Compare(">=", side.expr(dt.index), idx(1)) for side in (below, above)]
        yield _Decided(test, Binary("||", beyond[0], beyond[1]), test.op == "!=")
