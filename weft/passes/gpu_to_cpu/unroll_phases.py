"""Loops around thread loops written out where they run a known, small number of times.

``let s = 8; while s > 0 { thread t in 0:16 { if t < s { ... } }; s = s // 2 }`` becomes four thread loops with 8, 4, 2
and 1 in the place of ``s``: tests of threads against numbers become bounds, and subscripts are known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from weft.ir.expr import Const, Expr, Var, idx
from weft.ir.nesting import has_loop, sequence
from weft.ir.simplify import assigned_names, simplify
from weft.ir.stmt import Alloc, Assign, Break, For, If, Kernel, Let, Seq, Stmt, While
from weft.ir.visit import count_nodes, map_statements, names_in, substitute
from weft.passes.analysis.thread_teams import jumps_out

#: Nodes that a loop may have when it is written out, and how often it may run.
LONGEST, MOST_TRIPS = 4000, 64

#: What variables are known to be.
Known = Mapping[Var, Expr]


def unroll_phases(kernel: Kernel) -> Kernel:
    """``kernel`` with short loops around thread loops written out."""
    if not has_loop(kernel.body, "thread"):
        return kernel
    return replace(kernel, body=_without_unread(Unroller(_has_threads).visit(kernel.body, {})[0]))


def _has_threads(s: Stmt) -> bool:
    return has_loop(s, "thread")


@dataclass(frozen=True, slots=True)
class Unroller:
    """Runs a program as far as it is known; what it gives for a statement is the statement and what is known after.

    ``concerns`` says of a statement whether loops around it are written out.
    """

    concerns: Callable[[Stmt], bool]
    longest: int = LONGEST

    def visit(self, s: Stmt, constants: Known) -> tuple[Stmt, Known]:
        match s:
            case Seq():
                return self.sequence(s, constants)
            case Let():
                value = simplify(substitute(s.value, constants))
                inner = {**constants, s.var: value} if isinstance(value, Const) else constants
                body, after = self.visit(s.body, inner)
                return replace(s, value=value, body=body), {v: e for v, e in after.items() if v != s.var}
            case Alloc():
                body, after = self.visit(s.body, constants)
                return replace(s, body=body), after
            case Assign():
                value = simplify(substitute(s.value, constants))
                rest = {v: e for v, e in constants.items() if v != s.var}
                return replace(s, value=value), {**rest, s.var: value} if isinstance(value, Const) else rest
            case While():
                return self.while_loop(s, constants)
            case For(kind="serial" | "unroll"):
                return self.counted_loop(s, constants)
            case For(kind="block" | "parallel" | "thread") if s.kind != "thread" or self.concerns(s.body):
                lasting = _lasting(constants, s)
                lo, hi = (simplify(substitute(e, constants)) for e in (s.lo, s.hi))
                return replace(s, lo=lo, hi=hi, body=self.visit(s.body, lasting)[0]), lasting
            case If():
                return self.branch(s, constants)
        lasting = _lasting(constants, s)
        return (simplify(substitute(s, lasting)) if lasting else s), lasting

    def sequence(self, s: Seq, constants: Known) -> tuple[Stmt, Known]:
        done: list[Stmt] = []
        for stmt in s.body:
            new, constants = self.visit(stmt, constants)
            done.append(new)
        return replace(s, body=tuple(done)), constants

    def branch(self, s: If, constants: Known) -> tuple[Stmt, Known]:
        condition = simplify(substitute(s.condition, constants))
        if isinstance(condition, Const):
            chosen = s.then if condition.value else s.otherwise
            return (Seq(()), constants) if chosen is None else self.visit(chosen, constants)
        then = self.visit(s.then, constants)[0]
        other = None if s.otherwise is None else self.visit(s.otherwise, constants)[0]
        return If(condition, then, other, span=s.span), _lasting(constants, s)

    def while_loop(self, s: While, constants: Known) -> tuple[Stmt, Known]:
        """Iteration after iteration while the test is known to hold; as a loop where it ever is not known."""
        if self.concerns(s.body) and not jumps_out(s.body):
            copies: list[Stmt] = []
            inner: Known = constants
            for _ in range(MOST_TRIPS):
                test = simplify(substitute(s.condition, inner))
                if not isinstance(test, Const):
                    break
                if not test.value:
                    return sequence(copies), inner
                copy, inner = self.visit(s.body, inner)
                copies.append(copy)
                if sum(map(count_nodes, copies)) > self.longest:
                    break
        lasting = _lasting(constants, s)
        return While(substitute(s.condition, lasting), self.visit(s.body, lasting)[0], span=s.span), lasting

    def counted_loop(self, s: For, constants: Known) -> tuple[Stmt, Known]:
        lo, hi = (simplify(substitute(e, constants)) for e in (s.lo, s.hi))
        trips = int(hi.value) - int(lo.value) if isinstance(lo, Const) and isinstance(hi, Const) else None
        short = trips is not None and trips <= MOST_TRIPS and count_nodes(s.body) * max(trips, 1) <= self.longest
        if isinstance(lo, Const) and trips is not None and short and self.concerns(s.body):
            written = self.written_out(s, range(int(lo.value), int(lo.value) + trips), constants)
            if written is not None:
                return written
        lasting = _lasting(constants, s)
        return replace(s, lo=lo, hi=hi, body=self.visit(s.body, lasting)[0]), lasting

    def written_out(self, s: For, trips: range, constants: Known) -> tuple[Stmt, Known] | None:
        """All iterations one after another, up to one that breaks; None where that is not known."""
        copies: list[Stmt] = []
        for n in trips:
            before = constants
            copy, constants = self.visit(substitute(s.body, {s.var: idx(n)}), constants)
            copy, ends = _cut_at_break(copy)
            if jumps_out(copy):
                return None
            copies.append(copy)
            if ends:
                return sequence(copies), _lasting(before, s)
        return sequence(copies), constants


def _cut_at_break(s: Stmt) -> tuple[Stmt, bool]:
    """``s`` up to a break that it surely comes to, and whether there is one."""
    match s:
        case Break():
            return Seq(()), True
        case Let() | Alloc():
            body, ends = _cut_at_break(s.body)
            return replace(s, body=body), ends
        case Seq():
            parts: list[Stmt] = []
            for part in s.body:
                part, ends = _cut_at_break(part)
                parts.append(part)
                if ends:
                    return sequence(parts), True
    return s, False


def _lasting(constants: Known, s: Stmt) -> Known:
    """What is still known once ``s`` has run, however often."""
    changed = assigned_names(s)
    return {v: e for v, e in constants.items() if v.name not in changed}


def _without_unread(s: Stmt) -> Stmt:
    """``s`` without variables that are only ever assigned to."""
    s = map_statements(s, _without_unread)
    if not isinstance(s, Let):
        return s
    bare = _without_assigns(s.body, s.var)
    return bare if s.var.name not in names_in(bare) else s


def _without_assigns(s: Stmt, var: Var) -> Stmt:
    if isinstance(s, Assign) and s.var == var:
        return Seq(())
    if var.name not in names_in(s):
        return s
    return map_statements(s, lambda n: _without_assigns(n, var))
