"""Loops part of whose body runs ahead (`weft.ir.ahead`), written out: a prologue, and iterations that fill later turns.

    for k in 0:K ahead 2 of R {            fill of k = 0, fill of k = 1
      fill of k                            for k in 0:K {
      use of k                               if k + 2 < K { fill of k + 2 }
    }                                        use of k
                                           }

In shared memory, hints say that these copies may run on their own and which of them belong together; barriers and what
waits for the copies come later. A ring that a nest of loops goes around is filled ahead in the innermost of them. Where
the first subscript does not tell turns of a ring apart, the body stays in order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from weft.ir.affine import linear_form
from weft.ir.ahead import loops_ahead, split_ahead
from weft.ir.expr import AddressOf, Binary, Compare, Expr, Load, Var, idx
from weft.ir.interval import Interval, Ranges
from weft.ir.nesting import flat, sequence
from weft.ir.simplify import is_empty, simplify
from weft.ir.stmt import For, If, Kernel, Stmt, Store, hint
from weft.ir.visit import map_statements, mentions, substitute, walk
from weft.passes.analysis.loop_ranges import is_serial_loop, ranges_inside


def run_ahead(kernel: Kernel) -> Kernel:
    """``kernel``, which has no blocks any more, with rings filled ahead of their use."""
    if not loops_ahead(kernel.body):
        return kernel
    sizes = {v.name: Interval(0, None) for b in kernel.buffers for e in b.shape for v in walk(e) if isinstance(v, Var)}
    return replace(kernel, body=_visit(kernel.body, sizes))


def _visit(s: Stmt, ranges: Ranges) -> Stmt:
    if not loops_ahead(s):
        return s
    if not isinstance(s, For):
        return map_statements(s, lambda n: _visit(n, ranges))
    if s.ahead is None:
        return replace(s, body=_visit(s.body, ranges_inside(s, ranges)))
    rings = frozenset(s.ahead.rings)
    running = _run(replace(s, ahead=None), s.ahead.distance, rings, ranges)
    shared = dict.fromkeys(n.buffer for n in _accesses(s, rings) if n.buffer.scope == "shared")
    starts = (AddressOf(b, tuple(idx(0) for _ in b.shape)) for b in shared)
    return sequence([*(hint("async_fill", start) for start in starts), running])


def _run(loop: For, distance: int, rings: frozenset[str], ranges: Ranges) -> Stmt:
    """``loop`` with the innermost loop around what fills ``rings`` filling them ahead."""
    inner = ranges_inside(loop, ranges)
    body = _below(loop.body, distance, rings, inner)
    if body is not loop.body or not _takes_turns(loop, rings):
        return replace(loop, body=body)
    fills, rest = split_ahead(loop.body, rings)
    is_shared = any(n.buffer.scope == "shared" for n in _accesses(fills, rings))
    end = [hint("async_commit", idx(distance))] if is_shared else []
    first = [s for n in range(distance) for s in (*_filled(loop, fills, loop.lo + n, ranges), *end)]
    later = _filled(loop, fills, loop.var + distance, inner)
    return sequence([*first, replace(loop, body=sequence([*later, *end, rest]))])


def _below(s: Stmt, distance: int, rings: frozenset[str], ranges: Ranges) -> Stmt:
    """``s`` with the loops in it that fill and do more filling ahead."""
    stored = mentions(s).stored
    if stored.isdisjoint(rings) or stored <= rings:
        return s
    if isinstance(s, For) and is_serial_loop(s):
        return _run(s, distance, rings, ranges)
    inner = ranges_inside(s, ranges)
    return map_statements(s, lambda n: _below(n, distance, rings, inner))


def _filled(loop: For, fills: Stmt, turn: Expr, ranges: Ranges) -> list[Stmt]:
    """What fills the rings for the iteration ``turn``, if there is one."""
    inside = Compare("<", turn, loop.hi)
    made = (simplify(If(inside, substitute(s, {loop.var: turn})), ranges) for s in flat(fills))
    return [s for s in made if not is_empty(s)]


def _takes_turns(loop: For, rings: frozenset[str]) -> bool:
    """Whether each iteration has the next turn of every ring, all that it touches in the same one."""
    places = {(n.buffer, simplify(n.indices[0])) for n in _accesses(loop.body, rings)}
    return len(places) == len(rings) and all(_counts(turn, ring.shape[0], loop.var) for ring, turn in places)


def _counts(turn: Expr, depth: Expr, var: Var) -> bool:
    """Whether ``turn`` goes up by one with ``var``, around ``depth`` or never again to the same."""
    if isinstance(turn, Binary) and turn.op == "%" and turn.right == depth:
        turn = turn.left
    terms = linear_form(turn).terms
    return terms.get(var) == 1 and not any(n == var for atom in terms if atom != var for n in walk(atom))


def _accesses(s: Stmt, rings: frozenset[str]) -> Iterator[Load | Store]:
    return (n for n in walk(s) if isinstance(n, (Load, Store)) and n.buffer.name in rings)
