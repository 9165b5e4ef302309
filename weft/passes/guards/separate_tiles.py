"""Full tiles without tests: an iteration asks once whether its whole tile is inside; only if not, each point is tested.

::

    for i_o in 0:13 { unroll i_i in 0:8 { if i_o * 8 + i_i < 100 { ... } } }
    ->  for i_o in 0:13 { if i_o * 8 < 93 { unroll i_i in 0:8 { ... } } else { ... as before ... } }

This is loop versioning, at the level of tiles: each nest is written out twice, in the innermost loop that a test of
its unrolled and vector loops depends on, for all such tests together; what comes before the first of them or after the
last one is not. Where only the last tile is not full, its number is known, and so is how much of it there is: that one
is written out too, and needs no tests either::

    ->  for i_o in 0:13 { if i_o * 8 < 93 { unroll i_i in 0:8 { ... } } else { unroll i_i in 0:4 { ... } } }
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from weft.ir import dtype as dt
from weft.ir.expr import Const, Expr, Load, Var, idx
from weft.ir.interval import Ranges, bounds
from weft.ir.nesting import inner_statements
from weft.ir.simplify import assigned_names, simplify
from weft.ir.stmt import Alloc, For, If, Kernel, LoopKind, Seq, Stmt, Store
from weft.ir.visit import count_nodes, free_vars, map_statements, rebuild, walk
from weft.passes.analysis.conditions import LONGEST, all_of, conjuncts, guarded, mentions, slack, without_tests
from weft.passes.analysis.loop_ranges import constant_extent, loop_range, ranges_inside
from weft.passes.analysis.truth import Inner, asked_in, for_all_inner, turn_at

#: Loops through the points of a tile.
TILES: tuple[LoopKind, ...] = ("unroll", "vector")
NEVER = Const(False, dt.bool_)
#: A test, and what must hold for it to hold in a whole tile.
Test = tuple[Expr, Expr]


def separate_tiles(kernel: Kernel) -> Kernel:
    """``kernel`` with tests in unrolled and vector loops asked once for a whole tile."""
    changing = assigned_names(kernel.body)
    body, separated = _Separator(changing).visit(kernel.body, {})
    return simplify(replace(kernel, body=body)) if separated else kernel  # in a full tile more is known


class _Separator:
    def __init__(self, changing: frozenset[str]) -> None:
        self.changing = changing

    def visit(self, s: Stmt, ranges: Ranges) -> tuple[Stmt, bool]:
        """``s``, and whether a nest in it is written out twice already."""
        done = False
        inner_ranges = ranges_inside(s, ranges)

        def inside(n: Stmt) -> Stmt:
            nonlocal done
            made, separated = self.visit(n, inner_ranges)
            done |= separated
            return made

        if isinstance(s, For) and s.kind in TILES:
            return s, False
        s = map_statements(s, inside)
        if done or not isinstance(s, For) or shares_registers(s.body) or count_nodes(s.body) > LONGEST:
            return s, done
        tests = self._tests_of_tiles(s)
        if not any(mentions(worst, s.var.name) for _, worst in tests):
            return s, False
        return replace(s, body=_where_tested(s.body, tests, inner_ranges)), True

    def _tests_of_tiles(self, loop: For) -> list[Test]:
        """Those that may hold in a whole tile."""
        tests = [(test, self._worst(test, inner)) for test, inner in asked_in(loop.body, {}, TILES)]
        ranges = {loop.var.name: loop_range(loop, {})}
        staying = {part for part, worst in tests if worst is None or simplify(worst, ranges) == NEVER}
        return [(part, worst) for part, worst in tests if worst is not None and part not in staying]

    def _worst(self, test: Expr, inner: Inner) -> Expr | None:
        """What must hold for ``test`` to hold in a whole tile, if it asks for a place in one."""
        return for_all_inner(test, inner, self.changing) if inner.keys() & free_vars(test).keys() else None


def _where_tested(body: Stmt, tests: list[Test], ranges: Ranges) -> Stmt:
    """``body`` with what is from the first to the last of ``tests`` in it written out as often as need be."""
    if isinstance(body, Alloc):
        return replace(body, body=_where_tested(body.body, tests, ranges))
    if not isinstance(body, Seq):
        return _written_out(body, tests, ranges)
    parts = [part for part, _ in tests]
    tested = [place for place, s in enumerate(body.body) if _has_test(s, parts)]
    if not tested:
        return body
    first, end = tested[0], tested[-1] + 1
    if end - first == len(body.body):
        return _written_out(body, tests, ranges)
    middle = replace(body, body=body.body[first:end]) if end - first > 1 else body.body[first]
    return replace(body, body=(*body.body[:first], _where_tested(middle, tests, ranges), *body.body[end:]))


def _has_test(s: Stmt, parts: list[Expr]) -> bool:
    if isinstance(s, If) and s.otherwise is None and any(conjunct in parts for conjunct in conjuncts(s.condition)):
        return True
    return any(_has_test(inner, parts) for inner in inner_statements(s))


def _written_out(body: Stmt, tests: list[Test], ranges: Ranges) -> Stmt:
    """``body`` for full tiles, for each last one of which the number is known, and for others, as far as there are."""
    for _, worst in tests:
        last = _last_tile(worst, ranges)
        if last is not None and count_nodes(body) <= LONGEST // 2:
            own = [part for part, asked in tests if asked == worst]
            others = [(part, asked) for part, asked in tests if asked != worst]
            full = _where_tested(without_tests(body, own), others, ranges)
            number, value = last
            left = [(_with_value(part, number, value), _with_value(asked, number, value)) for part, asked in others]
            edge = narrow_tiles(simplify(_with_value(body, number, value)))
            return If(worst, full, _where_tested(edge, left, ranges), span=body.span)
    if not tests:
        return body
    asked = list(dict.fromkeys(worst for _, worst in tests))
    return If(all_of(asked), without_tests(body, [part for part, _ in tests]), body, span=body.span)


def _last_tile(worst: Expr, ranges: Ranges) -> tuple[Expr, int] | None:
    """The number of a tile, as an expression, and its value, where that is the only one for which ``worst`` fails."""
    gap = slack(worst)
    if gap is None or len(gap.terms) != 1:
        return None
    (number,) = gap.terms
    last = bounds(number, ranges).hi
    return None if last is None or turn_at(gap, number) != (last, False) else (number, last)


def _with_value(node: Any, number: Expr, value: int) -> Any:
    """``node`` with ``value`` for every occurrence of ``number``."""
    return idx(value) if node == number else rebuild(node, lambda n: _with_value(n, number, value))


def narrow_tiles(s: Stmt) -> Stmt:
    """Unrolled and vector loops that stop where a test around their whole body starts to fail.

    A vector loop stops at the next power of two, and the test stays where that is beyond: it is a mask.
    """
    s = map_statements(s, narrow_tiles)
    is_tile = isinstance(s, For) and s.kind in TILES and constant_extent(s) is not None
    if not is_tile or not isinstance(s, For) or not isinstance(s.body, If) or s.body.otherwise is not None:
        return s
    parts = conjuncts(s.body.condition)
    ends = {part: end for part in parts if (end := _end(part, s.var)) is not None}
    if not ends or not isinstance(s.hi, Const):
        return s
    first = max(0, min(ends.values()))
    hi = min(int(s.hi.value), first if s.kind == "unroll" else 1 << max(0, first - 1).bit_length())
    return replace(s, hi=idx(hi), body=guarded([p for p in parts if ends.get(p, -1) < hi], s.body.then))


def _end(conjunct: Expr, var: Var) -> int | None:
    """The first value of ``var`` for which ``conjunct`` does not hold, where that is a number."""
    gap = slack(conjunct)
    turn = turn_at(gap, var) if gap is not None and gap.terms.get(var) == -1 else None
    return None if turn is None else turn[0]


def shares_registers(body: Stmt) -> bool:
    """Whether registers live on from one iteration to the next: a branch between would part them."""
    own = {n.buffer.name for n in walk(body) if isinstance(n, Alloc)}
    accesses = (n for n in walk(body) if isinstance(n, (Load, Store)))
    return any(a.buffer.scope == "register" and a.buffer.name not in own for a in accesses)
