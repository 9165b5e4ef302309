"""Recurrences in registers: what one iteration stores and the next one reads is handed on in a variable.

This is scalar replacement across iterations.

``for j: H[j] = f(H[j - 1])`` becomes ``let h = H[lo - 1]: for j: { h = f(h); H[j] = h }``: the next iteration
need not wait for memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from weft.ir.expr import AddressOf, Binary, Compare, Load, Reduce, Select, Var, idx
from weft.ir.interval import Ranges
from weft.ir.simplify import simplify
from weft.ir.stmt import Assign, Atomic, For, If, Kernel, Let, Seq, Stmt, Store
from weft.ir.visit import Node, children, fresh_name, loads, map_statements, rewrite, substitute, used_names, walk
from weft.passes.analysis.conditions import mentions
from weft.passes.analysis.loop_ranges import ranges_inside, runs_at_least_once


def carry_stores(kernel: Kernel) -> Kernel:
    """Every innermost serial loop with the elements it stores and reads again an iteration later in variables."""
    return replace(kernel, body=_visit(kernel.body, {}, used_names(kernel)))


def _visit(s: Stmt, ranges: Ranges, taken: set[str]) -> Stmt:
    inner = ranges_inside(s, ranges)
    s = map_statements(s, lambda n: _visit(n, inner, taken))
    return _carry(s, ranges, taken) if isinstance(s, For) and s.kind == "serial" else s


def _carry(loop: For, ranges: Ranges, taken: set[str]) -> Stmt:
    parts = loop.body.body if isinstance(loop.body, Seq) else (loop.body,)
    if not all(isinstance(p, Store) for p in parts):
        return loop
    for place, store in enumerate(parts):
        assert isinstance(store, Store)
        carried = _carried(loop, parts, place)
        if carried is not None:
            var = Var(fresh_name(f"{store.buffer.name}_before", taken), store.buffer.dtype, span=store.span)
            made = _with_variable(loop, parts, place, carried, var)
            return made if runs_at_least_once(loop, ranges) else If(Compare("<", loop.lo, loop.hi), made)
    return loop


def _carried(loop: For, parts: tuple[Stmt, ...], place: int) -> Load | None:
    """What is surely read of the element that statement ``place`` stored an iteration ago, before it stores again."""
    store = parts[place]
    assert isinstance(store, Store)
    name = store.buffer.name
    if store.value.dtype.lanes > 1 or any(isinstance(n, (Atomic, AddressOf)) for p in parts for n in walk(p)):
        return None
    if sum(isinstance(p, Store) and p.buffer.name == name for p in parts) > 1:
        return None
    if any(load.buffer.name == name for p in parts[place + 1 :] for load in loads(p)):
        return None
    own = [load for p in parts[: place + 1] for load in _sure_loads(p) if load.buffer.name == name]
    return next((load for load in own if _is_one_behind(load, store, loop)), None)


def _sure_loads(n: Node) -> Iterator[Load]:
    """The loads that are made whatever the values are."""
    if isinstance(n, Load):
        yield n
    if isinstance(n, Reduce):
        return
    lazy = isinstance(n, Select) or (isinstance(n, Binary) and n.op in ("&&", "||"))
    for child in list(children(n))[: 1 if lazy else None]:
        yield from _sure_loads(child)


def _is_one_behind(load: Load, store: Store, loop: For) -> bool:
    """Whether iteration ``v + 1`` loads what iteration ``v`` stores."""
    if not any(mentions(i, loop.var.name) for i in load.indices) or any(loads(i) for i in load.indices):
        return False
    ahead = [substitute(i, {loop.var: loop.var + idx(1)}) for i in load.indices]
    return all(simplify(Binary("-", a, b), {}) == idx(0) for a, b in zip(ahead, store.indices))


def _with_variable(loop: For, parts: tuple[Stmt, ...], place: int, load: Load, var: Var) -> Stmt:
    def in_register(n: Any) -> Any:
        return var if isinstance(n, Load) and n.buffer == load.buffer and n.indices == load.indices else None

    store = parts[place]
    assert isinstance(store, Store)
    before = [rewrite(p, in_register) for p in parts[:place]]
    value = Assign(var, rewrite(store.value, in_register), span=store.span)
    body = Seq((*before, value, replace(store, value=var), *parts[place + 1 :]), span=loop.body.span)
    start = simplify(substitute(load, {loop.var: loop.lo}), {})
    return Let(var, start, replace(loop, body=body), span=store.span)
