"""Serial loops cut where tests inside turn: what surely fails is not run, what surely holds not asked.

``for i_o in 0:64 { alloc R  ...  vector j { if i_o * 4 <= j_o * 64 + j { O[...] = R[j] } } }`` has nothing to do beyond
``i_o = j_o * 16 + 15``: tiles beside a triangle are not computed only to be dropped.

``for t in 0:64 { unroll i in 0:4 { if t < s + i { ... } } }`` runs ``t`` to ``min(64, s)`` without tests, since no
``i`` is below 0, and tests in the few iterations that are left. Compilers call this index-set splitting.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from weft.ir.expr import Binary, Expr, Var
from weft.ir.nesting import inner_statements
from weft.ir.simplify import assigned_names, simplify
from weft.ir.stmt import Alloc, For, If, Kernel, Let, Seq, Stmt, Store
from weft.ir.visit import count_nodes, free_vars, fresh_name, map_statements, substitute, used_names, walk
from weft.passes.analysis.conditions import LONGEST, conjuncts, is_pure, slack, without_tests
from weft.passes.analysis.loop_ranges import constant_extent
from weft.passes.analysis.truth import Asked, Inner, Turn, asked_in, inner_of, turn_along
from weft.passes.registers.unroll_registers import subscripts_register

#: What may be skipped where nothing that it stores is seen.
_PLAIN = (Seq, For, If, Let, Alloc, Store)


def cut_loops(kernel: Kernel) -> Kernel:
    """Serial loops from the first to the last iteration that may store, those apart in which no test matters."""
    changing, taken = assigned_names(kernel.body), used_names(kernel)
    narrowed = _each_serial(kernel.body, lambda loop: _narrowed(loop, changing))
    return replace(kernel, body=_each_serial(narrowed, lambda loop: _parted(loop, changing, taken)))


def _each_serial(s: Stmt, visit: Callable[[For], Stmt]) -> Stmt:
    """``s`` with what ``visit`` makes of its serial loops, inner ones first."""
    s = map_statements(s, lambda n: _each_serial(n, visit))
    return visit(s) if isinstance(s, For) and s.kind == "serial" else s


def _turns(loop: For, asked: Asked, changing: frozenset[str], *, for_all: bool) -> Turn | None:
    """Where ``asked`` turns along ``loop``."""
    gap = slack(asked.test) if is_pure(asked.test, changing) else None
    return None if gap is None else turn_along(gap, loop.var, asked.inner, for_all=for_all)


# What surely fails


def _narrowed(loop: For, changing: frozenset[str]) -> For:
    """``loop`` without iterations at its ends in which a test around each store surely fails."""
    if not any(isinstance(n, For) for n in walk(loop.body)):
        return loop
    if not all(isinstance(n, _PLAIN) for n in walk(loop.body) if isinstance(n, Stmt)):
        return loop
    own = frozenset(n.buffer.name for n in walk(loop.body) if isinstance(n, Alloc))
    spans = {_span(loop, tests, changing) for tests in _tests_of_stores(loop.body, own, (), {})}
    if len(spans) != 1:
        return loop
    first, stop = spans.pop()
    lo = loop.lo if first is None else simplify(Binary("max", loop.lo, first))
    hi = loop.hi if stop is None else simplify(Binary("min", loop.hi, stop))
    return loop if (lo, hi) == (loop.lo, loop.hi) else replace(loop, lo=lo, hi=hi)


def _tests_of_stores(
    s: Stmt, own: frozenset[str], tests: tuple[Asked, ...], inner: Inner
) -> Iterator[tuple[Asked, ...]]:
    """Of each store that is seen outside of the loop, the tests around it."""
    if isinstance(s, Store):
        if s.buffer.name not in own:
            yield tests
        return
    inner = inner_of(s, inner)
    if isinstance(s, If) and s.otherwise is None:
        tests = (*tests, *(Asked(test, inner) for test in conjuncts(s.condition)))
    for child in inner_statements(s):
        yield from _tests_of_stores(child, own, tests, inner)


def _span(loop: For, tests: tuple[Asked, ...], changing: frozenset[str]) -> tuple[Expr | None, Expr | None]:
    """From which iteration on, and before which one, all ``tests`` may hold; None where that is not known."""
    first = stop = None
    for asked in tests:
        turn = _turns(loop, asked, changing, for_all=False)
        if turn is not None and turn.begins:
            first = turn.at if first is None else Binary("max", first, turn.at)
        elif turn is not None:
            stop = turn.at if stop is None else Binary("min", stop, turn.at)
    return first, stop


# What surely holds


def _parted(loop: For, changing: frozenset[str], taken: set[str]) -> Stmt:
    """``loop`` up to where tests in unrolled and vector loops stop to hold for all of these, then the others."""
    if subscripts_register(loop):
        return loop
    tests = [
        (asked.test, turn.at)
        for asked in asked_in(loop.body, {}, ("unroll", "vector"), in_others=False)
        if (turn := _turns(loop, asked, changing, for_all=True)) is not None and not turn.begins
        if asked.inner.keys() & free_vars(asked.test).keys()
    ]
    asked_once = [test for test, _ in tests]
    if not tests or count_nodes(loop.body) > LONGEST or _is_tested_deeper(loop, asked_once):
        return loop
    middle = loop.hi
    for _, end in tests:
        middle = simplify(Binary("min", middle, end))
    middle = simplify(Binary("max", middle, loop.lo))
    full = replace(loop, hi=middle, body=without_tests(loop.body, asked_once))
    return Seq((full, _rest(loop, middle, taken)), span=loop.span)


def _is_tested_deeper(loop: For, tests: list[Expr]) -> bool:
    """Whether more tests of ``loop`` are in loops inside it than were ``tests``: `separate_tiles` asks all together."""
    return any(
        loop.var.name in free_vars(test) and slack(test) is not None and test not in tests
        for test, _ in asked_in(loop.body, {})
    )


def _rest(loop: For, middle: Expr, taken: set[str]) -> Stmt:
    """The iterations of ``loop`` from ``middle`` on; of a single one the number is written in."""
    again = Var(fresh_name(loop.var.name, taken), span=loop.var.span)
    rest = replace(loop, var=again, lo=middle, body=substitute(loop.body, {loop.var: again}))
    return simplify(substitute(rest.body, {again: middle})) if constant_extent(rest) == 1 else rest
