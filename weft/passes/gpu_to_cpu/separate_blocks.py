"""Blocks in the middle of the data apart from those at its edges.

Threads test whether they are inside the data. In most blocks all threads are: one test for the whole block picks
a copy of its code in which these tests are decided.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import replace

from weft.ir import dtype as dt
from weft.ir.affine import Linear, linear_form
from weft.ir.expr import Binary, Compare, Const, Expr
from weft.ir.interval import Interval
from weft.ir.nesting import has_loop, strip
from weft.ir.simplify import Simplifier, assigned_names, simplify
from weft.ir.stmt import Alloc, For, If, Kernel, Stmt
from weft.ir.visit import Node, count_nodes, free_vars, map_statements, mentions
from weft.passes.analysis.conditions import all_of, conjuncts, is_pure, slack, strictest
from weft.passes.analysis.truth import Inner, for_all_of
from weft.passes.guards.ask_once import Choice, Decided, decide

#: Nodes of a block's code that may be written out twice, and tests that may be made for it.
LONGEST, MOST_TESTS = 6000, 16


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
    middle = _decided(body)
    asked = strictest(middle.asked)
    if not asked or len(asked) > MOST_TESTS or count_nodes(body) > LONGEST:
        return body
    condition = simplify(all_of(asked))
    main = _Middle(condition, assigned_names(middle.main)).node(simplify(middle.main))
    return If(condition, main, body, span=body.span)


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


def _decided(body: Stmt) -> Decided:
    """``body`` with tests of positions decided for all its threads, by what is the same in all of them."""
    changing, stored = assigned_names(body), mentions(body).stored

    def proof(needs: Sequence[Expr], inner: Inner) -> Sequence[Expr] | None:
        names = {name for need in needs for name in free_vars(need)}
        of_both = names & inner.keys() and names - inner.keys()
        asked = for_all_of(needs, inner, changing, stored) if of_both else None
        return None if asked is None else [functools.reduce(lambda a, b: Binary("||", a, b), asked)]

    return decide(body, {}, _choices, proof)


def _choices(n: Node) -> Iterator[Choice]:
    """What a comparison of positions is where one of the needs holds for all threads."""
    if isinstance(n, Compare) and n.left.dtype == dt.index:
        if n.op in ("==", "!="):
            before_or_after = [Compare("<", n.left, n.right), Compare("<", n.right, n.left)]
            yield Choice(Const(n.op == "!=", dt.bool_), before_or_after)
        else:
            yield Choice(Const(True, dt.bool_), [n])
