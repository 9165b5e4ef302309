"""A reduction spread over lanes: partial results side by side, combined at the end.

``for k: C[m] = max(C[m], A[m,k])`` becomes an accumulator of some lanes that takes whole vectors
of ``A``, then halves folded onto each other, then one update of ``C[m]``. That changes the order
of operations: always allowed for integers, minima and maxima, for float sums only on request.
"""

from __future__ import annotations

from dataclasses import replace

from weft.ir.affine import Linear, linear_form
from weft.ir.buffer import Buffer
from weft.ir.expr import Binary, BinaryOp, Expr, Load, Ramp, ReduceOp, Var, identity, idx
from weft.ir.stmt import Alloc, For, Seq, Stmt, Store
from weft.ir.visit import fresh_name, walk
from weft.passes.analysis.check_vector import check_vector
from weft.passes.vectors.strip_vector_loops import strip_loop

_REDUCTIONS: dict[str, ReduceOp] = {"+": "+", "*": "*", "min": "min", "max": "max"}


def find_reduction(loop: For, *, reassociate: bool) -> Store | None:
    """The only statement of ``loop``, where it accumulates into one element and the order is free.

    What is there so far stands on the left of the operator.
    """
    store = _element_first(loop.body)
    if store is None or not isinstance(store.value, Binary) or store.value.op not in _REDUCTIONS:
        return None
    ordered = store.buffer.dtype.is_float and store.value.op in ("+", "*")
    if store.buffer.dtype.is_bool or (ordered and not reassociate):
        return None
    if any(_depends(i, loop.var.name) for i in store.indices):
        return None
    reads_target = any(isinstance(n, Load) and n.buffer.name == store.buffer.name for n in walk(store.value.right))
    probe = Buffer("lanes", store.buffer.dtype, (idx(1),))
    return None if reads_target or check_vector(_into(loop, store, probe, loop.var)) is not None else store


def _element_first(s: Stmt) -> Store | None:
    """``s`` as a store of what its element is combined with, in this order; sums of integers have any."""
    if not isinstance(s, Store) or not isinstance(s.value, Binary):
        return None
    element, value = Load(s.buffer, s.indices), s.value
    if value.left == element:
        return s
    if value.right == element and value.op in _REDUCTIONS:
        return replace(s, value=replace(value, left=element, right=value.left))
    terms = linear_form(value) if s.buffer.dtype.is_integer and value.op in ("+", "-") else Linear()
    if terms.terms.pop(element, 0) != 1:
        return None
    return replace(s, value=Binary("+", element, terms.expr(s.buffer.dtype), span=value.span))


def _depends(e: Expr, var: str) -> bool:
    return any((isinstance(n, Var) and n.name == var) or isinstance(n, Load) for n in walk(e))


def _into(loop: For, store: Store, partial: Buffer, lane: Var) -> For:
    """The loop accumulating into element ``lane`` of ``partial``."""
    assert isinstance(store.value, Binary)
    value = Binary(store.value.op, Load(partial, (lane,)), store.value.right, span=store.span)
    return replace(loop, body=Store(partial, (lane,), value, span=store.span))


def reduce_in_lanes(loop: For, store: Store, lanes: int, taken: set[str], *, has_masks: bool) -> Stmt:
    """``loop``, which `find_reduction` found to be the reduction ``store``, with ``lanes`` partial results."""
    assert isinstance(store.value, Binary)
    op, dtype = store.value.op, store.buffer.dtype
    partial = Buffer(fresh_name(f"{store.buffer.name}_lanes", taken), dtype, (idx(lanes),), scope="register")
    lane = Var(fresh_name(f"{loop.var.name}_lane", taken))
    start = Store(partial, (lane,), identity(_REDUCTIONS[op], dtype))
    fill = For(lane, idx(0), idx(lanes), "vector", start, span=loop.span)
    spread = strip_loop(_into(loop, store, partial, lane), lanes, taken, has_masks, lane)
    total = Binary(op, store.value.left, Load(partial, (idx(0),)), span=store.span)
    update = replace(store, value=total)
    return Alloc(partial, Seq((fill, spread, *_fold(partial, op, lanes), update)), span=loop.span)


def _fold(partial: Buffer, op: BinaryOp, lanes: int) -> list[Stmt]:
    """The upper half combined into the lower one until one lane holds all."""
    steps: list[Stmt] = []
    while lanes > 1:
        lanes //= 2
        lower, upper = _part(0, lanes), _part(lanes, lanes)
        steps.append(Store(partial, (lower,), Binary(op, Load(partial, (lower,)), Load(partial, (upper,)))))
    return steps


def _part(start: int, lanes: int) -> Expr:
    return Ramp(idx(start), idx(1), lanes) if lanes > 1 else idx(start)
