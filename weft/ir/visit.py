"""Walking and rewriting programs: the few functions every pass is written with.

>>> rewrite(stmt, lambda n: idx(0) if n == i else None)      # bottom-up; None keeps the node
>>> [n for n in walk(stmt) if isinstance(n, Load)]           # top-down, in program order
>>> substitute(stmt, {i: io * 16 + ii})

Traversal is derived from the dataclass fields, so a new node kind needs nothing here. It
visits expressions, statements, axes, iterators and regions; buffers are leaves, except
that `substitute` and `replace_buffers` reach into the shapes and strides they hold.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias, TypeVar, cast

from weft.ir.buffer import Buffer
from weft.ir.expr import AddressOf, Axis, Expr, Load, Reduce, Var
from weft.ir.stmt import Alloc, Atomic, Block, For, Iter, Kernel, Let, Region, Stmt, Store

Node: TypeAlias = "Expr | Stmt | Axis | Iter | Region | Kernel"
N = TypeVar("N", bound=Node)
_NODES = (Expr, Stmt, Axis, Iter, Region, Kernel)


_LEAF_FIELDS = ("span", "op", "name", "kind", "dtype", "type", "message", "lanes", "positions", "scope", "outputs")
_node_fields: dict[type, tuple[str, ...]] = {}


def _fields(cls: Any) -> tuple[str, ...]:
    """Fields of a node class that can hold nodes or buffers."""
    found = _node_fields.get(cls)
    if found is None:
        found = tuple(f.name for f in dataclasses.fields(cls) if f.name not in _LEAF_FIELDS)
        _node_fields[cls] = found
    return found


def children(node: Node) -> Iterator[Node]:
    """The direct children in program order."""
    for name in _fields(type(node)):
        value = getattr(node, name)
        if isinstance(value, _NODES):
            yield value
        elif isinstance(value, tuple):
            yield from (v for v in value if isinstance(v, _NODES))


def walk(node: Node) -> Iterator[Node]:
    """``node`` and everything below it, parents before children, in program order."""
    pending = [node]
    while pending:
        found = pending.pop()
        yield found
        pending.extend(reversed(list(children(found))))


def count_nodes(node: Node) -> int:
    """How many nodes `walk` would visit; a shared one is looked at once, so huge trees that share much are quick."""
    sizes: dict[int, int] = {}
    pending = [node]
    while pending:
        below = list(children(pending[-1]))
        waiting = [c for c in below if id(c) not in sizes]
        if waiting:
            pending += waiting
        else:
            sizes[id(pending.pop())] = 1 + sum(sizes[id(c)] for c in below)
    return sizes[id(node)]


def rebuild(node: N, fn: Callable[[Any], Any]) -> N:
    """``node`` with ``fn`` applied to each direct child and buffer; the same object where nothing changed."""
    changes = {}
    for name in _fields(type(node)):
        old = getattr(node, name)
        new: Any
        if isinstance(old, tuple):
            new = tuple(fn(v) if isinstance(v, (*_NODES, Buffer)) else v for v in old)
            if all(a is b for a, b in zip(old, new)):
                continue
        elif isinstance(old, (*_NODES, Buffer)):
            new = fn(old)
            if new is old:
                continue
        else:
            continue
        changes[name] = new
    return cast(N, dataclasses.replace(cast(Any, node), **changes)) if changes else node


def rewrite(node: N, fn: Callable[[Node], Node | None]) -> N:
    """Bottom-up: children first, then ``fn`` on the rebuilt node; None keeps it."""

    def visit(n: Any) -> Any:
        if isinstance(n, Buffer):
            return n
        rebuilt = rebuild(n, visit)
        replaced = fn(rebuilt)
        return rebuilt if replaced is None else replaced

    return cast(N, visit(node))


def substitute(node: N, values: Mapping[Var, Expr]) -> N:
    """Free occurrences of variables replaced, also in the shapes and strides of buffers."""
    if not values:
        return node
    buffers: dict[Buffer, Buffer] = {}

    def visit(n: Any) -> Any:
        if isinstance(n, Var):
            return values.get(n, n)
        if isinstance(n, Buffer):
            if n not in buffers:
                buffers[n] = rebuild_buffer(n, visit)
            return buffers[n]
        return rebuild(n, visit)

    return cast(N, visit(node))


def rebuild_buffer(buffer: Buffer, fn: Callable[[Expr], Expr]) -> Buffer:
    """``buffer`` with ``fn`` applied to its sizes and strides; the same object where nothing changed."""
    shape = tuple(map(fn, buffer.shape))
    strides = None if buffer.strides is None else tuple(map(fn, buffer.strides))
    if shape == buffer.shape and strides == buffer.strides:
        return buffer
    return dataclasses.replace(buffer, shape=shape, strides=strides)


def replace_buffers(node: N, mapping: Mapping[Buffer, Buffer]) -> N:
    """Every use of a buffer in ``mapping`` redirected."""

    def visit(n: Any) -> Any:
        return mapping.get(n, n) if isinstance(n, Buffer) else rebuild(n, visit)

    return cast(N, visit(node))


def bound_names(node: Node) -> tuple[str, ...]:
    """The names ``node`` itself binds over its children."""
    match node:
        case For(var=var) | Let(var=var):
            return (var.name,)
        case Reduce(axes=axes):
            return tuple(a.var.name for a in axes)
        case Block(iters=iters):
            return tuple(i.var.name for i in iters)
        case Alloc(buffer=buffer):
            return (buffer.name,)
        case Kernel(params=params):
            return tuple(p.name for p in params)
    return ()


def free_vars(node: Node) -> dict[str, Var]:
    """Variables used in ``node`` and bound nowhere in it, by name, in order of first use."""
    bound = {name for n in walk(node) for name in bound_names(n)}
    return {n.name: n for n in walk(node) if isinstance(n, Var) and n.name not in bound}


def used_names(node: Node) -> set[str]:
    """Every variable and buffer name that occurs, for choosing fresh ones."""
    names = {name for n in walk(node) for name in bound_names(n)}
    names |= {n.name for n in walk(node) if isinstance(n, Var)}
    return names | {n.buffer.name for n in walk(node) if isinstance(n, (Load, Store, Atomic, AddressOf))}


def fresh_name(base: str, taken: set[str]) -> str:
    """``base``, or ``base_1``, ``base_2`` ...: the first not in ``taken``, which it joins."""
    name, count = base, 0
    while name in taken:
        count += 1
        name = f"{base}_{count}"
    taken.add(name)
    return name


def loads(node: Node) -> list[Load]:
    return [n for n in walk(node) if isinstance(n, Load)]


def stores(node: Node) -> list[Store | Atomic]:
    return [n for n in walk(node) if isinstance(n, (Store, Atomic))]
