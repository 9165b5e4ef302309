"""The statements of a program that touch memory, each with all that decides when it runs and what it touches.

Block iterators and pure ``let`` variables are resolved to loop variables. Storage made inside a loop, and a ``let``
variable that is assigned, is each iteration's own: its accesses carry the loops around it as further subscripts.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import NamedTuple

from weft.ir import dtype as dt
from weft.ir import stmt as st
from weft.ir.buffer import Buffer
from weft.ir.evaluated import Test, evaluated
from weft.ir.expr import AddressOf, Axis, Binary, BinaryOp, Call, Compare, Const, Expr, Load, Var, idx
from weft.ir.interval import EVERYTHING, Interval, bounds, half_open, range_between
from weft.ir.intrinsics import HINTS
from weft.ir.nesting import find_path, inner_statements, statements
from weft.ir.quick_init import quick_init
from weft.ir.simplify import assigned_names
from weft.ir.visit import Node, fact, free_vars, names_in, recently, substitute, walk

CONCURRENT = ("parallel", "vector", "block", "thread")
_UPDATES = frozenset({"+", "-", "*", "min", "max", "&", "|", "^", "&&", "||"})


@quick_init
@dataclass(frozen=True, slots=True, eq=False)
class LoopRange:
    """A loop around a statement; ``hi`` is None for a while loop, whose passes are counted from 0."""

    name: str
    lo: Expr
    hi: Expr | None
    kind: str
    node: st.Stmt


@quick_init
@dataclass(frozen=True, slots=True, eq=False)
class Access:
    """One touch of a buffer by a statement.

    ``update`` is the operator where old and new value are combined by a commutative one. ``tests`` and ``axes``
    are those between the statement and the access; ``owners`` the loops whose every iteration has the buffer anew.
    """

    buffer: Buffer
    indices: tuple[Expr, ...]
    reads: bool
    writes: bool
    update: str | None = None
    atomic: bool = False
    tests: tuple[Test, ...] = ()
    axes: tuple[Axis, ...] = ()
    owners: tuple[str, ...] = ()

    @property
    def is_exact(self) -> bool:
        """Whether updates give the same result, bit for bit, in any order."""
        return self.update is not None and (self.update not in ("+", "*") or not self.buffer.dtype.is_float)


@dataclass(eq=False)
class Leaf:
    """A statement that touches memory, inside ``loops`` (outermost first) and where ``tests`` allow."""

    stmt: st.Stmt
    loops: tuple[LoopRange, ...]
    tests: tuple[Test, ...]
    accesses: tuple[Access, ...]
    block: str | None
    order: int
    #: Values of block iterators and pure lets, in terms of loops and of each other.
    values: Mapping[str, Expr]
    #: The loops around each other let variable, and whether it is assigned.
    lets: Mapping[str, tuple[tuple[str, ...], bool]]
    #: Symbolic sizes of the kernel's buffers, which are never negative.
    sizes: frozenset[str] = frozenset()
    domain_cache: object | None = field(default=None, repr=False)
    #: Accesses in linear form, by identity, and expressions that were resolved.
    touch_cache: dict[int, tuple[Access, object]] = field(default_factory=dict, repr=False)
    #: Where in memory each access goes, by its identity.
    place_cache: dict[int, tuple[Access, dict[str, int] | None]] = field(default_factory=dict, repr=False)
    resolved: dict[Expr, Expr] = field(default_factory=dict, repr=False)

    @property
    def update_op(self) -> str | None:
        """The operator, where the statement is ``X[i] = X[i] op value``."""
        return next((a.update for a in self.accesses if a.writes), None)

    @cached_property
    def loop_names(self) -> tuple[str, ...]:
        return tuple(loop.name for loop in self.loops)

    @cached_property
    def is_box(self) -> bool:
        """Whether its loops run between numbers and no tests are around it: nothing else decides where it runs."""
        return not self.tests and all(isinstance(x.lo, Const) and isinstance(x.hi, Const) for x in self.loops)

    @cached_property
    def ranges(self) -> Mapping[str, Interval]:
        """What each loop variable around it can be."""
        ranges: dict[str, Interval] = {}
        for loop in self.loops:
            lo = self.resolve(loop.lo)
            if loop.hi is None:
                ranges[loop.name] = half_open(bounds(lo, ranges), EVERYTHING)
            else:
                ranges[loop.name] = range_between(lo, self.resolve(loop.hi), ranges)
        return MappingProxyType(ranges)

    def resolve(self, e: Expr) -> Expr:
        """``e`` with block iterators and pure lets replaced by what they stand for."""
        if isinstance(e, Const):
            return e
        kept = self.resolved.get(e)
        if kept is None:
            kept = self.resolved[e] = self._resolve(e)
        return kept

    def _resolve(self, e: Expr) -> Expr:
        values = self.values
        for _ in range(32):
            substitutes = {v: values[name] for name, v in free_vars(e).items() if name in values}
            if not substitutes:
                break
            e = substitute(e, substitutes)
        return e


class _Scope(NamedTuple):
    loops: tuple[LoopRange, ...] = ()
    tests: tuple[Test, ...] = ()
    values: Mapping[str, Expr] = MappingProxyType({})
    lets: Mapping[str, tuple[tuple[str, ...], bool]] = MappingProxyType({})
    owners: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    block: st.Block | None = None
    sizes: frozenset[str] = frozenset()
    #: Whether one of ``lets`` is assigned.
    has_assigned: bool = False

    def names(self) -> tuple[str, ...]:
        return tuple([loop.name for loop in self.loops])


def leaves(program: st.Kernel | st.Stmt, below: st.Stmt | None = None) -> list[Leaf]:
    """Every statement that touches memory, in program order; only those inside ``below`` (by identity) if given.

    The order numbers count all statements met, so they compare across calls with the same arguments only.
    """
    return list(_find_leaves(program, below))


@recently(12)  # a check asks for the same leaves again and again
def _find_leaves(program: st.Kernel | st.Stmt, below: st.Stmt | None) -> list[Leaf]:
    return _leaves_in(program, below, None)


def leaves_touching(program: st.Kernel | st.Stmt, below: st.Stmt | None, buffer: str) -> list[Leaf]:
    """Those of `leaves` that may touch ``buffer``, sooner; their order numbers are others."""
    return _leaves_in(program, below, buffer)


def _leaves_in(program: st.Kernel | st.Stmt, below: st.Stmt | None, buffer: str | None) -> list[Leaf]:
    body = program.body if isinstance(program, st.Kernel) else program
    scope = _Scope(sizes=sizes_of(program)) if isinstance(program, st.Kernel) else _Scope()
    if below is not None:
        path = find_path(body, below)
        if path is None:
            return []
        for outer, inner in itertools.pairwise(path):
            scope = _enter(outer, inner, scope)
        body = below
    found: list[Leaf] = []
    _collect(body, scope, found, buffer)
    return found


def sizes_of(kernel: st.Kernel) -> frozenset[str]:
    """The variables that are dimensions of the kernel's buffers."""
    return frozenset(d.name for b in kernel.buffers for d in b.shape if isinstance(d, Var))


def loop_named(kernel: st.Kernel, name: str) -> st.For | None:
    """The first loop over ``name``."""
    return next((s for s in statements(kernel.body) if isinstance(s, st.For) and s.var.name == name), None)


def loops_inside(s: st.Stmt) -> list[st.For]:
    """All loops below ``s``, in program order."""
    return [inner for inner in statements(s) if isinstance(inner, st.For) and inner is not s]


def _enter(s: st.Stmt, inner: st.Stmt, scope: _Scope) -> _Scope:
    """What is known in ``inner``, which stands directly in ``s``."""
    if isinstance(s, st.For):
        return _Scope((*scope.loops, _range_of(s)), *scope[1:])  # quicker than to replace one field: most are loops
    if isinstance(s, st.While):
        name = f"pass{sum(loop.hi is None for loop in scope.loops) + 1}"
        loops = (*scope.loops, LoopRange(name, idx(0), None, "serial", s))
        return scope._replace(loops=loops)
    if isinstance(s, st.If):
        if s.then is s.otherwise:  # one object in both places says nothing about the condition
            return scope
        return scope._replace(tests=(*scope.tests, Test(s.condition, inner is s.then)))
    if isinstance(s, st.Alloc):
        return scope._replace(owners={**scope.owners, s.buffer.name: scope.names()})
    if isinstance(s, st.Let):
        return _enter_let(s, scope)
    if isinstance(s, st.Block):
        values = {**scope.values, **{i.var.name: i.binding for i in s.iters}}
        tests = scope.tests
        if inner is s.init and s.init is not s.body:
            first = (Test(Compare("==", i.var, i.lo)) for i in s.iters if i.kind == "reduce")
            tests = (*tests, *first)
        return scope._replace(values=values, tests=tests, block=s)
    return scope


@fact
def _range_of(s: st.For) -> LoopRange:
    return LoopRange(s.var.name, s.lo, s.hi, s.kind, s)


def _enter_let(s: st.Let, scope: _Scope) -> _Scope:
    assigned = is_assigned(s)
    if s.var.type == dt.index and not assigned and not any(isinstance(n, (Load, Call)) for n in walk(s.value)):
        return scope._replace(values={**scope.values, s.var.name: s.value})
    owners = {**scope.owners, s.var.name: scope.names()} if assigned else scope.owners
    lets = {**scope.lets, s.var.name: (scope.names(), assigned)}
    return scope._replace(lets=lets, owners=owners, has_assigned=scope.has_assigned or assigned)


def is_assigned(let: st.Let) -> bool:
    return let.var.name in assigned_names(let.body)


def _collect(s: st.Stmt, scope: _Scope, touching: list[Leaf], buffer: str | None) -> None:
    """Adds the leaves in ``s``, those in statements that do not name ``buffer`` aside where one is given."""
    loops = list[LoopRange]()
    while type(s) is st.For and type(s.lo) is Const and type(s.hi) is Const:  # most are: nothing is read for its range
        loops.append(_range_of(s))
        s = s.body
    if loops:
        scope = _Scope((*scope.loops, *loops), *scope[1:])
    plain = None if scope.has_assigned else _plain_touches(s)
    accesses = tuple(_touches(s, scope)) if plain is None else tuple([_owned(a, scope) for a in plain])
    if accesses:
        block = None if scope.block is None else scope.block.name
        order = len(touching)
        leaf = Leaf(s, scope.loops, scope.tests, accesses, block, order, scope.values, scope.lets, scope.sizes)
        touching.append(leaf)
    for inner in inner_statements(s):
        if buffer is None or buffer in names_in(inner):
            _collect(inner, _enter(s, inner, scope), touching, buffer)


@fact
def _plain_touches(s: st.Stmt) -> tuple[Access, ...] | None:
    """What ``s`` itself touches, whoever's that is, where it uses no variable that is assigned; None where that hangs
    on what is around it."""
    if isinstance(s, st.Evaluate) or (isinstance(s, st.Let) and is_assigned(s)):
        return None
    return tuple(_touches(s, _Scope()))


def _owned(access: Access, scope: _Scope) -> Access:
    owners = scope.owners.get(access.buffer.name)
    if not owners:
        return access
    a = access  # by place: quicker than to replace one field
    return Access(a.buffer, a.indices, a.reads, a.writes, a.update, a.atomic, a.tests, a.axes, owners)


def _touches(s: st.Stmt, scope: _Scope) -> Iterator[Access]:
    """What ``s`` itself touches, the statements inside it aside."""
    if isinstance(s, st.Store):
        yield from _store_touches(s, scope)
    elif isinstance(s, st.Atomic):
        commutes = s.result is None and s.op not in ("exchange", "cas")
        owners = scope.owners.get(s.buffer.name, ())
        yield Access(s.buffer, s.indices, True, True, s.op if commutes else None, True, owners=owners)
        for e in (*s.indices, s.value, *(() if s.expected is None else (s.expected,))):
            yield from _reads(e, scope)
        if s.result is not None:
            yield _scalar(s.result, scope, writes=True)
    elif isinstance(s, st.Assign):
        yield _scalar(s.var, scope, writes=True)
        yield from _reads(s.value, scope)
    elif isinstance(s, st.Evaluate):
        yield from _call_touches(s, scope)
    else:
        yield from _header_touches(s, scope)


def _header_touches(s: st.Stmt, scope: _Scope) -> Iterator[Access]:
    """What the conditions and bounds of a compound statement read."""
    if isinstance(s, st.For):
        parts: tuple[Expr, ...] = (s.lo, s.hi)
    elif isinstance(s, (st.If, st.While)):
        parts = (s.condition,)
    elif isinstance(s, st.Let):
        parts = (s.value,)
    elif isinstance(s, st.Assert):
        parts = (s.condition, *s.values)
    elif isinstance(s, st.Block):
        parts = tuple(i.binding for i in s.iters)
    else:
        parts = ()
    for e in parts:
        yield from _reads(e, scope)
    if isinstance(s, st.Let) and is_assigned(s):
        yield replace(_scalar(s.var, scope, writes=True), owners=scope.names())


def _store_touches(s: st.Store, scope: _Scope) -> Iterator[Access]:
    owners = scope.owners.get(s.buffer.name, ())
    split = split_update(s)
    if split is None:
        yield Access(s.buffer, s.indices, False, True, owners=owners)
        rest: tuple[Expr, ...] = (s.value,)
    else:
        op, rest = split
        yield Access(s.buffer, s.indices, True, True, op, owners=owners)
    for e in (*s.indices, *rest):
        yield from _reads(e, scope)


def split_update(s: st.Store) -> tuple[str, tuple[Expr, ...]] | None:
    """The operator and the other operands of ``X[i] = X[i] op value``."""
    found = update_of(s)
    if found is not None and found[0] in _UPDATES:
        return "+" if found[0] == "-" else found[0], (found[1],)
    value = s.value
    if isinstance(value, Call) and value.name == "fma" and value.args[2] == Load(s.buffer, s.indices):
        return "+", value.args[:2]
    return None


def update_of(s: st.Store) -> tuple[BinaryOp, Expr] | None:
    """The operator and the value of ``X[i] = X[i] op value``, or of ``value op X[i]`` where that is the same."""
    if isinstance(s.value, Binary):
        old, op, left, right = Load(s.buffer, s.indices), s.value.op, s.value.left, s.value.right
        if left == old:
            return op, right
        if right == old and op in _UPDATES - {"-"}:
            return op, left
    return None


def _call_touches(s: st.Evaluate, scope: _Scope) -> Iterator[Access]:
    """What the block around a call declares; a buffer it was given but that no block speaks of, all of it."""
    for e in s.call.args:
        yield from _reads(e, scope)
    if s.call.name in HINTS:
        return
    declared = set()
    for writes in (False, True):
        regions = () if scope.block is None else scope.block.writes if writes else scope.block.reads
        for region in regions:
            declared.add(region.buffer.name)
            yield _region_access(region, not writes, writes, scope)
    for n in walk(s.call):
        if isinstance(n, AddressOf) and n.buffer.name not in declared:
            everything = st.Region(n.buffer, tuple(idx(0) for _ in n.buffer.shape), n.buffer.shape)
            yield _region_access(everything, True, True, scope)


def _region_access(region: st.Region, reads: bool, writes: bool, scope: _Scope) -> Access:
    axes = tuple(Axis(Var(f"at{d}"), idx(0), n) for d, n in enumerate(region.extents))
    indices = tuple(Binary("+", start, a.var) for start, a in zip(region.starts, axes))
    owners = scope.owners.get(region.buffer.name, ())
    return Access(region.buffer, indices, reads, writes, axes=axes, owners=owners)


def _scalar(var: Var, scope: _Scope, *, writes: bool) -> Access:
    """A let variable that changes, as memory without dimensions."""
    cell = Buffer(var.name, var.type.scalar, ())
    return Access(cell, (), not writes, writes, owners=scope.owners.get(var.name, ()))


def _reads(e: Node, scope: _Scope) -> Iterator[Access]:
    """The loads in ``e``, each with the conditions under which it is performed."""
    for node, tests, axes in evaluated(e):
        if isinstance(node, Load):
            owners = scope.owners.get(node.buffer.name, ())
            yield Access(node.buffer, node.indices, True, False, tests=tests, axes=axes, owners=owners)
        elif isinstance(node, Var) and scope.lets.get(node.name, ((), False))[1]:
            yield replace(_scalar(node, scope, writes=False), tests=tests)
