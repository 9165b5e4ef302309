"""Variables that are assigned get a name for each live range; what nobody reads is not computed.

``let n = t - 1; n = max(n, 0); A[n]`` becomes ``let n = t - 1; let n_1 = max(n, 0); A[n_1]``: static single assignment,
where no branch joins. A variable that a branch or a loop's body sets anew, and that nobody reads after it, is one of
its own there, as in C++ it might have been declared there. What is then never assigned can be written out and computed
again, and does not live from one barrier to the next.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from weft.ir.expr import Var
from weft.ir.nesting import inner_statements, sequence
from weft.ir.simplify import assigned_names
from weft.ir.stmt import Alloc, Assign, Atomic, For, If, Let, Seq, Stmt, While
from weft.ir.visit import Node, fact, free_vars, fresh_name, rebuild, rewrite, substitute, used_names
from weft.passes.analysis.conditions import is_pure
from weft.passes.analysis.thread_teams import jumps_out
from weft.passes.analysis.uniform_values import is_vote
from weft.passes.plain.close_inductions import count_assignments
from weft.passes.plain.shorten_lets import names_in

Names = frozenset[str]
NONE: Names = frozenset()

#: Assignments to a variable that are renamed: each value is a scope inside the one before.
MOST = 16


def split_live_ranges(s: Stmt) -> Stmt:
    """``s`` with a variable for each live range, and without assignments that nobody reads."""
    return _Splitter(used_names(s)).visit(s, NONE, NONE) if assigned_names(s) else s


@dataclass(frozen=True, slots=True)
class _Use:
    """Variables from outside whose value is read, and those that are surely assigned."""

    read: Names
    set: Names = NONE


@fact
def _use(s: Stmt) -> _Use:
    """What ``s`` reads of its variables before it sets them, and what it sets on every way to its end."""
    match s:
        case Assign():
            return _Use(frozenset(free_vars(s.value)), frozenset((s.var.name,)))
        case Let():
            inner = _use(s.body)
            return _Use(frozenset(free_vars(s.value)) | inner.read - {s.var.name}, inner.set - {s.var.name})
        case Seq():
            read, set_ = NONE, NONE
            for part in map(_use, s.body):
                read, set_ = read | part.read - set_, set_ | part.set
            return _Use(read, set_)
        case If():
            arms = [_use(s.then), _use(s.otherwise) if s.otherwise is not None else _Use(NONE)]
            return _Use(frozenset(free_vars(s.condition)).union(*(a.read for a in arms)), arms[0].set & arms[1].set)
        case Alloc():
            inner = _use(s.body)
            sizes = (*s.buffer.shape, *(s.buffer.strides or ()))
            return _Use(inner.read.union(*map(free_vars, sizes)), inner.set)
        case For():
            bounds = {*free_vars(s.lo), *free_vars(s.hi)}
            return _Use(_use(s.body).read - {s.var.name} | bounds)
        case While():
            return _Use(_use(s.body).read | set(free_vars(s.condition)))
    return _Use(names_in(s))


@dataclass(frozen=True, slots=True)
class _Splitter:
    taken: set[str]

    def visit(self, s: Stmt, after: Names, jumps: Names) -> Stmt:
        """``s``, after which the variables ``after`` are read, or ``jumps`` where it breaks or continues a loop."""
        if not assigned_names(s):
            return s
        match s:
            case Assign():
                return s if s.var.name in after or s.var.name in jumps else Seq(())
            case Let():
                if _is_small(s):
                    s = replace(s, body=self.renamed(s.body, s.var, after, jumps))
                body = _without_same(self.visit(s.body, after, jumps), s)
                unread = s.var.name not in names_in(body) and not is_vote(s.value)
                return body if unread else replace(s, body=body)
            case Seq():
                parts = self.parts(s.body, after, jumps)
                return sequence(parts)
            case For() | While():
                again = after | _use(s).read | _use(s.body).read
                return replace(s, body=self.visit(s.body, again, again))
        return rebuild(s, lambda n: self.visit(n, after, jumps) if isinstance(n, Stmt) else n)

    def parts(self, parts: tuple[Stmt, ...], after: Names, jumps: Names) -> list[Stmt]:
        made: list[Stmt] = []
        for part in reversed(parts):
            made.append(self.visit(part, after, jumps))
            use = _use(part)
            after = use.read | (after - use.set) | (jumps if jumps_out(part) else NONE)
        return made[::-1]

    def renamed(self, s: Stmt, var: Var, after: Names, jumps: Names) -> Stmt:
        """``s`` with new names for values of ``var`` that nobody reads after the sequence they are assigned in."""
        if var.name not in assigned_names(s):
            return s
        match s:
            case Seq():
                return self.renamed_parts(s.body, var, after, jumps)
            case For() | While():
                again = after | _use(s).read | _use(s.body).read
                return replace(s, body=self.renamed(s.body, var, again, again))
        return rebuild(s, lambda n: self.renamed(n, var, after, jumps) if isinstance(n, Stmt) else n)

    def renamed_parts(self, parts: tuple[Stmt, ...], var: Var, after: Names, jumps: Names) -> Stmt:
        made: list[Stmt] = []
        for n, part in enumerate(parts):
            if var.name not in assigned_names(part):
                made.append(part)
                continue
            rest = Seq(parts[n + 1 :])
            seen = after | jumps if jumps_out(rest) else after
            use = _use(rest)
            later = use.read | (after - use.set) | (jumps if jumps_out(rest) else NONE)
            if isinstance(part, Assign) and part.var == var and var.name not in later:
                continue  # nobody reads it
            if isinstance(part, Assign) and part.var == var and var.name not in seen:
                new = replace(var, name=fresh_name(var.name, self.taken))
                others = self.renamed(substitute(rest, {var: new}), new, after, jumps)
                return sequence((*made, Let(new, part.value, others, span=part.span)))
            made.append(self.renamed(part, var, later, jumps))
        return sequence(made)


def _without_same(s: Stmt, let: Let) -> Stmt:
    """``s`` without assignments to a variable that only ever give it the value it was made with, and can again."""
    name = let.var.name
    if name not in assigned_names(s) or not is_pure(let.value, assigned_names(s)) or not _only_sets(s, let):
        return s

    def dropped(n: Node) -> Node | None:
        return Seq(()) if isinstance(n, Assign) and n.var == let.var else None

    return rewrite(s, dropped)


def _only_sets(s: Stmt, let: Let) -> bool:
    if let.var.name not in assigned_names(s):
        return True
    if isinstance(s, Assign):
        return s.value == let.value
    return not isinstance(s, Atomic) and all(_only_sets(inner, let) for inner in inner_statements(s))


def _is_small(s: Let) -> bool:
    return 0 < count_assignments(s.body, s.var) <= MOST
