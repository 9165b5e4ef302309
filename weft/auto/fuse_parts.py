"""Parts of formulas that are worth a stage of their own: expensive, and computed over and over where they stand.

In ``Y(s,e) +=! exp(P(s,t) - Top(s)) * V(t,e)`` the exponential is the same for every ``e``; and where another
statement takes the same exponential, once is enough for both.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from weft.auto.costs import point_cost
from weft.auto.draft import AnyDraft
from weft.auto.stages import Stage
from weft.ir.expr import Expr, Var
from weft.ir.nesting import statements
from weft.ir.printer import print_expr
from weft.ir.visit import free_vars, substitute
from weft.schedules.precompute import parts_of, used_iters

#: Operations that a part must take before storing and reading it back is cheaper than computing it again.
EXPENSIVE = 8


@dataclass(frozen=True, slots=True)
class Part:
    """A formula in a stage, the iterators it uses, and its cost in operations."""

    stage: Stage
    formula: Expr
    iters: tuple[str, ...]
    cost: int

    @property
    def repeats(self) -> int:
        """How often each value is computed: the points of the other iterators."""
        return prod(i.count for i in self.stage.iters if i.name not in self.iters)


def precompute_parts(draft: AnyDraft) -> None:
    """Expensive parts that are computed many times, each given a stage."""
    for name in [s.name for s in draft.stages]:
        part = _best_part(draft, draft.stage(name))
        if part is None:
            continue
        if draft.attempt(draft.s.precompute, part.stage.name, *part.iters) is None:
            what = f"{part.cost} operations of it computed once for each {', '.join(f'`{i}`' for i in part.iters)}"
            again = f"each {part.repeats} times otherwise" if part.repeats > 1 else "other statements take the same"
            draft.decide("fusion", name, what, again)


def _best_part(draft: AnyDraft, stage: Stage) -> Part | None:
    """The part that saves most, or None where none is worth it."""
    every = list(parts_in(stage))
    parts = [p for p in every if p.iters and not p.formula.dtype.is_bool]
    again = [p for p in parts if p.repeats > 1]
    if again:
        return max(again, key=lambda p: (p.cost * (p.repeats - 1), -len(p.iters)))
    if stage.op == "=":  # a part that is all that the stage computes has a stage already
        largest = max((p.cost for p in every), default=0)
        parts = [p for p in parts if p.cost < largest]
    if not parts:
        return None
    part = parts[0]
    others = {_canonical(p) for s in draft.stages if s is not stage for p in parts_in(s)}
    return part if _canonical(part) in others else None


def parts_in(stage: Stage) -> Iterator[Part]:
    """The expensive parts of the stage's formula, larger before smaller."""
    for s in statements(stage.block.body):
        for e in parts_of(s):
            cost = round(point_cost(e))
            if cost >= EXPENSIVE:
                used = used_iters(e, stage.block)
                yield Part(stage, e, tuple(i.name for i in stage.iters if i.name in used), cost)


def _canonical(part: Part) -> str:
    """The same text for the same formula over iterators of any name."""
    names = [name for name in free_vars(part.formula) if name in part.iters]
    return print_expr(substitute(part.formula, {Var(n): Var(f"v{k}") for k, n in enumerate(names)}))
