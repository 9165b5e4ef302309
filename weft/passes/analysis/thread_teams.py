"""Teams: the threads that a barrier holds together, as a perfect nest of thread loops.

Warps are 32 consecutive threads of a team, the innermost loop counting fastest, as the interpreter has them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from weft.ir.errors import UnsupportedError
from weft.ir.expr import Binary, Const, Expr, Var, idx
from weft.ir.nesting import around, inner_statements, strip
from weft.ir.simplify import simplify
from weft.ir.stmt import Alloc, Barrier, BarrierScope, Break, Continue, For, Let, Stmt, While
from weft.ir.visit import fact, free_vars, fresh_name, loads, mentions, substitute
from weft.passes.analysis.thread_shapes import WARP


@dataclass(frozen=True, slots=True)
class Team:
    """Thread loops, or the block loops of a grid, outermost first; their bodies do not matter."""

    loops: tuple[For, ...]
    #: The barriers that hold it together.
    scope: BarrierScope = "block"

    @property
    def names(self) -> frozenset[str]:
        return frozenset(loop.var.name for loop in self.loops)

    @property
    def is_blocks(self) -> bool:
        return self.loops[0].kind == "block"

    def around(self, body: Stmt) -> Stmt:
        """``body`` run by every thread."""
        return around(self.loops, body)

    def shape(self) -> tuple[Expr, ...]:
        """How many threads there are along each loop."""
        return tuple(simplify(Binary("-", loop.hi, loop.lo)) for loop in self.loops)

    def place(self) -> tuple[Expr, ...]:
        """Where a thread stands, counted from 0 along each loop."""
        return tuple(simplify(Binary("-", loop.var, loop.lo)) for loop in self.loops)

    @property
    def size(self) -> int | None:
        """How many threads, where that is a number."""
        sizes = [int(e.value) for e in self.shape() if isinstance(e, Const)]
        return math.prod(sizes) if len(sizes) == len(self.loops) else None


@fact
def barriers_in(s: Stmt) -> tuple[Barrier, ...]:
    """The barriers in ``s``, in program order."""
    if isinstance(s, Barrier):
        return (s,)
    return tuple(b for inner in inner_statements(s) for b in barriers_in(inner))


def holds(s: Stmt, scope: str) -> bool:
    """Whether a barrier of ``scope`` is in ``s``."""
    return any(b.scope == scope for b in barriers_in(s))


@fact
def jumps_out(s: Stmt) -> bool:
    """Whether a break or continue in ``s`` acts on a loop around it."""
    if isinstance(s, (Break, Continue)):
        return True
    return not isinstance(s, (For, While)) and any(map(jumps_out, inner_statements(s)))


def sink_lets(loop: For) -> For:
    """Variables made between thread loops made inside all of them, so that the loops stand in a perfect nest."""
    body = strip(loop.body)
    if isinstance(body, Let) and barriers_in(body) and (inner := _only_loop(body.body)) is not None:
        written = mentions(loop).stored
        fixed = not any(load.buffer.name in written for load in loads(body.value))
        outside = not any(body.var.name in free_vars(e) for e in (inner.lo, inner.hi))
        if fixed and outside:
            return sink_lets(replace(loop, body=replace(inner, body=replace(body, body=inner.body))))
    if isinstance(body, For) and body.kind == "thread":
        return replace(loop, body=sink_lets(body))
    return loop


def _only_loop(s: Stmt) -> For | None:
    s = strip(s)
    return s if isinstance(s, For) and s.kind == "thread" else None


def check_shared(s: Stmt, *, in_thread: bool = False) -> None:
    """Raises where threads that wait for one another make storage that they are to share."""
    if isinstance(s, Alloc) and s.buffer.scope == "shared" and in_thread and barriers_in(s):
        raise refuse(
            f"`{s.buffer.name}` is shared storage made by each thread",
            "every thread would have its own, which no other sees",
            s,
            "make it outside the thread loops",
        )
    in_thread |= isinstance(s, For) and s.kind == "thread"
    for inner in inner_statements(s):
        check_shared(inner, in_thread=in_thread)


def refuse(what: str, why: str, at: Stmt | Expr | None = None, help: str | None = None) -> UnsupportedError:
    """A barrier that cannot be taken out of a program, with the reason."""
    return UnsupportedError(what, span=None if at is None else at.span, why=why, help=help)


def split_warps(team: Team, body: Stmt, taken: set[str]) -> tuple[Team, Team, Stmt]:
    """The warps of ``team``, the threads of one of them, and ``body`` in terms of both."""
    sizes = team.shape()
    inner = sizes[-1]
    if isinstance(inner, Const) and int(inner.value) % WARP == 0:
        return _split_at(team, len(sizes) - 1, WARP, body, taken)
    if len(sizes) > 1 and isinstance(inner, Const) and 0 < int(inner.value) < WARP and WARP % int(inner.value) == 0:
        rows, count = WARP // int(inner.value), sizes[-2]
        if isinstance(count, Const) and int(count.value) % rows == 0:
            return _split_at(team, len(sizes) - 2, rows, body, taken)
    return _split_numbered(team, body, taken)


def _split_at(team: Team, at: int, width: int, body: Stmt, taken: set[str]) -> tuple[Team, Team, Stmt]:
    """Loop ``at`` cut to pieces of ``width``, which with the loops inside it make a warp."""
    loop = team.loops[at]
    outer, lane = (Var(fresh_name(f"{loop.var.name}_{part}", taken)) for part in ("warp", "lane"))
    count = simplify(Binary("//", Binary("-", loop.hi, loop.lo), idx(width)))
    warps = (*team.loops[:at], replace(loop, var=outer, lo=idx(0), hi=count))
    lanes = (replace(loop, var=lane, lo=idx(0), hi=idx(width)), *team.loops[at + 1 :])
    value = simplify(Binary("+", loop.lo, Binary("+", Binary("*", outer, idx(width)), lane)))
    return Team(warps, team.scope), Team(lanes, "warp"), substitute(body, {loop.var: value})


def _split_numbered(team: Team, body: Stmt, taken: set[str]) -> tuple[Team, Team, Stmt]:
    """Threads counted through; the last warp may be short."""
    first = team.loops[0]
    total: Expr = idx(1)
    for size in team.shape():
        total = simplify(Binary("*", total, size))
    warp, lane = (Var(fresh_name(f"{first.var.name}_{part}", taken)) for part in ("warp", "lane"))
    start = Binary("*", warp, idx(WARP))
    number: Expr = Binary("+", start, lane)
    values: dict[Var, Expr] = {}
    for loop, size in zip(reversed(team.loops), reversed(team.shape())):
        digit = number if loop is first else Binary("%", number, size)
        values[loop.var] = simplify(Binary("+", loop.lo, digit))
        number = Binary("//", number, size)
    count = simplify(Binary("//", Binary("+", total, idx(WARP - 1)), idx(WARP)))
    short = simplify(Binary("min", idx(WARP), Binary("-", total, start)))
    warps = replace(first, var=warp, lo=idx(0), hi=count)
    lanes = replace(first, var=lane, lo=idx(0), hi=short)
    return Team((warps,), team.scope), Team((lanes,), "warp"), substitute(body, values)
