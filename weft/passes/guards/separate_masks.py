"""Masks and edges of tiles in registers, asked for once: only a tile that they cut through tests each element.

::

    for t_o { unroll i { X[i] = s + i >= 128 * t_o ? P[i] : -inf } }
    ->  for t_o { if s >= 128 * t_o { unroll i { X[i] = P[i] } } else { unroll i { X[i] = s + i >= ... } } }

The question is the same for all threads, and what is computed stays the same; where a mask is looked up for each row,
each thread asks for its own rows. Only launches are looked at in which products run on their own: what is done beside
them is then what takes the time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

from weft.ir import dtype as dt
from weft.ir.expr import Compare, Const, Expr, Load, Select, Var, idx
from weft.ir.inequality import as_index, denied
from weft.ir.interval import Interval, bounds
from weft.ir.nesting import statements_in
from weft.ir.simplify import assigned_names, simplify
from weft.ir.stmt import Barrier, Evaluate, For, If, Kernel, Let, Seq, Stmt, Store, Tensorized
from weft.ir.visit import (
    Node,
    count_nodes,
    free_vars,
    loads,
    map_statements,
    mentions,
    stores,
    substitute,
    walk,
)
from weft.passes.analysis.conditions import LONGEST, all_of, conjuncts, is_fixed, is_pure
from weft.passes.analysis.loop_ranges import loop_range
from weft.passes.analysis.truth import Inner, for_all_inner
from weft.passes.guards.ask_once import Choice, decide

_NEVER = Const(False, dt.bool_)
#: Rows of a thread, each of which looks up a mask of its own, at most.
MOST_ROWS = 4


def separate_masks(kernel: Kernel) -> Kernel:
    """``kernel``, in grid form, with unrolled nests written twice where a tile tells whether a mask matters."""
    return replace(kernel, body=_visit(kernel.body, _Place(frozenset(assigned_names(kernel.body)))))


@dataclass(frozen=True, slots=True)
class _Place:
    """Variables that change, the ranges of threads, the loop around, ranges of all of these, and what the launch
    stores."""

    changing: frozenset[str]
    threads: Inner = field(default_factory=dict)
    loop: str | None = None
    ranges: Mapping[str, Interval] = field(default_factory=dict)
    stored: frozenset[str] = frozenset()


def _visit(s: Stmt, place: _Place) -> Stmt:
    if isinstance(s, For):
        if s.kind == "block" and not any(n.call.name == "products_wait" for n in statements_in(s, Evaluate)):
            return s
        if s.kind == "block" and not place.stored:
            place = replace(place, stored=mentions(s).stored)
        if s.kind == "unroll":
            return _separated(s, place)
        place = replace(place, ranges={**place.ranges, s.var.name: loop_range(s, place.ranges)})
        if s.kind == "thread":
            place = replace(place, threads={**place.threads, s.var.name: loop_range(s, {})})
        elif s.kind == "serial":
            place = replace(place, loop=s.var.name)
    elif isinstance(s, Let) and s.var.name not in place.changing:
        place = replace(place, ranges={**place.ranges, s.var.name: bounds(s.value, place.ranges)})
    return map_statements(s, lambda n: _visit(n, place))


def _separated(nest: For, place: _Place) -> Stmt:
    if place.loop is None or not place.threads or not _is_of_registers(nest) or count_nodes(nest) > LONGEST:
        return nest

    def proof(needs: Sequence[Expr], inner: Inner) -> Sequence[Expr] | None:
        own = {name: span for name, span in inner.items() if name not in place.threads}
        found = [_for_all(need, own, place) for need in needs]
        by_element = any(own.keys() & free_vars(need).keys() for need in needs)
        if not by_element or any(c is None or _NEVER in c for c in found):
            return None
        return [c for parts in found for c in parts or () if free_vars(c)]

    main, asked = decide(nest, place.threads, _choices, proof)
    return nest if main is nest else _asked(asked, simplify(main), nest)


def _asked(tests: Sequence[Expr], main: Stmt, nest: Stmt) -> Stmt:
    """``main`` where all ``tests`` hold, which is nothing where it stores what is there already; else ``nest``."""
    idle = all(isinstance(s, Store) and s.value == Load(s.buffer, s.indices) for s in stores(main))
    main = Seq(()) if idle else main
    if not tests:
        return main
    test = all_of(list(tests))
    return If(denied(test), nest, span=nest.span) if idle else If(test, main, nest, span=nest.span)


def _choices(n: Node) -> Iterator[Choice]:
    """What is likely to be taken of ``n``, and what must hold for it."""
    if (isinstance(n, If) and n.otherwise is None) or (isinstance(n, Select) and not isinstance(n.then, Const)):
        yield Choice(n.then, conjuncts(n.condition))
    elif isinstance(n, Select):
        yield Choice(n.otherwise, conjuncts(denied(n.condition)))


def _is_of_registers(nest: For) -> bool:
    """Whether all that it reads is the thread's own, or what it writes is and some that it reads: no mere copies. It
    writes no memory of the device."""
    nodes = list(walk(nest))
    read = {n.buffer.scope for n in nodes if isinstance(n, Load)}
    written = {n.buffer.scope for n in nodes if isinstance(n, Store)}
    own = {"local", "register"}
    plain = not any(isinstance(n, (Barrier, Evaluate, Tensorized)) for n in nodes)
    return plain and "global" not in written and (read <= own or (written <= own and bool(read & own)))


def _for_all(test: Expr, own: Inner, place: _Place) -> list[Expr] | None:
    """What says that ``test`` holds for all elements of all threads, or, where it looks something up, of a thread; None
    where that is not known."""
    if is_pure(test, place.changing):
        found = for_all_inner(test, {**place.threads, **own})
        return None if found is None else [found]
    read = loads(test)
    if not isinstance(test, Compare) or not is_fixed(test, place.changing, place.stored):
        return None
    known = {**place.ranges, **{name: span for name, span in own.items() if span is not None}}
    left, right = as_index(test.left, known), as_index(test.right, known)
    if left is None or right is None:
        return None
    wide = replace(test, left=left, right=right)
    rows = [name for name in own if any(name in free_vars(n) for n in read)]
    asked = []
    for at in product(*(_values(own[name]) for name in rows)):
        values: dict[Var, Expr] = {Var(name): idx(n) for name, n in zip(rows, at)}
        asked.append(for_all_inner(simplify(substitute(wide, values)), own, stored=place.stored))
    return None if len(asked) > MOST_ROWS or None in asked else [c for c in asked if c is not None]


def _values(span: Interval | None) -> Sequence[int]:
    """All of them, or more than are asked for."""
    if span is None or span.lo is None or span.hi is None:
        return range(MOST_ROWS + 1)
    return range(span.lo, min(span.hi, span.lo + MOST_ROWS) + 1)
