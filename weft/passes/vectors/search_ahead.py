"""Loops that look for the first element of which something holds, several elements at a time.

``for x in 0:n { if A[x] >= v { k = x; break } }`` asks of the next elements at once whether it holds of any; only where
it does, or at the end, they are asked in turn. Elements behind the one that is found would not have been read: so many
at a time are asked only as far as memory goes.

Compilers call this vectorization of loops with early exits.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from weft.ir import dtype as dt
from weft.ir.expr import (
    Binary,
    Broadcast,
    Call,
    Cast,
    Compare,
    Const,
    Expr,
    Load,
    Ramp,
    Reduce,
    Select,
    Shuffle,
    Var,
    idx,
)
from weft.ir.nesting import flat, sequence
from weft.ir.offsets import linear_offset
from weft.ir.simplify import simplify
from weft.ir.stmt import Assign, Break, For, If, Kernel, Let, Return, Seq, Stmt
from weft.ir.visit import children, count_nodes, fresh_name, loads, map_statements, rebuild, substitute, used_names
from weft.passes.analysis.conditions import mentions

#: Vectors of elements that are asked together: one branch for all of them.
VECTORS = 2
#: Nodes of a test that is asked of elements nobody needs.
LONGEST = 24
#: Memory of so many elements is all there is, or one whose end nobody knows.
ENDLESS = 1 << 48
_LAZY_OR_SLOW = ("&&", "||", "/", "//", "%", "tdiv", "tmod")


def search_ahead(kernel: Kernel, *, vector_bits: int) -> Kernel:
    """``kernel`` with loops that search by vectors of ``vector_bits``."""
    taken = used_names(kernel)

    def visit(s: Stmt) -> Stmt:
        s = map_statements(s, visit)
        return (_searched(s, vector_bits, taken) or s) if isinstance(s, For) and s.kind == "serial" else s

    return replace(kernel, body=visit(kernel.body))


def _searched(loop: For, vector_bits: int, taken: set[str]) -> Stmt | None:
    condition = _condition(loop)
    if condition is None or count_nodes(condition) > LONGEST or not _is_plain(condition):
        return None
    moving = [load for load in loads(condition) if mentions(load, loop.var.name)]
    ends = [_end(load, loop.var) for load in moving]
    if not ends or None in ends:
        return None
    lanes = vector_bits // max(32, *(load.dtype.bits for load in moving))
    count = VECTORS * lanes
    end = loop.hi
    for of_memory in ends:
        assert of_memory is not None
        end = Binary("min", end, of_memory)
    at = Var(fresh_name(f"{loop.var.name}_from", taken))
    turn = Var(fresh_name(f"{loop.var.name}_turn", taken))
    holds = [_as_lanes(condition, loop.var, at + idx(n * lanes), lanes) for n in range(VECTORS)]
    ahead = sequence([If(_any_of(holds, lanes), Break(), span=loop.span), Assign(at, at + idx(count))])
    turns = Binary("//", Binary("max", end - loop.lo, idx(0)), idx(count))
    quick = For(turn, idx(0), simplify(turns), "serial", ahead, span=loop.span)
    return Let(at, loop.lo, Seq((quick, replace(loop, lo=at))))


def _as_lanes(e: Expr, var: Var, at: Expr, lanes: int) -> Expr:
    """``e`` for ``var`` from ``at`` on, a lane each."""
    if not mentions(e, var.name):
        return Broadcast(e, lanes)
    if isinstance(e, Var):
        return Ramp(at, idx(1), lanes)
    if isinstance(e, Load):  # of which `_end` knows that the last subscript counts elements
        *outer, last = (substitute(index, {var: at}) for index in e.indices)
        return replace(e, indices=(*outer, Ramp(simplify(last), idx(1), lanes)))
    if isinstance(e, Cast):
        return replace(e, type=e.type.with_lanes(lanes), operand=_as_lanes(e.operand, var, at, lanes))
    return rebuild(e, lambda part: _as_lanes(part, var, at, lanes))


def _any_of(tests: list[Expr], lanes: int) -> Expr:
    """Whether a lane of ``tests`` holds."""
    one, none = (Broadcast(Const(value, dt.int32), lanes) for value in (1, 0))
    bits: Expr = Select(tests[0], one, none)
    for test in tests[1:]:
        bits = Binary("|", bits, Select(test, one, none))
    while lanes > 1:
        lanes //= 2
        low, high = (Shuffle((bits,), tuple(range(first, first + lanes))) for first in (0, lanes))
        bits = Binary("|", low, high)
    return Compare("!=", bits, Const(0, dt.int32))


def _condition(loop: For) -> Expr | None:
    """What ends ``loop``, where an iteration does nothing unless it is the last."""
    body = loop.body
    values: dict[Var, Expr] = {}
    while isinstance(body, Let):
        values[body.var] = substitute(body.value, values)
        body = body.body
    if not isinstance(body, If) or body.otherwise is not None:
        return None
    if not isinstance([None, *flat(body.then)][-1], (Break, Return)):
        return None
    return substitute(body.condition, values)


def _is_plain(e: Expr) -> bool:
    """Whether all of ``e`` is computed whenever it is, and quick."""
    if isinstance(e, (Call, Reduce, Select)) or (isinstance(e, Binary) and e.op in _LAZY_OR_SLOW):
        return False
    return all(_is_plain(child) for child in children(e) if isinstance(child, Expr))


def _end(load: Load, var: Var) -> Expr | None:
    """Before which value of ``var`` the element is in memory, where it is the next one at each step."""
    offset = linear_offset(load.buffer, load.indices)
    if offset is None or offset.terms.pop(var, 0) != 1 or any(mentions(e, var.name) for e in offset.terms):
        return None
    if any(mentions(index, var.name) for index in load.indices[:-1]):
        return None
    size = simplify(prod(load.buffer.shape, start=idx(1)))
    end = size - offset.expr(dt.index)
    return end if isinstance(size, Const) else Select(size < idx(ENDLESS), end, idx(0))
