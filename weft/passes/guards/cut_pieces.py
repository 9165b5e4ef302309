"""Written-out loops over pieces of a row cut where a test inside starts to matter.

``thread t in 0:256 { unroll c in 0:16 { if c * 256 + t < 4093 { ... } } }``: only the last piece needs the test, so
``c`` runs to 15 without it, and the last iteration by itself with it. What the others load is then asked for at once.
Tests in loops over lanes count, too. Where a test matters in several iterations, one test for all of them decides
between the loop without and with it.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection
from dataclasses import dataclass, replace

from weft.ir import dtype as dt
from weft.ir.expr import Const, Expr, Load, idx
from weft.ir.interval import Ranges
from weft.ir.nesting import sequence
from weft.ir.simplify import simplify
from weft.ir.stmt import JUMPS, Barrier, For, If, Kernel, Stmt, Tensorized
from weft.ir.visit import count_nodes, map_statements, substitute, walk
from weft.passes.analysis.conditions import LONGEST, all_of, conjuncts, for_all
from weft.passes.analysis.loop_ranges import constant_extent, ranges_inside

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
    tests = _tests(loop.body, ranges_inside(loop, ranges))
    if not tests or not isinstance(loop.lo, Const) or not isinstance(loop.hi, Const):
        return _inside(loop, ranges)
    lo, hi = int(loop.lo.value), int(loop.hi.value)
    if hi - lo > MOST:
        return _inside(loop, ranges)
    while hi > lo and any(t.fails(loop, hi - 1) for t in tests):
        hi -= 1
    loop = replace(loop, hi=idx(hi))
    held = [[t.condition for t in tests if t.holds(loop, c)] for c in range(lo, hi)]
    groups = [(same, len(list(group))) for same, group in itertools.groupby(held)]
    if any(count >= 2 and len(same) < len(tests) for same, count in groups) and (whole := _whole(loop, ranges)):
        return whole
    if len(groups) > MOST_PARTS:
        return _inside(loop, ranges)
    parts: list[Stmt] = []
    for same, count in groups:
        stmt = replace(loop, lo=idx(lo), hi=idx(lo + count), body=_assumed(loop.body, same))
        parts.append(_inside(stmt, ranges))
        lo += count
    return sequence(parts)


@dataclass(frozen=True, slots=True)
class _Test:
    """A ``condition``, the ``loops`` over lanes around it, outermost first, and what is known where it stands."""

    condition: Expr
    loops: tuple[For, ...]
    ranges: Ranges

    def holds(self, loop: For, value: int) -> bool:
        """Whether it surely holds in iteration ``value`` of ``loop``."""
        return self._at(loop, value) == Const(True, dt.bool_)

    def fails(self, loop: For, value: int) -> bool:
        return self._at(loop, value) == Const(False, dt.bool_)

    def _at(self, loop: For, value: int) -> Expr:
        return simplify(substitute(self.condition, {loop.var: idx(value)}), self.ranges)

    def everywhere(self, loop: For) -> Expr | None:
        """What says that it holds in all iterations of ``loop``, and for all lanes."""
        condition: Expr | None = self.condition
        for inner in reversed(self.loops):
            condition = None if condition is None else for_all(condition, inner)
        if condition is None or (count := constant_extent(loop)) is None:
            return None
        held = for_all(condition, loop)
        if held is None and count <= FEW:
            held = all_of([substitute(condition, {loop.var: loop.lo + idx(n)}) for n in range(count)])
        return held


def _tests(s: Stmt, ranges: Ranges, loops: tuple[For, ...] = ()) -> list[_Test]:
    """The tests around all that ``s`` does, through loops over lanes; if there is something else to do, it is rare."""
    if isinstance(s, If):
        conditions = [c for c in conjuncts(s.condition) if not any(isinstance(n, Load) for n in walk(c))]
        return [*(_Test(c, loops, ranges) for c in conditions), *_tests(s.then, ranges, loops)]
    if isinstance(s, For) and s.kind in ("vector", "unroll"):
        return _tests(s.body, ranges_inside(s, ranges), (*loops, s))
    return []


def _whole(loop: For, ranges: Ranges) -> Stmt | None:
    """All iterations without tests where one test for all of them holds, else with: loads need not wait for tests."""
    tests = _tests(loop.body, ranges)
    everywhere = [t.everywhere(loop) for t in tests] if (constant_extent(loop) or 0) >= 2 else []
    if not everywhere or None in everywhere or count_nodes(loop) > LONGEST:
        return None
    body = _assumed(loop.body, {t.condition for t in tests})
    if any(isinstance(n, TOGETHER) for n in walk(body)) or not any(
        isinstance(n, Load) and n.buffer.scope == "global" for n in walk(body)
    ):
        return None
    whole = simplify(all_of([c for c in everywhere if c is not None]))
    return If(whole, _inside(replace(loop, body=body), ranges), _inside(loop, ranges), span=loop.span)


def _assumed(s: Stmt, held: Collection[Expr]) -> Stmt:
    """``s`` where the conditions ``held`` hold."""
    s = map_statements(s, lambda n: _assumed(n, held))
    if not isinstance(s, If) or not (parts := [c for c in conjuncts(s.condition) if c not in held]):
        return s.then if isinstance(s, If) else s
    return replace(s, condition=all_of(parts))
