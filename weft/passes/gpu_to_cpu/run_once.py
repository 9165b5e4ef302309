"""Threads that all do the same, run once.

    thread ty in 0:8 { thread tx in 0:32 { s[tx] = 0; for k in 0:n { s[tx] = s[tx] + A[tx, k] } } }

No thread asks for its ``ty``: eight of them do the same to the same memory. Each begins by setting what it reads
again later, so that one after another, which is one of the orders that a GPU may run them in, they leave what the last
one leaves. That one alone is run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from weft.ir.expr import AddressOf, Binary, Expr, Load, idx
from weft.ir.nesting import around, perfect_nest
from weft.ir.simplify import assigned_names, simplify
from weft.ir.stmt import JUMPS, Alloc, Assert, Atomic, Barrier, Evaluate, For, If, Kernel, Let, Seq, Stmt, Store, While
from weft.ir.visit import children, free_vars, map_statements, mentions, walk
from weft.passes.analysis.loop_ranges import constant_extent

#: What is not the same when it is done twice, or not known to end.
_REFUSED = (*JUMPS, AddressOf, Assert, Atomic, Barrier, Evaluate, While)


def run_once(kernel: Kernel) -> Kernel:
    """``kernel`` with one thread in place of several that do the same."""
    return replace(kernel, body=_visit(kernel.body))


def _visit(s: Stmt) -> Stmt:
    if not isinstance(s, For) or s.kind != "thread":
        return map_statements(s, _visit)
    loops, body = perfect_nest(s, "thread")
    used = set(free_vars(body)).union(*(free_vars(e) for loop in loops for e in (loop.lo, loop.hi)))
    alike = [loop for loop in loops if loop.var.name not in used and (constant_extent(loop) or 0) > 1]
    if not alike or not is_idempotent(body):
        return s
    others = [loop for loop in loops if loop not in alike]
    return around(others or [replace(loops[-1], lo=simplify(Binary("-", loops[-1].hi, idx(1))))], body)


def is_idempotent(body: Stmt) -> bool:
    """Whether ``body``, done again, leaves what it left: it reads no memory it changes, or sets it first."""
    if any(isinstance(n, _REFUSED) for n in walk(body)):
        return False
    own = mentions(body)
    changing = assigned_names(body) | own.bound
    return all(_sets_first(body, name, changing) for name in own.stored - own.allocated if _is_loaded(body, name))


def _is_loaded(s: Any, name: str) -> bool:
    return any(isinstance(n, Load) and n.buffer.name == name for n in walk(s))


def _sets_first(body: Stmt, name: str, changing: frozenset[str]) -> bool:
    """Whether all accesses to a buffer are to one element, and the first of them sets it."""
    first = _first(body, name)
    if not isinstance(first, Store) or first.buffer.name != name or _is_loaded(first.value, name):
        return False
    fixed = not any(set(free_vars(i)) & changing or any(isinstance(n, Load) for n in walk(i)) for i in first.indices)
    return fixed and all(indices == first.indices for indices in _subscripts(body, name))


def _first(s: Stmt, name: str) -> Stmt | None:
    """The statement before which the buffer is not touched, where it runs whenever any other that touches it does."""
    match s:
        case Seq(body=parts):
            first, *others = [part for part in parts if _touches(part, name)]
            return first if others else _first(first, name)
        case If(condition=test, then=then, otherwise=None) if not _touches(test, name):
            return _first(then, name)
        case Let(value=value, body=body) if not _touches(value, name):
            return _first(body, name)
        case Alloc(body=body):
            return _first(body, name)
    return s


def _touches(s: Any, name: str) -> bool:
    return any(True for _ in _subscripts(s, name))


def _subscripts(node: Any, name: str) -> Iterator[tuple[Expr, ...]]:
    if isinstance(node, (Load, Store)) and node.buffer.name == name:
        yield node.indices
    for child in children(node):
        yield from _subscripts(child, name)
