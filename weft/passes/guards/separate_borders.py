"""The inside of a tensor without what only its borders need: an iteration asks once whether it is near one.

::

    for i_o in 0:40 { vector i in 0:32 { B[i_o * 32 + i] = A[max(i_o * 32 + i - 1, 0)] } }
    ->  for i_o in 0:40 { if i_o * 32 >= 1 { vector i in 0:32 { B[...] = A[i_o * 32 + i - 1] } } else { ... } }

A subscript that is cut off, wraps around or is chosen by lane makes a gather out of every vector, though almost all of
them are neighbours in memory; a value chosen by lane costs both choices. What is computed stays the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from weft.ir import dtype as dt
from weft.ir.borders import without_turns
from weft.ir.expr import Binary, Compare, CompareOp, Expr, Select, idx
from weft.ir.inequality import NEGATED
from weft.ir.interval import Ranges
from weft.ir.simplify import assigned_names, simplify
from weft.ir.stmt import Alloc, For, If, Kernel, Stmt
from weft.ir.visit import children, count_nodes, fact, free_vars, map_statements, rebuild, walk
from weft.passes.analysis.conditions import LONGEST, all_of, conjuncts, slack
from weft.passes.analysis.loop_ranges import constant_extent, loop_range, ranges_inside
from weft.passes.analysis.truth import Inner, for_all_inner, inner_of, turn_at
from weft.passes.guards.separate_tiles import shares_registers

#: Iterations away from the borders, of all of a loop, that are worth a second body.
_LEAST_INSIDE = 0.25


def separate_borders(kernel: Kernel) -> Kernel:
    """``kernel`` with loops around vectors that ask once for a whole vector, or a nest of them, what its lanes ask."""
    body = _visit(kernel.body, {}, assigned_names(kernel.body))
    return kernel if body is kernel.body else replace(kernel, body=simplify(body))


def _may_be_chosen(n: object) -> bool:
    return isinstance(n, Select) or (isinstance(n, Binary) and n.op in ("min", "max", "%") and n.dtype == dt.index)


@fact
def _has_choice(s: Stmt) -> bool:
    """Whether there is something in ``s`` that may be chosen."""
    return any(_has_choice(n) if isinstance(n, Stmt) else any(map(_may_be_chosen, walk(n))) for n in children(s))


def _visit(s: Stmt, ranges: Ranges, changing: frozenset[str]) -> Stmt:
    inner_ranges = ranges_inside(s, ranges)
    if not _has_choice(s) or (isinstance(s, For) and s.kind in ("unroll", "vector")):
        return s
    if isinstance(s, For) and not shares_registers(s.body) and count_nodes(s.body) <= LONGEST:
        inside = _Inside(s, changing)
        body = inside.statement(s.body, {})
        if inside.conditions:
            main = _visit(body, inner_ranges, changing)
            return replace(s, body=If(all_of(list(inside.conditions)), main, s.body, span=s.body.span))
    return map_statements(s, lambda n: _visit(n, inner_ranges, changing))


@dataclass(slots=True)
class _Inside:
    """Rewrites a loop's body for iterations away from the borders; ``conditions`` say which those are."""

    loop: For
    changing: frozenset[str]
    conditions: dict[Expr, None] = field(default_factory=dict)
    lanes: set[str] = field(default_factory=set)
    inside: range | None = None

    def __post_init__(self) -> None:
        extent = constant_extent(self.loop)
        if extent is not None:
            first = loop_range(self.loop, {}).lo or 0
            self.inside = range(first, first + extent)

    def statement(self, s: Stmt, inner: Inner) -> Stmt:
        if not _has_choice(s):
            return s
        if isinstance(s, For) and s.kind == "vector":
            self.lanes.add(s.var.name)
        elif isinstance(s, Alloc):
            return replace(s, body=self.statement(s.body, inner))
        inner = inner_of(s, inner)
        return rebuild(s, lambda n: self._part(n, inner))

    def _part(self, n: object, inner: Inner) -> object:
        if isinstance(n, Stmt):
            return self.statement(n, inner)
        return self._expression(n, inner) if isinstance(n, Expr) else n

    def _expression(self, e: Expr, inner: Inner) -> Expr:
        e = rebuild(e, lambda n: self._part(n, inner))
        if not _may_be_chosen(e):
            return e
        for chosen, needs in self._likely(e):
            asked = [for_all_inner(conjunct, inner, self.changing) for conjunct in needs]
            found = [conjunct for conjunct in asked if conjunct is not None]
            by_lane = any(name in self.lanes for conjunct in needs for name in free_vars(conjunct))
            if by_lane and len(found) == len(asked) and self._narrow(found):
                self.conditions.update(dict.fromkeys(found))
                return chosen
        return e

    def _likely(self, e: Expr) -> list[tuple[Expr, list[Expr]]]:
        """What ``e`` may be for whole vectors: a position that lanes differ in is cut off for a few of them only."""
        choices = _choices(e)
        by_lane = [c for c in choices if any(name in self.lanes for name in free_vars(c[0]))]
        return by_lane if isinstance(e, Binary) and by_lane else choices

    def _narrow(self, conditions: list[Expr]) -> bool:
        """Whether the iteration decides ``conditions``, and enough are inside with these too, so far as is known."""
        inside = self.inside
        for gap in (slack(c) for c in conditions):
            turn = None if gap is None else turn_at(gap, self.loop.var)
            if turn is not None and inside is not None:
                at, begins = turn
                inside = (
                    range(max(inside.start, at), inside.stop) if begins else range(inside.start, min(inside.stop, at))
                )
        extent = constant_extent(self.loop)
        if inside is not None and extent is not None and len(inside) < _LEAST_INSIDE * extent:
            return False
        self.inside = inside
        return any(self.loop.var.name in free_vars(c) for c in conditions)


def _choices(e: Expr) -> list[tuple[Expr, list[Expr]]]:
    """What ``e`` may be, each with what must hold for it, the more likely one first."""
    if isinstance(e, Select):
        parts = conjuncts(e.condition)
        found = [(e.then, parts)]
        if len(parts) == 1 and isinstance(parts[0], Compare):
            found.append((e.otherwise, [replace(parts[0], op=NEGATED[parts[0].op])]))
        return found
    assert isinstance(e, Binary)
    if e.op == "%":
        once = without_turns(e)
        return [(once, [Compare(">=", once, idx(0)), Compare("<", once, e.right)])]
    sides = [(e.left, e.right), (e.right, e.left)]
    if not free_vars(e.left):
        sides.reverse()
    order: CompareOp = "<=" if e.op == "min" else ">="
    return [(chosen, [Compare(order, chosen, other)]) for chosen, other in sides]
