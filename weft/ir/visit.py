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
import itertools
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias, TypeGuard, TypeVar, cast

from weft.ir.buffer import Buffer
from weft.ir.expr import AddressOf, Axis, Const, Expr, Load, Reduce, Var
from weft.ir.fields import READERS, REBUILDERS
from weft.ir.intrinsics import HINTS
from weft.ir.stmt import Alloc, Atomic, Block, Evaluate, For, Iter, Kernel, Let, Region, Stmt, Store

Node: TypeAlias = "Expr | Stmt | Axis | Iter | Region | Kernel"
N = TypeVar("N", bound=Node)
S = TypeVar("S", bound=Stmt)


def children(node: Node) -> tuple[Node, ...]:
    """The direct children in program order."""
    return READERS[type(node)](node)


def walk(node: Node) -> Iterator[Node]:
    """``node`` and everything below it, parents before children, in program order."""
    if isinstance(node, Expr):
        return itertools.chain((node,), _below(node))
    kept = _nodes_in(node) if isinstance(node, Stmt) else None
    return itertools.chain((node,), kept) if kept is not None else _walk_parts(node)


def _walk_parts(node: Node) -> Iterator[Node]:
    return itertools.chain((node,), itertools.chain.from_iterable(map(walk, children(node))))


def _below(e: Expr) -> tuple[Node, ...]:
    """All nodes below ``e``; kept with it, for passes ask again and again."""
    if isinstance(e, (Var, Const)):
        return ()
    try:
        return e._below
    except AttributeError:
        found: list[Node] = []
        readers, pending = READERS, list(children(e)[::-1])
        while pending:
            n = pending.pop()
            found.append(n)
            kind = type(n)
            if kind is not Var and kind is not Const:  # most are, and have nothing below
                pending += readers[kind](n)[::-1]
        object.__setattr__(e, "_below", tuple(found))
        return e._below


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
    return REBUILDERS[type(node)](node, fn)  # type: ignore[no-any-return]


def map_statements(s: S, fn: Callable[[Stmt], Stmt]) -> S:
    """``s`` with ``fn`` applied to the statements directly inside it; the same object where nothing changed."""
    return rebuild(s, lambda n: fn(n) if isinstance(n, Stmt) else n)


def rewrite(node: N, fn: Callable[[Node], Node | None], naming: Collection[str] | None = None) -> N:
    """Bottom-up: children first, then ``fn`` on the rebuilt node; None keeps it.

    Where ``naming`` is given, statements that none of these names occurs in are passed by.
    """
    sought = None if naming is None else frozenset(naming)

    def visit(n: Any) -> Any:
        if isinstance(n, Buffer):
            return n
        if sought is not None and isinstance(n, Stmt) and sought.isdisjoint(names_in(n)):
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
    asks = isinstance(node, (Stmt, Kernel))
    sought = frozenset(v.name for v in values) if asks else frozenset[str]()

    def is_untouched(s: Stmt) -> bool:
        return sought.isdisjoint(names_in(s)) and sought.isdisjoint(_names_in_sizes(s))

    def visit(n: Any) -> Any:
        if isinstance(n, Var):
            return values.get(n, n)
        if isinstance(n, Const):
            return n
        if isinstance(n, Buffer):
            if n not in buffers:
                buffers[n] = rebuild_buffer(n, visit)
            return buffers[n]
        if asks and isinstance(n, Stmt) and is_untouched(n):
            return n
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

    names = {old.name: new.name for old, new in mapping.items()}

    def visit(n: Any) -> Any:
        if isinstance(n, Buffer):
            return mapping.get(n, n)
        if isinstance(n, Stmt) and names.keys().isdisjoint(names_in(n)):
            return n
        n = rebuild(n, visit)
        if isinstance(n, For) and n.ahead is not None and not names.keys().isdisjoint(n.ahead.rings):
            rings = tuple(names.get(name, name) for name in n.ahead.rings)
            return dataclasses.replace(n, ahead=dataclasses.replace(n.ahead, rings=rings))
        return n

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


_BINDING = frozenset({For, Let, Reduce, Block, Alloc, Kernel})


def free_vars(node: Node) -> dict[str, Var]:
    """Variables used in ``node`` and bound nowhere in it, by name, in order of first use."""
    if isinstance(node, Var):
        return {node.name: node}
    if isinstance(node, Const):
        return {}
    bound: set[str] = set()
    variables: dict[str, Var] = {}
    for n in walk(node):
        kind = type(n)
        if kind is Var:
            variables.setdefault(n.name, n)  # type: ignore[arg-type, union-attr]
        elif kind in _BINDING:
            bound.update(bound_names(n))
    return {name: v for name, v in variables.items() if name not in bound} if bound else variables


F = TypeVar("F")
A = TypeVar("A")
B = TypeVar("B")


def fact(find: Callable[[S], F]) -> Callable[[S], F]:
    """``find``, which looks at one statement alone, with what it found kept with the statement.

    Programs never change: a rewrite makes new statements where it changes something and shares the rest, so that
    a fact which is put together from those of the parts is only looked for again along the way that changed.
    """

    def ask(s: S) -> F:
        try:
            return s._facts[find]  # type: ignore[return-value]
        except AttributeError:
            object.__setattr__(s, "_facts", {})
        except KeyError:
            pass
        computed = s._facts[find] = find(s)
        return computed

    return ask


def recently(most: int) -> Callable[[Callable[[A, B], F]], Callable[[A, B], F]]:
    """For what is found of two things, known by identity: the last ``most`` answers are kept, for all that ask."""

    def declare(find: Callable[[A, B], F]) -> Callable[[A, B], F]:
        kept: dict[tuple[int, int], tuple[A, B, F]] = {}

        def ask(a: A, b: B) -> F:
            key = (id(a), id(b))
            known = kept.get(key)
            if known is None or known[0] is not a or known[1] is not b:
                if len(kept) >= most:
                    kept.clear()
                known = kept[key] = (a, b, find(a, b))
            return known[2]

        return ask

    return declare


#: Nodes of a statement that are kept listed with it.
_MOST_KEPT = 20_000


@fact
def _nodes_in(s: Stmt) -> tuple[Node, ...] | None:
    """All below ``s``, unless it is too much to keep: passes ask again and again, and change little each."""
    found = tuple(itertools.islice(_walk_parts(s), 1, _MOST_KEPT + 2))  # with one too many, where there are
    return found if len(found) <= _MOST_KEPT else None


class Mentions(NamedTuple):
    """The names that a statement and the code in it mention, the regions that blocks declare aside."""

    #: Variables and buffers that are bound inside, or allocated.
    bound: frozenset[str] = frozenset()
    allocated: frozenset[str] = frozenset()
    #: Buffers: an atomic update loads and stores. Addresses in hints to the caches count apart.
    loaded: frozenset[str] = frozenset()
    stored: frozenset[str] = frozenset()
    addressed: frozenset[str] = frozenset()
    hinted: frozenset[str] = frozenset()

    @property
    def reached(self) -> frozenset[str]:
        """Buffers whose memory is handed to calls, hints among them."""
        return self.addressed | self.hinted


@fact
def mentions(s: Stmt) -> Mentions:
    """Of ``s``, put together from its parts."""
    if _binds_alone(s):
        (name,), below = bound_names(s), mentions(s.body)
        allocated = below.allocated | {name} if isinstance(s, Alloc) else below.allocated
        return Mentions(below.bound | {name}, allocated, *below[2:])
    own, inner = _own_names(s), [mentions(n) for n in children(s) if isinstance(n, Stmt)]
    stored = {s.buffer.name} if isinstance(s, (Store, Atomic)) else set[str]()
    loaded = own.loaded | stored if isinstance(s, Atomic) else own.loaded
    addressed, hinted = own.addressed, own.addressed if isinstance(s, Evaluate) and s.call.name in HINTS else set[str]()
    return Mentions(
        united(own.bound, [m.bound for m in inner]),
        united({s.buffer.name} if isinstance(s, Alloc) else (), [m.allocated for m in inner]),
        united(loaded, [m.loaded for m in inner]),
        united(stored, [m.stored for m in inner]),
        united(() if hinted else addressed, [m.addressed for m in inner]),
        united(hinted, [m.hinted for m in inner]),
    )


def _binds_alone(s: Stmt) -> TypeGuard[For | Alloc]:
    """Whether ``s`` is a loop or storage of known size, which names nothing but what it binds: most statements are."""
    if isinstance(s, For):
        return isinstance(s.lo, Const) and isinstance(s.hi, Const) and s.backward is None
    return isinstance(s, Alloc) and s.buffer.strides is None and all(isinstance(n, Const) for n in s.buffer.shape)


class _Names(NamedTuple):
    """Names in expressions: all, those bound there, and buffers that are loaded or whose address is taken."""

    all: set[str]
    bound: set[str]
    loaded: set[str]
    addressed: set[str]
    #: Those in the sizes of buffers, which are not among all.
    sizes: set[str]

    def add(self, node: Node) -> None:
        pending = [node]
        while pending:
            n = pending.pop()
            kind = type(n)
            if kind is Var:
                self.all.add(n.name)  # type: ignore[union-attr]
                continue
            if kind is Const:
                continue
            if kind is Load:
                self.loaded.add(n.buffer.name)  # type: ignore[union-attr]
                self.sizes.update(_size_names(n.buffer))  # type: ignore[union-attr]
            elif kind is AddressOf:
                self.addressed.add(n.buffer.name)  # type: ignore[union-attr]
                self.sizes.update(_size_names(n.buffer))  # type: ignore[union-attr]
            elif kind is Reduce:
                self.bound.update(bound_names(n))
            pending += children(n)


@fact
def _own_names(s: Stmt) -> _Names:
    """Names in ``s`` itself, the statements inside it aside; of what a block declares, too."""
    names = _Names(set(), set(bound_names(s)), set(), set(), set())
    for n in children(s):
        if isinstance(n, Var):
            names.all.add(n.name)
        elif not isinstance(n, (Stmt, Const)):
            names.add(n)
    if isinstance(s, (Store, Atomic)):
        names.all.add(s.buffer.name)
        names.sizes.update(_size_names(s.buffer))
    elif isinstance(s, Block):
        names.all.update([r.buffer.name for r in (*s.reads, *s.writes)])
        names.sizes.update([name for r in (*s.reads, *s.writes) for name in _size_names(r.buffer)])
    elif isinstance(s, Alloc):
        names.all.update(_size_names(s.buffer))
    names.all.update(names.bound, names.loaded, names.addressed)
    return names


def _size_names(buffer: Buffer) -> Collection[str]:
    """Variables in the sizes and strides of ``buffer``."""
    sizes = buffer.shape if buffer.strides is None else (*buffer.shape, *buffer.strides)
    return [name for e in sizes if type(e) is not Const for name in free_vars(e)]


@fact
def _names_in_sizes(s: Stmt) -> frozenset[str]:
    """Variables in the sizes of buffers that ``s`` accesses."""
    if _binds_alone(s):
        return _names_in_sizes(s.body)
    return united(_own_names(s).sizes, [_names_in_sizes(n) for n in children(s) if isinstance(n, Stmt)])


def used_names(node: Node) -> set[str]:
    """Every variable and buffer name that occurs, for choosing fresh ones."""
    if isinstance(node, Kernel):
        return {*bound_names(node), *names_in(node.body)}
    if isinstance(node, Stmt):
        return set(names_in(node))
    names = _Names(set(), set(), set(), set(), set())
    names.add(node)
    return names.all.union(names.bound, names.loaded, names.addressed)


@fact
def names_in(s: Stmt) -> frozenset[str]:
    """Every variable and buffer name in ``s``."""
    if _binds_alone(s):
        (name,), below = bound_names(s), names_in(s.body)
        return below if name in below else below | {name}
    return united(_own_names(s).all, [names_in(n) for n in children(s) if isinstance(n, Stmt)])


@fact
def free_names(s: Stmt) -> frozenset[str]:
    """Variables and buffers that ``s`` uses, or that blocks in it declare to, and that are bound around it."""
    return names_in(s) - mentions(s).bound


def united(own: Collection[str], inner: list[frozenset[str]]) -> frozenset[str]:
    """All of them; where one set has all it is that very set, so that nests do not copy it over and over."""
    if len(inner) < 2:
        return frozenset(own) if not inner else inner[0] if inner[0].issuperset(own) else inner[0].union(own)
    largest = max(inner, key=len)
    if largest.issuperset(own) and all(largest is other or largest.issuperset(other) for other in inner):
        return largest
    return frozenset(own).union(*inner)


def fresh_name(base: str, taken: set[str]) -> str:
    """``base``, or ``base_1``, ``base_2`` ...: the first not in ``taken``, which it joins."""
    name, count = base, 0
    while name in taken:
        count += 1
        name = f"{base}_{count}"
    taken.add(name)
    return name


def loads(node: Node) -> list[Load]:
    if isinstance(node, Stmt):
        return list(_loads_in(node))
    return [] if isinstance(node, (Var, Const)) else [n for n in walk(node) if isinstance(n, Load)]


@fact
def _loads_in(s: Stmt) -> tuple[Load, ...]:
    return tuple(n for n in walk(s) if isinstance(n, Load))


def stores(node: Node) -> list[Store | Atomic]:
    if isinstance(node, Stmt):
        return list(_stores_in(node))
    return [] if isinstance(node, Expr) else [n for n in walk(node) if isinstance(n, (Store, Atomic))]


@fact
def _stores_in(s: Stmt) -> tuple[Store | Atomic, ...]:
    stores_inside: list[Store | Atomic] = []
    pending = [s]
    while pending:
        inner = pending.pop()
        if isinstance(inner, (Store, Atomic)):
            stores_inside.append(inner)
        else:
            pending += [n for n in children(inner)[::-1] if isinstance(n, Stmt)]
    return tuple(stores_inside)
