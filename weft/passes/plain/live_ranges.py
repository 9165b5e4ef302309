"""Variables that are assigned get a name for each live range; what nobody reads is not computed.

``let n = t - 1; n = max(n, 0); A[n]`` becomes ``let n = t - 1; let n_1 = max(n, 0); A[n_1]``: static single assignment,
where no branch joins. A variable that a branch or a loop's body sets anew, and that nobody reads after it, is one of
its own there, as in C++ it might have been declared there. What is then never assigned can be written out and computed
again, and does not live from one barrier to the next.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from weft.ir.expr import Var
from weft.ir.nesting import inner_statements, sequence, statements
from weft.ir.simplify import assigned_names
from weft.ir.stmt import Alloc, Assign, Atomic, For, If, Let, Seq, Stmt, While
from weft.ir.visit import (
    Node,
    fact,
    free_vars,
    fresh_name,
    map_statements,
    names_in,
    rebuild,
    rewrite,
    substitute,
    used_names,
)
from weft.passes.analysis.conditions import is_pure
from weft.passes.analysis.thread_teams import jumps_out
from weft.passes.analysis.uniform_values import is_vote

Names = frozenset[str]
NONE: Names = frozenset()

#: Assignments to a variable that are renamed: each value is a scope inside the one before.
MOST = 16


def split_live_ranges(s: Stmt) -> Stmt:
    """``s`` with a variable for each live range, and without assignments that nobody reads."""
    if not assigned_names(s):
        return s
    vars_set = (n.var if isinstance(n, Assign) else n.result for n in statements(s) if isinstance(n, (Assign, Atomic)))
    counts = Counter(var.name for var in vars_set if var is not None)
    renamer = _Renamer(used_names(s), {name for name, n in counts.items() if n <= MOST})
    return _visit(renamer.visit(s, _Where()), NONE, NONE)


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
class _Where:
    """What holds at a place: the variables that are read after it, or where a loop is left or begun anew from it; the
    variables around it that may get new names, and the ones they have."""

    after: Names = NONE
    jumps: Names = NONE
    open: Names = NONE
    held: Mapping[Var, Var] = field(default_factory=dict)

    def in_loop(self, loop: For | While) -> _Where:
        again = self.after | _use(loop).read | _use(loop.body).read
        return replace(self, after=again, jumps=again)

    def in_let(self, var: Var, *, is_open: bool) -> _Where:
        held = {old: new for old, new in self.held.items() if old != var} if var in self.held else self.held
        return replace(self, open=self.open | {var.name} if is_open else self.open - {var.name}, held=held)


class _Following(NamedTuple):
    """What is read after a part of a sequence, and what may be read after the sequence."""

    later: Names
    seen: Names


@dataclass(frozen=True, slots=True)
class _Renamer:
    """Gives values that nobody reads after the sequence they are assigned in names of their own.

    All variables in one walk: programs declare hundreds at their beginning, and set them deep inside.
    """

    taken: set[str]
    small: set[str]

    def visit(self, s: Stmt, where: _Where) -> Stmt:
        if not assigned_names(s):
            return substitute(s, where.held)
        match s:
            case Let():
                inside = where.in_let(s.var, is_open=s.var.name in self.small)
                return replace(s, value=substitute(s.value, where.held), body=self.visit(s.body, inside))
            case Seq():
                return self.parts(s.body, 0, _following(s.body, where), where)
            case For() | While():
                return self.inside(s, where, where.in_loop(s))
        return self.inside(s, where, where)

    def inside(self, s: Stmt, where: _Where, below: _Where) -> Stmt:
        return rebuild(s, lambda n: self.visit(n, below) if isinstance(n, Stmt) else substitute(n, where.held))

    def parts(self, parts: tuple[Stmt, ...], start: int, following: list[_Following], where: _Where) -> Stmt:
        made: list[Stmt] = []
        for n, part in enumerate(parts[start:], start):
            later, seen = following[n]
            if isinstance(part, Assign) and part.var.name in where.open:
                name = part.var.name
                if name not in later:
                    continue  # nobody reads it
                if name not in seen:
                    new = replace(part.var, name=fresh_name(name, self.taken))
                    held = {**where.held, part.var: new}
                    others = self.parts(parts, n + 1, following, replace(where, held=held))
                    return sequence((*made, Let(new, substitute(part.value, where.held), others, span=part.span)))
            made.append(self.visit(part, replace(where, after=later)))
        return sequence(made)


def _following(parts: tuple[Stmt, ...], where: _Where) -> list[_Following]:
    """For each part of a sequence."""
    found: list[_Following] = []
    read, surely, leaves = NONE, NONE, False
    for part in reversed(parts):
        jumps = where.jumps if leaves else NONE
        found.append(_Following(read | (where.after - surely) | jumps, where.after | jumps))
        use = _use(part)
        read, surely, leaves = use.read | (read - use.set), surely | use.set, leaves or jumps_out(part)
    return found[::-1]


def _visit(s: Stmt, after: Names, jumps: Names) -> Stmt:
    """``s``, after which the variables ``after`` are read, or ``jumps`` where it breaks or continues a loop."""
    if not assigned_names(s):
        return s
    match s:
        case Assign():
            return s if s.var.name in after or s.var.name in jumps else Seq(())
        case Let():
            body = _without_same(_visit(s.body, after, jumps), s)
            unread = s.var.name not in names_in(body) and not is_vote(s.value)
            return body if unread else replace(s, body=body)
        case Seq():
            return sequence(_parts(s.body, after, jumps))
        case For() | While():
            again = after | _use(s).read | _use(s.body).read
            return replace(s, body=_visit(s.body, again, again))
    return map_statements(s, lambda n: _visit(n, after, jumps))


def _parts(parts: tuple[Stmt, ...], after: Names, jumps: Names) -> list[Stmt]:
    made: list[Stmt] = []
    for part in reversed(parts):
        made.append(_visit(part, after, jumps))
        use = _use(part)
        after = use.read | (after - use.set) | (jumps if jumps_out(part) else NONE)
    return made[::-1]


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
