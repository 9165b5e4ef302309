"""Loops around barriers whose ends differ between threads as far as the text says.

All threads meet at the barrier inside, so they do agree at every iteration: one of them is asked. The loop becomes
``while true { let go = first_thread(test); if !go { break }; ... }``; where some threads are masked out, ``any_thread``
asks whether one of the others goes on.
"""

from __future__ import annotations

from weft.ir import dtype as dt
from weft.ir.expr import Binary, Call, Compare, Const, Expr, Unary, Var, idx
from weft.ir.stmt import Assign, Break, For, If, Let, Seq, Stmt, While
from weft.ir.visit import fresh_name, rebuild
from weft.passes.analysis.thread_teams import holds
from weft.passes.analysis.uniform_values import FIRST, differs, is_vote

_TRUE = Const(True, dt.bool_)


def agree_on_loops(s: Stmt, scope: str, varying: frozenset[str], taken: set[str]) -> Stmt:
    """``s`` where every loop around a barrier of ``scope`` ends by a test that all threads agree on."""
    if not holds(s, scope):
        return s
    s = rebuild(s, lambda n: agree_on_loops(n, scope, varying, taken) if isinstance(n, Stmt) else n)
    if isinstance(s, While) and (is_vote(s.condition) or differs(s.condition, varying)):
        return While(_TRUE, _while_agreed(s.condition, s.body, scope, taken), span=s.span)
    if isinstance(s, For) and s.kind in ("serial", "unroll") and (differs(s.lo, varying) or differs(s.hi, varying)):
        return _counted(s, scope, taken)
    return s


def _while_agreed(test: Expr, body: Stmt, scope: str, taken: set[str]) -> Stmt:
    go = Var(fresh_name("go", taken), dt.bool_)
    vote = test if is_vote(test) else Call(FIRST[scope], (test,), dt.bool_)
    return Let(go, vote, Seq((If(Unary("!", go), Break()), body)))


def _counted(loop: For, scope: str, taken: set[str]) -> Stmt:
    """Every thread counts for itself; counting comes first, so that a ``continue`` does not pass it by."""
    stop = Var(fresh_name(f"{loop.var.name}_stop", taken))
    count = Assign(loop.var, Binary("+", loop.var, idx(1)))
    body = Seq((count, _while_agreed(Compare("<", loop.var, stop), loop.body, scope, taken)))
    counting = Let(loop.var, Binary("-", loop.lo, idx(1)), While(_TRUE, body, span=loop.span), span=loop.span)
    return Let(stop, loop.hi, counting, span=loop.span)
