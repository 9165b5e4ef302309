"""Written-out loops over pieces of a row cut where a test inside starts to matter.

``thread t in 0:256 { unroll c in 0:16 { if c * 256 + t < 4093 { ... } } }``: only the last piece needs the test, so
``c`` runs to 15 without it, and the last iteration by itself with it. What the others load is then asked for at once.
Tests in loops over lanes count, too. Where a test matters in several iterations, one test for all of them decides
between the loop without and with it.
"""

from __future__ import annotations

import itertools
from dataclasses import replace

from weft.ir import dtype as dt
from weft.ir.expr import Const, Expr, Load, idx
from weft.ir.simplify import simplify
from weft.ir.stmt import Barrier, Break, Continue, For, If, Kernel, Return, Seq, Stmt, Tensorized
from weft.ir.visit import rebuild, substitute, walk
from weft.passes.conditions import all_of, conjuncts, for_all, peel_guards, without_tests
from weft.passes.loop_ranges import Ranges, constant_extent, loop_range

#: Iterations that are looked at, at most.
MOST = 64
#: Parts a loop is cut into, at most.
MOST_PARTS = 3
#: What threads do together, or what ends a loop.
_TOGETHER = (Barrier, Break, Continue, Return, Tensorized)


def cut_pieces(kernel: Kernel) -> Kernel:
    """Unrolled loops without tests that surely hold."""
    if not any(isinstance(n, For) and n.kind == "unroll" for n in walk(kernel.body)):
        return kernel
    return replace(kernel, body=_visit(kernel.body, {}))


def _visit(s: Stmt, ranges: Ranges) -> Stmt:
    if isinstance(s, For):
        return _cut(s, ranges) if s.kind == "unroll" else _inside(s, ranges)
    return rebuild(s, lambda n: _visit(n, ranges) if isinstance(n, Stmt) else n)


def _inside(loop: For, ranges: Ranges) -> For:
    return replace(loop, body=_visit(loop.body, {**ranges, loop.var.name: loop_range(loop, ranges)}))


def _cut(loop: For, ranges: Ranges) -> Stmt:
    """``loop`` in parts, each without the tests that hold in all of its iterations."""
    tests = _tests(loop.body, {**ranges, loop.var.name: loop_range(loop, ranges)})
    if not tests or not isinstance(loop.lo, Const) or not isinstance(loop.hi, Const):
        return _inside(loop, ranges)
    lo, hi = int(loop.lo.value), int(loop.hi.value)
    if hi - lo > MOST:
        return _inside(loop, ranges)
    held = [[t for t, known in tests if _holds(t, loop, c, known)] for c in range(lo, hi)]
    groups = [(same, len(list(group))) for same, group in itertools.groupby(held)]
    if len(groups) > MOST_PARTS:
        groups = [([], hi - lo)]
    parts: list[Stmt] = []
    for same, count in groups:
        part = replace(loop, lo=idx(lo), hi=idx(lo + count), body=without_tests(loop.body, same))
        parts.append(_whole(part, ranges) or _inside(part, ranges))
        lo += count
    return parts[0] if len(parts) == 1 else Seq(tuple(parts))


def _tests(s: Stmt, ranges: Ranges) -> list[tuple[Expr, Ranges]]:
    """The tests around all that ``s`` does, through loops over lanes, and what is known where each stands."""
    if isinstance(s, If) and s.otherwise is None:
        own = [(t, ranges) for t in conjuncts(s.condition) if not any(isinstance(n, Load) for n in walk(t))]
        return [*own, *_tests(s.then, ranges)]
    if isinstance(s, For) and s.kind in ("vector", "unroll"):
        return _tests(s.body, {**ranges, s.var.name: loop_range(s, ranges)})
    return []


def _whole(loop: For, ranges: Ranges) -> Stmt | None:
    """All iterations without tests where one test for all of them holds, else with: loads need not wait for tests."""
    tests, body = peel_guards(loop.body)
    whole = for_all(all_of(tests), loop) if tests and (constant_extent(loop) or 0) >= 2 else None
    if whole is None or any(isinstance(n, _TOGETHER) for n in walk(body)):
        return None
    if not any(isinstance(n, Load) and n.buffer.scope == "global" for n in walk(body)):
        return None
    return If(whole, _inside(replace(loop, body=body), ranges), _inside(loop, ranges), span=loop.span)


def _holds(condition: Expr, loop: For, value: int, ranges: Ranges) -> bool:
    """Whether the test surely holds in iteration ``value``."""
    return simplify(substitute(condition, {loop.var: idx(value)}), ranges) == Const(True, dt.bool_)
