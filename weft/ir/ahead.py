"""Software pipelining: loops part of whose body may run ahead, copies into rings of buffers before what uses them.

    alloc R: float32[3, 64] in shared
    for k in 0:K ahead 2 of R {
      ... R[k % 3, i] = A[k, i]         # may be done for k + 1 and k + 2
      ... uses R[k % 3, i]              # before this is done for k
    }

That says what may overlap, not how: copies that run on their own, or threads apart that do nothing else, are the
target's choice when it cuts the body in two (`split_ahead`). The meaning is the body in order. It is legal because
what runs ahead reads nothing that the loop writes (`why_not_ahead`), and because a turn's part of a ring is not filled
again before its use: turns follow one another around a ring that has more of them than the distance.
"""

from __future__ import annotations

from weft.ir.buffer import Buffer
from weft.ir.expr import Const
from weft.ir.nesting import inner_statements, statement_kinds
from weft.ir.simplify import assigned_names
from weft.ir.stmt import Alloc, Barrier, Block, Break, Continue, For, If, Let, Return, Seq, Stmt, Store
from weft.ir.visit import fact, free_names, map_statements, mentions, stores

_NOTHING = Seq(())
_LEAVING = (Break, Continue, Return, Barrier)
#: What a statement that runs ahead may be made of.
_PLAIN = frozenset((Seq, For, If, Let, Alloc, Block, Store))


def split_ahead(s: Stmt, rings: frozenset[str]) -> tuple[Stmt, Stmt]:
    """``s`` in two, each with the loops, tests and values around: what stores to ``rings``, and all else."""
    stored = mentions(s).stored
    if stored.isdisjoint(rings):
        return _NOTHING, s
    if stored <= rings or isinstance(s, Block):
        return s, _NOTHING
    parts = {id(inner): split_ahead(inner, rings) for inner in inner_statements(s)}
    return _used(map_statements(s, lambda n: parts[id(n)][0])), _used(map_statements(s, lambda n: parts[id(n)][1]))


def _used(s: Stmt) -> Stmt:
    """``s`` without storage that nothing in it uses."""
    if not isinstance(s, Alloc):
        return s
    held = mentions(s.body)
    return s if s.buffer.name in held.loaded | held.stored | held.reached else s.body


@fact
def loops_ahead(s: Stmt) -> tuple[For, ...]:
    """The loops in ``s`` part of whose body may run ahead."""
    own = (s,) if isinstance(s, For) and s.ahead is not None else ()
    return own + tuple(loop for inner in inner_statements(s) for loop in loops_ahead(inner))


@fact
def why_not_ahead(loop: For) -> str | None:
    """Why part of the body may not run ahead as the loop says; None where it may."""
    assert loop.ahead is not None
    name, distance = loop.var.name, loop.ahead.distance
    if loop.kind not in ("serial", "unroll"):
        return f"the iterations of the {loop.kind} loop `{name}` do not follow one another"
    if distance < 1 or not loop.ahead.rings:
        return f"`{name}` names nothing that runs ahead"
    if not statement_kinds(loop.body).isdisjoint(_LEAVING):
        return f"a break, continue, return or barrier in the body of `{name}`"
    buffers = {s.buffer.name: s.buffer for s in stores(loop.body)}
    for ring in loop.ahead.rings:
        problem = _ring_problem(loop, ring, buffers.get(ring))
        if problem is not None:
            return problem
    return _fill_problem(loop, "`, `".join(loop.ahead.rings))


def _ring_problem(loop: For, ring: str, buffer: Buffer | None) -> str | None:
    assert loop.ahead is not None
    held = mentions(loop.body)
    if buffer is None:
        return f"nothing in `{loop.var.name}` fills `{ring}`"
    if ring in held.allocated:
        return f"`{ring}` is made anew in every iteration of `{loop.var.name}`"
    if ring in held.addressed:
        return f"an intrinsic takes the address of `{ring}`"
    turns = buffer.shape[0] if buffer.shape else None
    if not isinstance(turns, Const) or turns.value <= loop.ahead.distance:
        return f"`{ring}` has too few turns to be filled {loop.ahead.distance} ahead"
    return None


def _fill_problem(loop: For, what: str) -> str | None:
    """What ties the stores that run ahead to the rest of the body."""
    assert loop.ahead is not None
    rings = frozenset(loop.ahead.rings)
    fills, _ = split_ahead(loop.body, rings)
    if not statement_kinds(fills) <= _PLAIN:
        return f"`{what}` is filled by more than plain stores"
    foreign = sorted(mentions(fills).stored - rings)
    if foreign:
        return f"filling `{what}` writes `{foreign[0]}` too"
    changing = changed_sources(loop)
    if changing:
        return f"`{what}` is filled from `{changing[0]}`, which `{loop.var.name}` changes"
    assigned = free_names(fills) & assigned_names(loop.body)
    if assigned:
        return f"filling `{what}` depends on `{min(assigned)}`, which `{loop.var.name}` changes"
    return None


def changed_sources(loop: For) -> list[str]:
    """The buffers that are read to fill the rings of ``loop`` although its body writes them."""
    assert loop.ahead is not None
    fills, _ = split_ahead(loop.body, frozenset(loop.ahead.rings))
    return sorted(mentions(fills).loaded & mentions(loop.body).stored)
