"""Variables that a loop moves on by the same amount in each turn, in closed form.

``for k in 0:n { A[c] = B[c]; c = c + m }`` becomes ``for k in 0:n { A[c + k * m] = B[c + k * m] }; c = c + n * m``:
subscripts are sums of loop variables then. Compilers call it induction variable substitution.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from weft.ir import dtype as dt
from weft.ir.affine import linear_form
from weft.ir.expr import Binary, Expr, Var, idx
from weft.ir.nesting import inner_statements, sequence
from weft.ir.simplify import assigned_names, simplify
from weft.ir.stmt import Alloc, Assign, Atomic, For, Let, Seq, Stmt
from weft.ir.visit import free_vars, map_statements, mentions, substitute
from weft.passes.analysis.conditions import is_pure
from weft.passes.analysis.thread_teams import jumps_out


def close_inductions(s: Stmt) -> Stmt:
    """``s`` with loops that change fewer variables."""
    if not assigned_names(s):
        return s
    s = map_statements(s, close_inductions)
    if isinstance(s, Seq):
        return sequence(s.body)
    if not isinstance(s, For) or s.kind not in ("serial", "unroll") or jumps_out(s.body):
        return s
    after: list[Stmt] = []
    for found in list(_inductions(s)):
        s = replace(s, body=found.closed(s))
        after.append(found.end(s))
    return sequence((s, *after)) if after else s


@dataclass(frozen=True, slots=True)
class _Induction:
    """``var`` is ``step`` more after each turn."""

    var: Var
    step: Expr

    def closed(self, loop: For) -> Stmt:
        turns = simplify(loop.var - loop.lo)
        before, behind = (self.var + turn * self.step for turn in (turns, turns + idx(1)))
        return self._moved(loop.body, before, behind)[0]

    def end(self, loop: For) -> Stmt:
        turns = simplify(Binary("max", loop.hi - loop.lo, idx(0)))
        return Assign(self.var, self.var + turns * self.step)

    def _moved(self, s: Stmt, before: Expr, behind: Expr) -> tuple[Stmt, bool]:
        """``s`` with what the variable is up to its assignment, and after it; whether it was in ``s``."""
        if self.var.name not in assigned_names(s):
            return substitute(s, {self.var: before}), False
        match s:
            case Assign():
                return Seq(()), True
            case Let():
                value = substitute(s.value, {self.var: before})
                return replace(s, value=value, body=self._moved(s.body, before, behind)[0]), True
            case Alloc():
                return replace(s, body=self._moved(s.body, before, behind)[0]), True
        assert isinstance(s, Seq)
        parts: list[Stmt] = []
        done = False
        for part in s.body:
            moved, is_here = (substitute(part, {self.var: behind}), True) if done else self._moved(part, before, behind)
            parts.append(moved)
            done |= is_here
        return sequence(parts), True


def _inductions(loop: For) -> Iterator[_Induction]:
    inside = mentions(loop.body).bound | {loop.var.name}
    changing = assigned_names(loop.body)
    for assign in _in_line(loop.body):
        var, step = assign.var, linear_form(assign.value - assign.var)
        fixed = all(is_pure(e, changing) and inside.isdisjoint(free_vars(e)) for e in step.terms)
        if var.dtype == dt.index and fixed and var.name not in inside and count_assignments(loop.body, var) == 1:
            yield _Induction(var, step.expr(dt.index))


def _in_line(s: Stmt) -> Iterator[Assign]:
    """Assignments that every turn comes to, once."""
    if isinstance(s, Assign):
        if s.var.dtype == dt.index:
            yield s
    elif isinstance(s, (Seq, Let, Alloc)):
        for inner in inner_statements(s):
            yield from _in_line(inner)


def count_assignments(s: Stmt, var: Var) -> int:
    """Statements in ``s`` that give ``var`` a new value."""
    if var.name not in assigned_names(s):
        return 0
    return isinstance(s, (Assign, Atomic)) + sum(count_assignments(inner, var) for inner in inner_statements(s))
