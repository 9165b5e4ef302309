"""Written-out loops over pieces of a row cut where a test inside starts to matter.

``thread t in 0:256 { unroll c in 0:16 { if c * 256 + t < 4093 { ... } } }``: only the last piece needs the test, so
``c`` runs to 15 without it, and the last iteration by itself with it. What the others load is then asked for at once.
Where a test matters in several iterations, one test for all of them decides between the loop without and with it.
"""

from __future__ import annotations

from dataclasses import replace

from weft.ir import dtype as dt
from weft.ir.expr import Const, Expr, Load, idx
from weft.ir.simplify import simplify
from weft.ir.stmt import Barrier, Break, Continue, For, If, Kernel, Return, Seq, Stmt, Tensorized
from weft.ir.visit import rebuild, substitute, walk
from weft.passes.conditions import all_of, for_all, peel_guards
from weft.passes.loop_ranges import Ranges, loop_range

#: Iterations that are looked at, at most.
MOST = 64
#: What threads do together, or what ends a loop.
_TOGETHER = (Barrier, Break, Continue, Return, Tensorized)


def cut_pieces(kernel: Kernel) -> Kernel:
    """Unrolled loops without tests that surely hold."""
    if not any(isinstance(n, For) and n.kind == "unroll" for n in walk(kernel.body)):
        return kernel
    return replace(kernel, body=_visit(kernel.body, {}))


def _visit(s: Stmt, ranges: Ranges) -> Stmt:
    if not isinstance(s, For):
        return rebuild(s, lambda n: _visit(n, ranges) if isinstance(n, Stmt) else n)
    inner = {**ranges, s.var.name: loop_range(s, ranges)}
    made = replace(s, body=_visit(s.body, inner))
    return _cut(made, ranges) if s.kind == "unroll" else made


def _cut(loop: For, ranges: Ranges) -> Stmt:
    test = loop.body
    if not isinstance(test, If) or test.otherwise is not None or any(isinstance(n, Load) for n in walk(test.condition)):
        return loop
    if not isinstance(loop.lo, Const) or not isinstance(loop.hi, Const):
        return loop
    lo, hi = int(loop.lo.value), int(loop.hi.value)
    if hi - lo > MOST:
        return loop
    sure = next((c for c in range(lo, hi) if not _holds(test.condition, loop, c, ranges)), hi)
    if hi - sure >= 2 and (whole := _whole(loop)) is not None:
        return whole
    if sure == lo:
        return loop
    free = replace(loop, hi=idx(sure), body=test.then)
    return _cut(free, ranges) if sure == hi else Seq((_cut(free, ranges), replace(loop, lo=idx(sure))))


def _whole(loop: For) -> Stmt | None:
    """All iterations without tests where one test for all of them holds, else with: loads need not wait for tests."""
    tests, body = peel_guards(loop.body)
    whole = for_all(all_of(tests), loop)
    if whole is None or any(isinstance(n, _TOGETHER) for n in walk(body)):
        return None
    if not any(isinstance(n, Load) and n.buffer.scope == "global" for n in walk(body)):
        return None
    return If(whole, replace(loop, body=body), loop, span=loop.span)


def _holds(condition: Expr, loop: For, value: int, ranges: Ranges) -> bool:
    """Whether the test surely holds in iteration ``value``."""
    return simplify(substitute(condition, {loop.var: idx(value)}), ranges) == Const(True, dt.bool_)
