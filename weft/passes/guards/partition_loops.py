"""Loops cut where a test inside starts to matter: most iterations then run without it.

``for t in 0:64 { unroll i in 0:4 { if t < s + i { ... } } }`` runs ``t`` to ``min(64, s)`` without tests, since no
``i`` is below 0, and tests in the few iterations that are left.

Compilers call this index-set splitting.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from weft.ir import dtype as dt
from weft.ir.expr import Binary, Expr, Var, idx
from weft.ir.interval import Interval
from weft.ir.simplify import assigned_names, simplify
from weft.ir.stmt import Alloc, For, If, Kernel, Seq, Stmt
from weft.ir.visit import count_nodes, fresh_name, map_statements, substitute, used_names, walk
from weft.passes.analysis.conditions import LONGEST, conjuncts, is_pure, least_over, mentions, slack, without_tests
from weft.passes.analysis.loop_ranges import constant_extent, loop_range
from weft.passes.registers.unroll_registers import subscripts_register


def partition_loops(kernel: Kernel) -> Kernel:
    """Serial loops around unrolled or vector ones cut at the tests in those."""
    changing = assigned_names(kernel.body)
    taken = used_names(kernel)
    return replace(kernel, body=_visit(kernel.body, changing, taken))


def _visit(s: Stmt, changing: frozenset[str], taken: set[str]) -> Stmt:
    s = map_statements(s, lambda n: _visit(n, changing, taken))
    if not isinstance(s, For) or s.kind != "serial" or subscripts_register(s):
        return s
    tests = [(part, end) for part, end in _tests(s, s.body, {}) if is_pure(part, changing)]
    if not tests or count_nodes(s.body) > LONGEST or _is_tested_deeper(s, [part for part, _ in tests]):
        return s
    return _cut(s, tests, taken)


def _is_tested_deeper(loop: For, tests: list[Expr]) -> bool:
    """Whether more tests of ``loop`` are in loops inside it than were ``tests``: `separate_tiles` asks all together."""
    inside = [n for n in walk(loop.body) if isinstance(n, If) and n.otherwise is None]
    parts = (conjunct for n in inside for conjunct in conjuncts(n.condition))
    return any(
        mentions(conjunct, loop.var.name) and slack(conjunct) is not None and conjunct not in tests
        for conjunct in parts
    )


def _tests(loop: For, s: Stmt, inner: Mapping[str, Interval]) -> Iterator[tuple[Expr, Expr]]:
    """The tests in unrolled and vector loops that hold up to some iteration of ``loop``, each with the last one."""
    if isinstance(s, For):
        if s.kind not in ("unroll", "vector") or not constant_extent(s):
            return
        yield from _tests(loop, s.body, {**inner, s.var.name: loop_range(s, {})})
    elif isinstance(s, Seq):
        for step in s.body:
            yield from _tests(loop, step, inner)
    elif isinstance(s, Alloc):
        yield from _tests(loop, s.body, inner)
    elif isinstance(s, If) and s.otherwise is None:
        for conjunct in conjuncts(s.condition):
            end = _last_iteration(loop, conjunct, inner)
            if end is not None:
                yield conjunct, end
        yield from _tests(loop, s.then, inner)


def _last_iteration(loop: For, conjunct: Expr, inner: Mapping[str, Interval]) -> Expr | None:
    """The last value of ``loop`` for which ``conjunct`` holds whatever the ``inner`` variables are."""
    gap = slack(conjunct)
    if gap is None or not any(mentions(conjunct, name) for name in inner):
        return None
    step = -gap.terms.pop(loop.var, 0)
    last = least_over(gap, {**inner, loop.var.name: None}) if step > 0 else None
    return None if last is None else simplify(Binary("//", last.expr(dt.index), idx(step)))


def _cut(loop: For, tests: list[tuple[Expr, Expr]], taken: set[str]) -> Stmt:
    """The iterations in which all ``tests`` hold, then the others."""
    middle: Expr = loop.hi
    for _, last in tests:
        middle = simplify(Binary("min", middle, last + idx(1)))
    middle = simplify(Binary("max", middle, loop.lo))
    full = replace(loop, hi=middle, body=without_tests(loop.body, [part for part, _ in tests]))
    return Seq((full, _rest(loop, middle, taken)), span=loop.span)


def _rest(loop: For, middle: Expr, taken: set[str]) -> Stmt:
    """The iterations of ``loop`` from ``middle`` on; of a single one the number is written in."""
    again = Var(fresh_name(loop.var.name, taken), span=loop.var.span)
    rest = replace(loop, var=again, lo=middle, body=substitute(loop.body, {loop.var: again}))
    return simplify(substitute(rest.body, {again: middle})) if constant_extent(rest) == 1 else rest
