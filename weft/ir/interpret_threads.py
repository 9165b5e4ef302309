"""Concurrent loops and barriers.

The iterations of a concurrent loop run one after another, each until it ends or waits at a
barrier; when all of them wait at the same one, the loop that resolves it starts its next
phase. Perfectly nested thread loops make one team, whose warps are 32 consecutive threads,
the innermost loop counting fastest.

A barrier of scope ``block`` is resolved by the outermost thread loop of its block, ``grid``
by the outermost block loop, ``warp`` by the warp. A thread that has left by `Return` is not
waited for; one that ended otherwise and missed the barrier is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Any, NoReturn, TypeAlias

from weft.ir.errors import DivergentBarrier, ProgramError
from weft.ir.interpret_expr import Evaluator, compile_expr
from weft.ir.interpret_memory import STRAND, Env, Fork, Scope, Strand, iteration_text
from weft.ir.interpret_stmt import (
    DONE,
    RETURN,
    Arrival,
    Code,
    Signal,
    Steps,
    Target,
    compile_serial,
    compile_stmt,
    is_parallel,
)
from weft.ir.nesting import perfect_nest
from weft.ir.stmt import Barrier, For, Stmt

WARP = 32
Loops: TypeAlias = "tuple[tuple[str, int], ...]"


class Thread:
    """One iteration of a concurrent loop with its own variables, suspended at ``arrival`` or ended."""

    def __init__(self, env: Env, body: Callable[[Env], Steps], loops: Loops) -> None:
        self.env = env
        self.body = body
        self.steps: Steps | None = None
        self.loops = loops
        self.arrival: Arrival | None = None
        self.is_running = True
        self.has_returned = False

    def enter(self, strand: Strand) -> None:
        self.env[STRAND] = strand

    def advance(self) -> None:
        try:
            if self.steps is None:
                self.steps = self.body(self.env)
            self.arrival = next(self.steps)
        except StopIteration as stop:
            self.arrival, self.is_running = None, False
            self.has_returned = stop.value == RETURN

    def threads(self) -> list[Thread]:
        return [self]

    def __str__(self) -> str:
        return iteration_text(self.loops, [self.env[slot] for _, slot in self.loops])


class Team:
    """Threads, or warps of them, that one kind of barrier holds together."""

    def __init__(self, members: Sequence[Thread | Team], target: Target) -> None:
        self.members = members
        self.target = target
        self.strand: Strand = Strand(None)
        self.arrival: Arrival | None = None
        self.is_running = True
        self.has_returned = False

    def enter(self, strand: Strand) -> None:
        self.strand = strand

    def advance(self) -> None:
        """Runs phase after phase until all members ended or wait at a barrier that is not this team's."""
        while True:
            fork = Fork(self.strand)
            for member in self.members:
                if member.is_running:
                    member.enter(Strand(fork))
                    member.advance()
            self.arrival = common_arrival(self.members)
            if self.arrival is None:
                self.is_running, self.has_returned = False, all(m.has_returned for m in self.members)
                return
            if self.arrival.target != self.target:
                return

    def threads(self) -> list[Thread]:
        return [t for m in self.members for t in m.threads()]


def common_arrival(members: Sequence[Thread | Team]) -> Arrival | None:
    """The barrier that all members wait at, or None where all have ended."""
    waiting = [m for m in members if m.arrival is not None]
    if not waiting:
        return None
    arrival = waiting[0].arrival
    missing = [m for m in members if m.arrival is not arrival and not m.has_returned]
    if missing and arrival is not None:
        _report_divergence(arrival, members)
    return arrival


def _report_divergence(arrival: Arrival, members: Sequence[Thread | Team]) -> NoReturn:
    threads = [t for m in members for t in m.threads()]
    here = [t for t in threads if t.arrival is arrival]
    ended = [t for t in threads if not t.is_running and not t.has_returned]
    elsewhere = [t for t in threads if t.arrival is not None and t.arrival is not arrival]
    groups = [(here, "here"), (ended, "end without reaching it"), (elsewhere, "at another barrier")]
    texts = [_describe(group, place) for group, place in groups if group]
    others = list(dict.fromkeys(str(t.arrival.span) for t in elsewhere if t.arrival and t.arrival.span))
    raise DivergentBarrier(
        f"not all threads reach this {arrival.scope} barrier",
        span=arrival.span,
        why="; ".join(texts),
        notes=[("other", where) for where in others],
    )


def _describe(threads: Sequence[Thread], place: str) -> str:
    shown = ", ".join(map(str, threads[:4])) + (" ..." if len(threads) > 4 else "")
    one = len(threads) == 1
    verb = place if place.startswith("end") else f"wait {place}"
    return f"{len(threads)} thread{'' if one else 's'} {verb.replace(' ', 's ', 1) if one else verb}: {shown}"


def compile_loop(stmt: For, scope: Scope) -> Code:
    if not is_parallel(stmt):
        return compile_serial(stmt, scope)
    nest = perfect_nest(stmt, "thread")[0] if stmt.kind == "thread" else (stmt,)
    scope.layout.groups += 1
    number = scope.layout.groups
    inner, ranges = scope, list[tuple[int, Evaluator, Evaluator]]()
    for loop in nest:
        lo, hi = compile_expr(loop.lo, inner), compile_expr(loop.hi, inner)
        inner, slot = inner.with_loop(loop.var)
        ranges.append((slot, lo, hi))
    concurrent = (*scope.concurrent, (stmt.kind, number))
    inner = replace(inner, concurrent=concurrent, own=frozenset(), in_loop=False)
    body = compile_stmt(nest[-1].body, inner)
    if body.targets:
        return _compile_team(body, number, ranges, inner.loops)
    return _compile_independent(body.run, ranges)


def points(env: Env, ranges: Sequence[tuple[int, Evaluator, Evaluator]]) -> Iterator[None]:
    """Sets the loop variables to each point of a nest, in order."""
    (slot, lo, hi), rest = ranges[0], ranges[1:]
    for i in range(lo(env), hi(env)):
        env[slot] = i
        if rest:
            yield from points(env, rest)
        else:
            yield


def _compile_independent(body: Callable[[Env], Any], ranges: list[tuple[int, Evaluator, Evaluator]]) -> Code:
    """A concurrent loop without barriers across its iterations; `Return` ends an iteration."""

    def run(env: Env) -> Signal:
        parent: Strand = env[STRAND]
        fork = Fork(parent)
        for _ in points(env, ranges):
            env[STRAND] = Strand(fork)
            body(env)
        env[STRAND] = parent
        return DONE

    return Code(run)


def _compile_team(body: Code, number: int, ranges: list[tuple[int, Evaluator, Evaluator]], loops: Loops) -> Code:
    own, warps = ("loop", number), ("warp", number)
    stepped = body.stepped()

    def muster(env: Env) -> Team:
        threads = [Thread(env.copy(), stepped, loops) for _ in points(env, ranges)]
        if warps not in body.targets:
            return Team(threads, own)
        return Team([Team(threads[i : i + WARP], warps) for i in range(0, len(threads), WARP)], own)

    def steps(env: Env) -> Steps:
        team = muster(env)
        while True:
            team.enter(env[STRAND])
            team.advance()
            if team.arrival is None:
                return DONE
            yield team.arrival

    def run(env: Env) -> Signal:
        team = muster(env)
        team.enter(env[STRAND])
        team.advance()
        return DONE

    outer = body.targets - {own, warps}
    return Code(steps if outer else run, outer)


def _barrier(stmt: Barrier, scope: Scope) -> Code:
    target = _find_target(stmt, scope)
    if target is None:
        return Code(lambda env: DONE)
    arrival = Arrival(target, stmt.scope, stmt.span or scope.span)

    def steps(env: Env) -> Steps:
        yield arrival
        return DONE

    return Code(steps, frozenset({target}))


def _find_target(stmt: Barrier, scope: Scope) -> Target | None:
    """The loop that resolves a barrier; None where a single thread makes it trivial."""
    held = ("thread", "block") if stmt.scope == "grid" else ("thread",)
    around = list(takewhile(lambda loop: loop[0] in held, reversed(scope.concurrent)))
    if around:
        return ("warp", around[0][1]) if stmt.scope == "warp" else ("loop", around[-1][1])
    if scope.concurrent and scope.concurrent[-1][0] != "block" and any(k in held for k, _ in scope.concurrent):
        raise ProgramError(
            f"{stmt.scope} barrier inside a {scope.concurrent[-1][0]} loop",
            span=stmt.span or scope.span,
            why="its iterations are not threads, so a thread would arrive more than once or not at all",
        )
    return None


LOOPS: dict[type[Stmt], Callable[[Any, Scope], Code]] = {For: compile_loop, Barrier: _barrier}
