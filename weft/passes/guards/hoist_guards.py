"""Tests moved out of the loops in which they do not change, and into the bounds of those in which they do.

``for k in 0:256 { unroll i in 0:14 { if ko * 256 + k < K { ... } } }`` runs ``k`` to ``min(256, K - ko * 256)`` and
tests nothing. Vector and unrolled loops, and those through registers, keep their extent (compilers know the first as
loop unswitching): a test of their own variable becomes a mask or one branch per copy.
"""

from __future__ import annotations

from dataclasses import replace

from weft.ir.affine import linear_form
from weft.ir.expr import Binary, Const, Expr, Reduce
from weft.ir.simplify import assigned_names, simplify
from weft.ir.stmt import For, If, Kernel, Stmt
from weft.ir.visit import map_statements, walk
from weft.passes.analysis.conditions import guarded, guarded_again, is_pure, mentions, peel_guards, slack
from weft.passes.analysis.truth import turn_along
from weft.passes.registers.unroll_registers import subscripts_register


def hoist_guards(kernel: Kernel) -> Kernel:
    """Every test at the outermost place where all it speaks of is known."""
    changing = assigned_names(kernel.body)
    return replace(kernel, body=_hoist(kernel.body, changing))


def _hoist(s: Stmt, changing: frozenset[str]) -> Stmt:
    s = map_statements(s, lambda n: _hoist(n, changing))
    if not isinstance(s, For) or not isinstance(s.body, If):
        return s
    outside: list[Expr] = []
    inside: list[Expr] = []
    guard = s.body
    parts, body = peel_guards(guard)
    for n, part in enumerate(parts):
        if not is_pure(part, changing) or any(isinstance(e, Reduce) for e in walk(part)):
            inside += parts[n:]  # what comes after may rely on it
            break
        if not mentions(part, s.var.name):
            outside.append(part)
        elif (narrowed := narrow(s, part)) is not None:
            s = narrowed
        else:
            inside.append(part)
    kept = guarded_again(guard, inside, body)
    return guarded(outside, s if kept is s.body else replace(s, body=kept))


def narrow(loop: For, conjunct: Expr) -> For | None:
    """``loop`` over only those values for which ``conjunct`` holds, where that is a range that ends one way."""
    gap = slack(conjunct)
    if gap is None or loop.kind not in ("serial", "block", "thread") or subscripts_register(loop):
        return None
    turn = turn_along(gap, loop.var, {}) if gap.terms.get(loop.var) in (1, -1) else None
    if turn is None:
        return None
    if turn.begins:
        return replace(loop, lo=simplify(Binary("max", loop.lo, turn.at)))
    ends = turn.at if _rounds_up(loop.hi, turn.at) else simplify(Binary("min", loop.hi, turn.at))
    return replace(loop, hi=ends)


def _rounds_up(bound: Expr, end: Expr) -> bool:
    """Whether ``bound`` is ``end`` rounded up to a multiple, as the number of threads in whole blocks is."""
    match bound:
        case Binary("*", Binary("//", total, Const() as width), Const() as again) if width == again:
            spare = linear_form(Binary("-", total, end))
            return not spare.terms and spare.constant == int(width.value) - 1 >= 0
    return False
