"""Early exits before a barrier, as masks.

A thread that returns, or leaves a loop in which others still meet at barriers, cannot leave the loops that
run all threads. It clears a flag instead, and what it would have skipped is run under that flag; barriers are met by
all. Jumps that all threads make together stay: they leave the loop around the threads.

Compilers call this predication, or if-conversion.

A loop around barriers whose ends differ between threads as far as the text says is one they agree on at every
iteration, since all of them meet at the barrier inside: one of them is asked. It becomes
``while true { let go = first_thread(test); if !go { break }; ... }``; where some threads are masked out, ``any_thread``
asks whether one of the others goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from weft.ir import dtype as dt
from weft.ir.expr import Binary, Call, Compare, Const, Expr, Select, Unary, Var, const, idx
from weft.ir.nesting import grouped, inner_statements
from weft.ir.stmt import Alloc, Assign, Barrier, Break, Continue, For, If, Let, Return, Seq, Stmt, While
from weft.ir.visit import free_vars, fresh_name, loads, map_statements
from weft.passes.analysis.thread_teams import barriers_in, holds, jumps_out
from weft.passes.analysis.uniform_values import ANY, FIRST, differs, is_vote

_TRUE, _FALSE = Const(True, dt.bool_), Const(False, dt.bool_)


def mask_jumps(body: Stmt, varying: frozenset[str], taken: set[str]) -> Stmt:
    """``body`` of a thread in which no thread leaves a barrier behind on its own."""
    masker = Masker(varying, taken)
    made, _ = masker.visit(body, _Place())
    if masker.active is not None:
        made = Let(masker.active, _TRUE, made)
    return made


@dataclass(frozen=True, slots=True)
class _Loop:
    """The flags of the threads that stay in a loop with barriers, and of those that go on with an iteration."""

    stays: Var
    goes_on: Var


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a statement stands: whether all threads get there together, and the loop around it.

    ``loop`` is that of the innermost loop with barriers; in a loop without any (``is_plain``) jumps stay as they are.
    """

    together: bool = True
    loop: _Loop | None = None
    is_plain: bool = False
    is_last: bool = True  # nothing comes after it


class Masker:
    def __init__(self, varying: frozenset[str], taken: set[str]) -> None:
        self.varying = set(varying)
        self.taken = taken
        self.active: Var | None = None
        self.level = "warp"  # the scope of barriers in the innermost loop that has any
        self.gone: set[str] = set()  # flags of threads that never come back

    def flag(self, name: str) -> Var:
        var = Var(fresh_name(name, self.taken), dt.bool_)
        self.varying.add(var.name)
        return var

    def visit(self, s: Stmt, at: _Place) -> tuple[Stmt, tuple[Var, ...]]:
        """``s`` without jumps that threads make alone, and the flags it may clear."""
        match s:
            case Seq():
                return self.sequence(list(s.body), at)
            case Let() | Alloc():
                body, cleared = self.visit(s.body, at)
                return replace(s, body=body), cleared
            case If():
                return self.branch(s, at)
            case For() | While():
                return self.loop(s, at) if _syncs(s) else self.plain_loop(s, at)
            case Return():
                return self.leave(at)
            case Break() | Continue() if not at.is_plain and not at.together and at.loop is not None:
                flag = at.loop.stays if isinstance(s, Break) else at.loop.goes_on
                return Assign(flag, _FALSE, span=s.span), (flag,)
        return s, ()

    def leave(self, at: _Place) -> tuple[Stmt, tuple[Var, ...]]:
        if self.active is None:
            self.active = self.flag("active")
            self.gone.add(self.active.name)
        clear = Assign(self.active, _FALSE)
        return (Seq((clear, Break())) if at.is_plain else clear), (self.active,)

    def sequence(self, parts: list[Stmt], at: _Place) -> tuple[Stmt, tuple[Var, ...]]:
        done: list[Stmt] = []
        flags: dict[Var, None] = {}
        for n, part in enumerate(parts):
            rest = parts[n + 1 :]
            if at.is_last and rest and (simple := self.leave_at_once(part, rest, at)) is not None:
                return Seq((*done, simple[0])), simple[1]
            new, cleared = self.visit(part, replace(at, is_last=at.is_last and not rest))
            done.append(new)
            flags |= dict.fromkeys(cleared)
            if cleared and rest and not at.is_plain:  # there, the jump that cleared them has left already
                later, more = self.sequence(rest, replace(at, together=False))
                done.append(self.masked(_all(cleared), later))
                flags |= dict.fromkeys(more)
                break
        return Seq(tuple(done)), tuple(flags)

    def leave_at_once(self, s: Stmt, rest: list[Stmt], at: _Place) -> tuple[Stmt, tuple[Var, ...]] | None:
        """``if c { return }`` before all that is left needs no flag that changes, only the test."""
        if not isinstance(s, If) or s.otherwise is not None or _syncs(s.then):
            return None
        before = _without_return(s.then)
        if before is None:
            return None
        stays = Var(fresh_name("stays", self.taken), dt.bool_)
        alone = differs(s.condition, self.varying)
        if alone:
            self.varying.add(stays.name)
            self.gone.add(stays.name)
        later, cleared = self.sequence(rest, replace(at, together=at.together and not alone))
        follow = self.masked(stays, later) if alone else If(stays, later)
        first = [] if before == Seq(()) else [If(Unary("!", stays), before, span=s.span)]
        body = Seq((*first, follow))
        return Let(stays, Unary("!", s.condition, span=s.condition.span), body, span=s.span), cleared

    def branch(self, s: If, at: _Place) -> tuple[Stmt, tuple[Var, ...]]:
        inside = replace(at, together=at.together and not differs(s.condition, self.varying))
        then, cleared = self.visit(s.then, inside)
        if s.otherwise is None:
            return replace(s, then=then), cleared
        otherwise, more = self.visit(s.otherwise, inside)
        return replace(s, then=then, otherwise=otherwise), tuple(dict.fromkeys((*cleared, *more)))

    def plain_loop(self, s: For | While, at: _Place) -> tuple[Stmt, tuple[Var, ...]]:
        """No barrier inside: a return becomes a break, of the loops around it too."""
        if not _returns(s):
            return s, ()
        body, cleared = self.visit(s.body, replace(at, is_plain=True, is_last=False))
        new: Stmt = replace(s, body=body)
        if at.is_plain and self.active is not None:
            new = Seq((new, If(Unary("!", self.active), Break())))
        return new, cleared

    def loop(self, s: For | While, at: _Place) -> tuple[Stmt, tuple[Var, ...]]:
        flags, around = _Loop(self.flag("stays"), self.flag("goes_on")), self.level
        self.level = _level(s)
        together = at.together and not any(differs(e, self.varying) for e in _bounds(s))
        body, cleared = self.visit(s.body, _Place(together, flags, is_last=False))
        if flags.goes_on in cleared:
            body = Let(flags.goes_on, _TRUE, body)
        kept = tuple(flag for flag in cleared if flag != flags.goes_on)
        new: Stmt = self.masked_loop(_all(kept), s, body) if kept else replace(s, body=body)
        self.level = around
        if flags.stays in kept:
            new = Let(flags.stays, _TRUE, new)
        return new, tuple(flag for flag in kept if flag != flags.stays)

    def masked_loop(self, mask: Expr, s: For | While, body: Stmt) -> Stmt:
        inside = self.masked(mask, body)
        if isinstance(s, For):
            return replace(s, body=inside)
        test = s.condition.args[0] if isinstance(s.condition, Call) and is_vote(s.condition) else s.condition
        return replace(s, condition=_vote(Binary("&&", mask, test), _level(s)), body=inside)

    def masked(self, mask: Expr, s: Stmt) -> Stmt:
        """``s`` for the threads with ``mask``; barriers in it for all of them."""
        unmasked = self.gone.issuperset(free_vars(mask))

        def stands_alone(stmt: Stmt) -> bool:
            return _syncs(stmt) or jumps_out(stmt) or (unmasked and self.is_common(stmt))

        match s:
            case Seq() if any(map(stands_alone, s.body)):
                return Seq(tuple(self.masked(mask, group) for group in grouped(s.body, stands_alone)))
            case _ if not _syncs(s) and not jumps_out(s):
                return s if s == Seq(()) or stands_alone(s) else If(mask, s)
            case Barrier() | Break() | Continue():  # a jump that is still there is one that all threads make
                return s
            case Alloc():
                return replace(s, body=self.masked(mask, s.body))
            case Let():
                return self.guarded(
                    s, mask, (s.value,), lambda v: replace(s, value=v[0], body=self.masked(mask, s.body))
                )
            case For():
                inside = self.masked(mask, s.body)
                return self.guarded(s, mask, (s.lo, s.hi), lambda v: replace(s, lo=v[0], hi=v[1], body=inside))
            case While():
                return self.masked_loop(mask, s, s.body)
            case If():
                then = self.masked(mask, s.then)
                other = None if s.otherwise is None else self.masked(mask, s.otherwise)
                return self.guarded(s, mask, (s.condition,), lambda v: If(v[0], then, other, span=s.span))
        return map_statements(s, lambda n: self.masked(mask, n))

    def is_common(self, s: Stmt) -> bool:
        """Whether ``s`` changes a variable that all threads agree on; nobody asks for it in threads that are gone."""
        return isinstance(s, Assign) and s.var.name not in self.varying and not loads(s.value)

    def guarded(self, s: Stmt, mask: Expr, values: tuple[Expr, ...], make: Callable[[Sequence[Expr]], Stmt]) -> Stmt:
        """What ``make`` makes of ``values``, memory read only where a thread with ``mask`` is there to read it."""
        if not any(loads(v) for v in values):
            return make(values)
        if any(differs(v, self.varying) for v in values):
            return make([_select(mask, v) for v in values])
        some = Var(fresh_name("some", self.taken), dt.bool_)
        return Let(some, _vote(mask, _level(s) if _syncs(s) else self.level), make([_select(some, v) for v in values]))


def _syncs(s: Stmt) -> bool:
    return bool(barriers_in(s))


def _level(s: Stmt) -> str:
    return next((scope for scope in ("grid", "block") if holds(s, scope)), "warp")


def _vote(test: Expr, level: str) -> Expr:
    """Whether ``test`` holds for one of the threads that barriers of this scope hold together."""
    return Call(ANY[level], (test,), dt.bool_)


def lower_votes(s: Stmt) -> Stmt:
    """``s``, in which barriers may be gone since votes were made: these are taken among whom barriers hold still.

    Threads that no barrier holds together go on each by its own test, which those that are masked out fail.
    """
    s = map_statements(s, lower_votes)
    if isinstance(s, While) and is_vote(s.condition):
        return replace(s, condition=_lowered(s.condition, s))
    if isinstance(s, Let) and is_vote(s.value):
        return replace(s, value=_lowered(s.value, s))
    return s


def _lowered(vote: Expr, s: Stmt) -> Expr:
    assert isinstance(vote, Call)
    return _vote(vote.args[0], _level(s)) if _syncs(s) else vote.args[0]


def _select(mask: Expr, value: Expr) -> Expr:
    return Select(mask, value, const(0, value.dtype)) if loads(value) else value


def _all(flags: Iterable[Var]) -> Expr:
    test: Expr | None = None
    for flag in flags:
        test = flag if test is None else Binary("&&", test, flag)
    assert test is not None
    return test


def _bounds(s: For | While) -> tuple[Expr, ...]:
    return (s.lo, s.hi) if isinstance(s, For) else (s.condition,)


def _returns(s: Stmt) -> bool:
    return isinstance(s, Return) or any(map(_returns, inner_statements(s)))


def _without_return(s: Stmt) -> Stmt | None:
    """What happens before a return that surely comes, at the end and nowhere else; None for anything else."""
    parts = list(s.body) if isinstance(s, Seq) else [s]
    if not parts or not isinstance(parts[-1], Return) or any(map(_returns, parts[:-1])):
        return None
    return Seq(tuple(parts[:-1]))


_TRUE = Const(True, dt.bool_)


def agree_on_loops(s: Stmt, scope: str, varying: frozenset[str], taken: set[str]) -> Stmt:
    """``s`` where every loop around a barrier of ``scope`` ends by a test that all threads agree on."""
    if not holds(s, scope):
        return s
    s = map_statements(s, lambda n: agree_on_loops(n, scope, varying, taken))
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
