"""Written-out loops over pieces of a row cut where a test inside starts to matter.

``thread t in 0:256 { unroll c in 0:16 { if c * 256 + t < 4093 { ... } } }``: only the last piece needs the test, so
``c`` runs to 15 without it, and the last iteration by itself with it. What the others load is then asked for at once.
Tests in loops over lanes count, too. Where a test matters in several iterations, one test for all of them decides
between the loop without and with it.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from weft.ir.expr import Const, Expr, idx
from weft.ir.interval import Ranges
from weft.ir.nesting import sequence
from weft.ir.simplify import simplify
from weft.ir.stmt import JUMPS, Barrier, For, If, Kernel, Stmt, Tensorized
from weft.ir.visit import count_nodes, loads, map_statements, substitute, walk
from weft.passes.analysis.conditions import LONGEST, all_of, conjuncts
from weft.passes.analysis.loop_ranges import constant_extent, ranges_inside
from weft.passes.analysis.truth import Inner, for_all_inner, for_all_of, inner_of

#: Iterations that are looked at, at most.
MOST = 64
#: Parts a loop is cut into, at most.
MOST_PARTS = 3
#: Iterations that are tested one by one, at most, where the first or last does not decide for all.
FEW = 4
#: What threads do together, or what ends a loop.
TOGETHER = (Barrier, *JUMPS, Tensorized)


def cut_pieces(kernel: Kernel) -> Kernel:
    """Unrolled loops without tests that surely hold."""
    return replace(kernel, body=_visit(kernel.body, {}))


def _visit(s: Stmt, ranges: Ranges) -> Stmt:
    if isinstance(s, For):
        return _cut(s, ranges) if s.kind == "unroll" else _inside(s, ranges)
    return map_statements(s, lambda n: _visit(n, ranges))


def _inside(loop: For, ranges: Ranges) -> For:
    return replace(loop, body=_visit(loop.body, ranges_inside(loop, ranges)))


def _cut(loop: For, ranges: Ranges) -> Stmt:
    """``loop`` in parts, each without the tests that hold in all of its iterations."""
    tests = _tests(loop.body, {}, ranges)
    if not tests or not isinstance(loop.lo, Const) or not isinstance(loop.hi, Const):
        return _inside(loop, ranges)
    lo, hi = int(loop.lo.value), int(loop.hi.value)
    if hi - lo > MOST:
        return _inside(loop, ranges)
    while hi > lo and any(t.decides and t.at(loop, hi - 1) is False for t in tests):
        hi -= 1
    loop = replace(loop, hi=idx(hi))
    held = [[t.test for t in tests if t.at(loop, c)] for c in range(lo, hi)]
    groups = [(same, len(list(group))) for same, group in itertools.groupby(held)]
    if any(count >= 2 and len(same) < len(tests) for same, count in groups) and (whole := _whole(loop, tests, ranges)):
        return whole
    if len(groups) > MOST_PARTS:
        return _inside(loop, ranges)
    parts: list[Stmt] = []
    for same, count in groups:
        stmt = replace(loop, lo=idx(lo), hi=idx(lo + count), body=_assumed(loop.body, same))
        parts.append(_inside(stmt, ranges))
        lo += count
    return sequence(parts)


class _Test(NamedTuple):
    """A test, the lanes around it, what is known where it stands, and whether nothing is done unless it holds."""

    test: Expr
    lanes: Inner
    ranges: Ranges
    decides: bool

    def at(self, loop: For, value: int) -> bool | None:
        """Whether it surely holds, or surely fails, in iteration ``value`` of ``loop``."""
        found = simplify(substitute(self.test, {loop.var: idx(value)}), self.ranges)
        return bool(found.value) if isinstance(found, Const) else None

    def everywhere(self, loop: For) -> list[Expr] | None:
        """What says that it holds in all iterations of ``loop``, and for all lanes."""
        held = for_all_inner(self.test, inner_of(loop, self.lanes))
        if held is not None:
            return [held]
        count = constant_extent(loop) or 0
        each = [substitute(self.test, {loop.var: loop.lo + idx(n)}) for n in range(count)]
        return for_all_of(each, self.lanes) if count <= FEW else None


def _tests(s: Stmt, lanes: Inner, ranges: Ranges, decides: bool = True) -> list[_Test]:
    """The tests around all that ``s`` does, through loops over lanes; if there is something else to do, it is rare."""
    if isinstance(s, If):
        decides = decides and s.otherwise is None
        conditions = [c for c in conjuncts(s.condition) if not loads(c)]
        return [*(_Test(c, lanes, ranges, decides) for c in conditions), *_tests(s.then, lanes, ranges, decides)]
    if isinstance(s, For) and s.kind in ("vector", "unroll"):
        return _tests(s.body, inner_of(s, lanes), ranges_inside(s, ranges), decides)
    return []


def _whole(loop: For, tests: Sequence[_Test], ranges: Ranges) -> Stmt | None:
    """All iterations without tests where one test for all of them holds, else with: loads need not wait for tests."""
    everywhere = [t.everywhere(loop) for t in tests] if (constant_extent(loop) or 0) >= 2 else []
    if not everywhere or None in everywhere or count_nodes(loop) > LONGEST:
        return None
    body = _assumed(loop.body, [t.test for t in tests])
    if any(isinstance(n, TOGETHER) for n in walk(body)) or all(n.buffer.scope != "global" for n in loads(body)):
        return None
    whole = simplify(all_of([c for parts in everywhere for c in parts or ()]))
    return If(whole, _inside(replace(loop, body=body), ranges), _inside(loop, ranges), span=loop.span)


def _assumed(s: Stmt, held: Sequence[Expr]) -> Stmt:
    """``s`` where the conditions ``held`` hold; of an if with else, too."""
    s = map_statements(s, lambda n: _assumed(n, held))
    if not isinstance(s, If) or not (parts := [c for c in conjuncts(s.condition) if c not in held]):
        return s.then if isinstance(s, If) else s
    return replace(s, condition=all_of(parts))
