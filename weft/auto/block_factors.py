"""Sums of products with factors that are the same for blocks of the depth, such as scales of quantized matrices.

``C(m,n) +=! A(m,k) * B(n,k) * p(m,k/128) * q(n,k/128)`` is no product of two matrices as it stands. Where there is
nothing better (`weft.auto.gpu.block_sums`), each factor goes to the matrix that it belongs to, in a copy of that.
"""

from __future__ import annotations

from weft.auto.draft import AnyDraft
from weft.auto.stages import Stage
from weft.ir.expr import Binary, Const, Expr, Load, Var
from weft.ir.stmt import Store
from weft.ir.visit import free_vars, loads, walk
from weft.poly.leaves import update_of
from weft.schedules.regroup import factors_of


def block_steps(stage: Stage) -> tuple[str, int] | None:
    """The iterator of a sum of which a quotient subscripts a factor, and the steps of a block for which that, and all
    others, are the same; None where there is none, or the depth does not come out even."""
    if stage.op != "+" or stage.is_inside or stage.is_affine:
        return None
    for i in stage.reductions:
        divided = {n for e in walk(stage.block.body) if isinstance(e, Load) for x in e.indices
                   for n in _divisors(x, i.name)}  # fmt: skip
        steps = min(divided, default=0)
        if steps > 1 and i.exact and i.loop is not None and i.count % steps == 0 < i.count // steps - 1:
            return (i.name, steps) if not any(n % steps for n in divided) else None
    return None


def _divisors(subscript: Expr, name: str) -> set[int]:
    found = (e for e in walk(subscript) if isinstance(e, Binary) and e.op == "//" and e.left == Var(name))
    return {int(e.right.value) for e in found if isinstance(e.right, Const) and e.right.value > 0}


def group_factors(draft: AnyDraft) -> None:
    """Factors of blocks multiplied with the matrices that they belong to, in stages before the product."""
    for name in [s.name for s in draft.stages]:
        sides = _sides(draft.stage(name)) if block_steps(draft.stage(name)) is not None else None
        if sides is not None and draft.attempt(_group, draft, name, sides) is None:
            draft.decide("fusion", name, "factors of blocks are multiplied with the matrices first",
                         "then it is a product of two matrices")  # fmt: skip


def _group(draft: AnyDraft, name: str, sides: list[tuple[str, ...]]) -> None:
    for side in sides:
        draft.s.regroup(name, *side)
    for side in sides:
        draft.s.precompute(name, *side)


def _sides(stage: Stage) -> list[tuple[str, ...]] | None:
    """The iterators of each matrix with factors of blocks; None where a factor belongs to neither of two matrices."""
    update = update_of(stage.block.body) if isinstance(stage.block.body, Store) else None
    factors = [] if update is None else factors_of(update[1])
    steps = {i.name for i in stage.reductions}
    used = [frozenset(free_vars(f)) for f in factors if loads(f)]
    every = [u for u in dict.fromkeys(used) if u & steps and not any(u < other for other in used)]
    if len(every) != 2 or not all(any(u <= side for side in every) for u in used) or every[0] == every[1]:
        return None
    return [tuple(sorted(side)) for side in every if sum(u <= side for u in used) > 1]
