"""Loops that stop where all they store is no longer asked for.

``for i_o in 0:64 { alloc R  ...  vector j { if i_o * 4 <= j_o * 64 + j { O[...] = R[j] } } }`` has nothing to do beyond
``i_o = j_o * 16 + 15``: tiles beside a triangle are not computed only to be dropped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from weft.ir import dtype as dt
from weft.ir.affine import Linear
from weft.ir.expr import Binary, BinaryOp, Expr, idx
from weft.ir.interval import Interval
from weft.ir.nesting import inner_statements
from weft.ir.simplify import assigned_names, simplify
from weft.ir.stmt import Alloc, For, If, Kernel, Let, Seq, Stmt, Store
from weft.ir.visit import map_statements, walk
from weft.passes.analysis.conditions import conjuncts, is_pure, least_over, mentions, slack
from weft.passes.analysis.loop_ranges import constant_extent, loop_range

Inner = Mapping[str, Interval | None]
#: A test, and the variables inside the loop that it stands in.
Test = tuple[Expr, Inner]
_PLAIN = (Seq, For, If, Let, Alloc, Store)


def narrow_loops(kernel: Kernel) -> Kernel:
    """``kernel`` with serial loops that run from the first to the last iteration that may store."""
    if not any(isinstance(n, If) for n in walk(kernel)):
        return kernel
    body = _visit(kernel.body, assigned_names(kernel.body))
    return kernel if body is kernel.body else replace(kernel, body=body)


def _visit(s: Stmt, changing: frozenset[str]) -> Stmt:
    s = map_statements(s, lambda n: _visit(n, changing))
    if not isinstance(s, For) or s.kind != "serial" or not any(isinstance(n, For) for n in walk(s.body)):
        return s
    if not all(isinstance(n, _PLAIN) for n in walk(s.body) if isinstance(n, Stmt)):
        return s
    own = frozenset(n.buffer.name for n in walk(s.body) if isinstance(n, Alloc))
    spans = {_span(s, tests, changing) for tests in _tests_of_stores(s.body, own, (), {})}
    return _limited(s, *spans.pop()) if len(spans) == 1 else s


def _tests_of_stores(s: Stmt, own: frozenset[str], tests: tuple[Test, ...], inner: Inner) -> Iterator[tuple[Test, ...]]:
    """Of each store that is seen outside of the loop, the tests around it."""
    if isinstance(s, Store):
        if s.buffer.name not in own:
            yield tests
        return
    if isinstance(s, For):
        inner = {**inner, s.var.name: loop_range(s, {}) if constant_extent(s) else None}
    elif isinstance(s, Let):
        inner = {**inner, s.var.name: None}
    elif isinstance(s, If) and s.otherwise is None:
        tests = (*tests, *((conjunct, inner) for conjunct in conjuncts(s.condition)))
    for child in inner_statements(s):
        yield from _tests_of_stores(child, own, tests, inner)


def _span(loop: For, tests: tuple[Test, ...], changing: frozenset[str]) -> tuple[Expr | None, Expr | None]:
    """From which iteration on, and before which one, all ``tests`` may hold; None where that is not known."""
    ends: dict[BinaryOp, Expr | None] = {"max": None, "min": None}
    for part, inner in tests:
        gap = slack(part) if mentions(part, loop.var.name) and is_pure(part, changing) else None
        step = 0 if gap is None else gap.terms.pop(loop.var, 0)
        least = None if gap is None or step == 0 else least_over(Linear().add(gap, -1), {**inner, loop.var.name: None})
        if least is None:
            continue
        reach = Linear().add(least, -1).expr(dt.index)
        op: BinaryOp = "max" if step > 0 else "min"
        end = -(reach // idx(step)) if step > 0 else reach // idx(-step) + 1
        span = ends[op]
        ends[op] = end if span is None else Binary(op, span, end)
    return ends["max"], ends["min"]


def _limited(loop: For, lo: Expr | None, hi: Expr | None) -> For:
    first = loop.lo if lo is None else simplify(Binary("max", loop.lo, lo))
    stop = loop.hi if hi is None else simplify(Binary("min", loop.hi, hi))
    return loop if (first, stop) == (loop.lo, loop.hi) else replace(loop, lo=first, hi=stop)
