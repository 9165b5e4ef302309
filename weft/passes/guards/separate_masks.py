"""Masks and edges of tiles in registers, asked for once: only a tile that they cut through tests each element.

::

    for t_o { unroll i { X[i] = s + i >= 128 * t_o ? P[i] : -inf } }
    ->  for t_o { if s >= 128 * t_o { unroll i { X[i] = P[i] } } else { unroll i { X[i] = s + i >= ... } } }

The question is the same for all threads, and what is computed stays the same. Only launches are looked at in which
products run on their own: what is done beside them is then what takes the time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from weft.ir import dtype as dt
from weft.ir.expr import Compare, Const, Expr, Load, Select, idx
from weft.ir.inequality import denied
from weft.ir.interval import Interval
from weft.ir.simplify import assigned_names, simplify
from weft.ir.stmt import Barrier, Evaluate, For, If, Kernel, Stmt, Store, Tensorized
from weft.ir.visit import Node, count_nodes, free_vars, map_statements, rewrite, walk
from weft.passes.analysis.conditions import LONGEST, all_of, conjuncts, is_pure, least_over, slack
from weft.passes.analysis.loop_ranges import constant_extent, loop_range

_NEVER = Const(False, dt.bool_)


def separate_masks(kernel: Kernel) -> Kernel:
    """``kernel``, in grid form, with unrolled nests written twice where a tile tells whether a mask matters."""
    return replace(kernel, body=_visit(kernel.body, _Place(frozenset(assigned_names(kernel.body)))))


@dataclass(frozen=True, slots=True)
class _Place:
    """Variables that change, the ranges of threads, and the loop around."""

    changing: frozenset[str]
    threads: Mapping[str, Interval | None] = field(default_factory=dict)
    loop: str | None = None


def _visit(s: Stmt, place: _Place) -> Stmt:
    if isinstance(s, For):
        if s.kind == "block" and not any(isinstance(n, Evaluate) and n.call.name == "products_wait" for n in walk(s)):
            return s
        if s.kind == "unroll":
            return _separated(s, place)
        if s.kind == "thread":
            place = replace(place, threads={**place.threads, s.var.name: loop_range(s, {})})
        elif s.kind == "serial":
            place = replace(place, loop=s.var.name)
    return map_statements(s, lambda n: _visit(n, place))


def _separated(nest: For, place: _Place) -> Stmt:
    if place.loop is None or not place.threads or not _is_of_registers(nest) or count_nodes(nest) > LONGEST:
        return nest
    loops = [n for n in walk(nest) if isinstance(n, For)]
    own = {x.var.name: loop_range(x, {}) if constant_extent(x) else None for x in loops}
    found: dict[Expr, None] = {}

    def visit(n: Node) -> Node | None:
        found_here = _choice(n)
        if found_here is None:
            return None
        inside, needs = found_here
        asked = [_for_all(c, {**place.threads, **own}, place.changing) for c in conjuncts(needs)]
        by_element = any(name in own for name in free_vars(needs))
        if not by_element or any(c is None or c == _NEVER for c in asked):
            return None
        found.update(dict.fromkeys(c for c in asked if c is not None and free_vars(c)))
        return rewrite(inside, visit)

    main = rewrite(nest, visit)
    return If(all_of(list(found)), simplify(main), nest, span=nest.span) if found else nest


def _choice(n: Node) -> tuple[Node, Expr] | None:
    """What is likely to be taken of ``n``, and what must hold for it."""
    if isinstance(n, If):
        return (n.then, n.condition) if n.otherwise is None else None
    if not isinstance(n, Select):
        return None
    if not isinstance(n.then, Const):
        return n.then, n.condition
    return n.otherwise, denied(n.condition)


def _is_of_registers(nest: For) -> bool:
    """Whether all that it reads is the thread's own, or what it writes is and some that it reads: no mere copies. It
    writes no memory of the device."""
    nodes = list(walk(nest))
    read = {n.buffer.scope for n in nodes if isinstance(n, Load)}
    written = {n.buffer.scope for n in nodes if isinstance(n, Store)}
    own = {"local", "register"}
    plain = not any(isinstance(n, (Barrier, Evaluate, Tensorized)) for n in nodes)
    return plain and "global" not in written and (read <= own or (written <= own and bool(read & own)))


def _for_all(test: Expr, inner: Mapping[str, Interval | None], changing: frozenset[str]) -> Expr | None:
    """What says that ``test`` holds whatever the ``inner`` variables are; None where that is not known."""
    gap = slack(test) if is_pure(test, changing) else None
    least = None if gap is None else least_over(gap, inner)
    return None if least is None else simplify(Compare(">=", least.expr(dt.index), idx(0)))
