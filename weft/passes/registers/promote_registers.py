"""Accumulators in registers: an element that a loop keeps updating is loaded once and stored once.

Compilers call this scalar replacement, or register promotion.

``for k: C[m,n] = C[m,n] + ...`` becomes ``let c = C[m,n]: for k: c = c + ...; C[m,n] = c``,
through all nested loops in which the element stays the same. Legal where all else that the loop
touches of the buffer are other elements; distinct buffers never overlap.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from weft.ir import stmt as st
from weft.ir.buffer import Buffer, Scope
from weft.ir.expr import AddressOf, Compare, Load, Var
from weft.ir.interval import Ranges
from weft.ir.intrinsics import HINTS
from weft.ir.memory import PLAIN_SCOPES
from weft.ir.simplify import assigned_names
from weft.ir.visit import Node, fresh_name, map_statements, mentions, rewrite, used_names, walk
from weft.passes.analysis.are_apart import are_apart
from weft.passes.analysis.loop_ranges import is_serial_loop, ranges_inside, runs_at_least_once

#: What reaches memory; a call may do anything with an address.
_ACCESS = (Load, st.Store, st.Atomic, AddressOf)


def promote_registers(kernel: st.Kernel, scopes: Collection[Scope] = PLAIN_SCOPES) -> st.Kernel:
    """Updates of one element through a loop kept in a variable, for buffers in ``scopes``."""
    return replace(kernel, body=_Promotion(used_names(kernel), scopes).promote(kernel.body, {}, ()))


@dataclass(frozen=True, slots=True)
class _Promotion:
    taken: set[str]
    scopes: Collection[Scope]

    def promote(self, s: st.Stmt, ranges: Ranges, around: tuple[st.For, ...]) -> st.Stmt:
        if isinstance(s, st.Tensorized):
            return s
        inner, inside = ranges, around
        if isinstance(s, st.For):
            inner, inside = ranges_inside(s, ranges), (*around, s)
        s = map_statements(s, lambda n: self.promote(n, inner, inside))
        if isinstance(s, st.Seq):
            return _start_from_stored(s)
        if isinstance(s, st.For) and is_serial_loop(s):
            return self.promote_loop(s, inner, ranges, around)
        return s

    def promote_loop(self, loop: st.For, inner: Ranges, ranges: Ranges, around: tuple[st.For, ...]) -> st.Stmt:
        """The loop with every element that it keeps updating in a variable around it."""
        kept: list[tuple[Var, st.Store]] = []
        element = self.find_element(loop, inner, around)
        while element is not None:
            var = Var(fresh_name(f"{element.buffer.name}_sum", self.taken), element.buffer.dtype, span=element.span)
            kept.append((var, element))
            loop = _use_variable(loop, element, var)
            element = self.find_element(loop, inner, around)
        result: st.Stmt = loop
        for var, store in kept:
            load = Load(store.buffer, store.indices, span=store.span)
            result = st.Let(var, load, st.Seq((result, replace(store, value=var))), span=store.span)
        return result if not kept or runs_at_least_once(loop, ranges) else st.If(Compare("<", loop.lo, loop.hi), result)

    def find_element(self, loop: st.For, ranges: Ranges, around: tuple[st.For, ...]) -> st.Store | None:
        """A store of the loop whose element can be kept in a variable."""
        touched = mentions(loop.body)
        if touched.stored.isdisjoint(touched.loaded):
            return None
        nodes = _without_hints(loop.body)
        if any(isinstance(n, (*st.JUMPS, st.Barrier)) for n in nodes):
            return None
        bound = {loop.var.name, *touched.bound, *assigned_names(loop.body)}
        stores = [n for n in nodes if isinstance(n, st.Store) and n.buffer.scope in self.scopes]
        for store in stores:
            if store.buffer.name in bound or not _is_fixed(store, bound, touched.stored):
                continue
            accesses = [n for n in nodes if isinstance(n, _ACCESS) and n.buffer.name == store.buffer.name]
            plain = all(not isinstance(n, (st.Atomic, AddressOf)) for n in accesses)
            others = [n for n in accesses if not isinstance(n, AddressOf) and n.indices != store.indices]
            is_read = any(isinstance(n, Load) and n.indices == store.indices for n in accesses)
            if not (plain and is_read) or _in_concurrent_loop(nodes, store.buffer):
                continue
            if not _always_reached(loop.body, store, ranges):
                continue
            loops = (*around, loop, *(n for n in nodes if isinstance(n, st.For))) if others else ()
            if all(isinstance(n, (Load, st.Store)) and are_apart(n.indices, store.indices, loops) for n in others):
                return store
        return None


def _without_hints(s: st.Stmt) -> list[Node]:
    """All nodes but calls that change only the speed, such as a prefetch of the very element."""
    nodes = list(walk(s))
    if not mentions(s).hinted:
        return nodes
    hints = (n for n in nodes if isinstance(n, st.Evaluate) and n.call.name in HINTS)
    inside = {id(node) for hint in hints for node in walk(hint)}
    return [n for n in nodes if id(n) not in inside]


def _in_concurrent_loop(nodes: list[Node], buffer: Buffer) -> bool:
    concurrent = [n for n in nodes if isinstance(n, st.For) and not is_serial_loop(n)]
    inside = (n for loop in concurrent for n in walk(loop) if isinstance(n, (Load, st.Store)))
    return any(n.buffer.name == buffer.name for n in inside)


def _is_fixed(store: st.Store, bound: set[str], written: frozenset[str]) -> bool:
    """Whether the element is the same in all iterations."""
    for index in store.indices:
        for n in walk(index):
            if isinstance(n, Var) and n.name in bound:
                return False
            if isinstance(n, Load) and n.buffer.name in written | bound:
                return False
    return True


def _always_reached(s: st.Stmt, element: st.Store, ranges: Ranges) -> bool:
    """Whether every iteration surely stores the element: then touching it once more is safe too."""
    match s:
        case st.Store():
            return s.buffer.name == element.buffer.name and s.indices == element.indices
        case st.Let() | st.Alloc():
            return _always_reached(s.body, element, ranges)
        case st.Seq():
            return any(_always_reached(c, element, ranges) for c in s.body)
        case st.For():
            inner = ranges_inside(s, ranges)
            return is_serial_loop(s) and runs_at_least_once(s, ranges) and _always_reached(s.body, element, inner)
    return False


def _use_variable(loop: st.For, element: st.Store, var: Var) -> st.For:
    def is_element(n: Load | st.Store) -> bool:
        return n.buffer.name == element.buffer.name and n.indices == element.indices

    def in_register(n: Any) -> Any:
        if isinstance(n, Load) and is_element(n):
            return var
        if isinstance(n, st.Store) and is_element(n):
            return st.Assign(var, n.value, span=n.span)
        return None

    return rewrite(loop, in_register)


def _start_from_stored(s: st.Seq) -> st.Seq:
    """``C[i] = x; let c = C[i]: ...; C[i] = c`` starts ``c`` at ``x`` and stores once."""
    body: list[st.Stmt] = []
    for child in s.body:
        before = body[-1] if body else None
        if isinstance(before, st.Store) and isinstance(child, st.Let) and _reloads(before, child):
            body[-1] = replace(child, value=before.value)
        else:
            body.append(child)
    return s if len(body) == len(s.body) else st.Seq(tuple(body), span=s.span)


def _reloads(store: st.Store, let: st.Let) -> bool:
    """Whether ``let`` starts from the element just stored, and stores it again in the end."""
    loaded = let.value
    same = isinstance(loaded, Load) and loaded.buffer == store.buffer and loaded.indices == store.indices
    last = let.body.body[-1] if isinstance(let.body, st.Seq) and let.body.body else None
    return (
        same
        and isinstance(last, st.Store)
        and (last.buffer, last.indices) == (store.buffer, store.indices)
        and not _touches(let.body, store.buffer, except_last=last)
    )


def _touches(s: st.Stmt, buffer: Buffer, *, except_last: st.Stmt) -> bool:
    """Whether anything but ``except_last`` uses the buffer, or may leave before it."""
    for n in walk(s):
        if n is except_last:
            continue
        if isinstance(n, _ACCESS) and n.buffer.name == buffer.name:
            return True
    return False
