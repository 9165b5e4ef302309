"""The inside of a tensor without what only its borders need: an iteration asks once whether it is near one.

::

    for i_o in 0:40 { vector i in 0:32 { B[i_o * 32 + i] = A[max(i_o * 32 + i - 1, 0)] } }
    ->  for i_o in 0:40 { if i_o * 32 >= 1 { vector i in 0:32 { B[...] = A[i_o * 32 + i - 1] } } else { ... } }

A subscript that is cut off, wraps around or is chosen by lane makes a gather out of every vector, though almost all of
them are neighbours in memory; a value chosen by lane costs both choices. What is computed stays the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from weft.ir import dtype as dt
from weft.ir.borders import without_turns
from weft.ir.expr import Binary, Compare, CompareOp, Expr, Select, idx
from weft.ir.inequality import NEGATED
from weft.ir.interval import Ranges
from weft.ir.nesting import statements_in
from weft.ir.simplify import assigned_names, simplify
from weft.ir.stmt import For, Kernel, Stmt
from weft.ir.visit import Node, children, count_nodes, fact, free_vars, map_statements, walk
from weft.passes.analysis.conditions import LONGEST, conjuncts, slack
from weft.passes.analysis.loop_ranges import constant_extent, loop_range, ranges_inside
from weft.passes.analysis.truth import Inner, for_all_of, turn_at
from weft.passes.guards.ask_once import Choice, decide
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
        border = _Border(s, changing)
        made = decide(s.body, {}, border.choices, border.proof, _has_choice)
        if made.asked:
            main = _visit(made.main, inner_ranges, changing)
            return replace(s, body=made._replace(main=main).before(s.body))
    return map_statements(s, lambda n: _visit(n, inner_ranges, changing))


class _Border:
    """What is chosen in a loop away from its borders, in which ``inside`` is, so far as is known."""

    def __init__(self, loop: For, changing: frozenset[str]) -> None:
        self.loop, self.changing = loop, changing
        self.lanes = {n.var.name for n in statements_in(loop.body, For) if n.kind == "vector"}
        first, extent = loop_range(loop, {}).lo or 0, constant_extent(loop)
        self.inside = None if extent is None else range(first, first + extent)

    def choices(self, e: Node) -> Iterable[Choice]:
        """What ``e`` may be for whole vectors: a position that lanes differ in is cut off for a few of them only."""
        if not _may_be_chosen(e):
            return ()
        choices = [Choice(chosen, needs) for chosen, needs in _choices(e)]
        by_lane = [choice for choice in choices if self.lanes & free_vars(choice.chosen).keys()]
        return by_lane if isinstance(e, Binary) and by_lane else choices

    def proof(self, needs: Sequence[Expr], inner: Inner) -> Sequence[Expr] | None:
        if not any(self.lanes & free_vars(need).keys() for need in needs):
            return None
        found = for_all_of(needs, inner, self.changing)
        return found if found is not None and self._narrow(found) else None

    def _narrow(self, conditions: Sequence[Expr]) -> bool:
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


def _choices(e: Node) -> list[tuple[Expr, list[Expr]]]:
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
