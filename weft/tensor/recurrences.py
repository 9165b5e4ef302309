"""Statements in blocks: which stand in one, what they are at one step, and in which order they run."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from weft.ir.affine import affine_form
from weft.ir.expr import Axis, Const, Expr, Load, Var, idx
from weft.ir.simplify import simplify
from weft.ir.visit import substitute
from weft.tensor.program import Recurrence, Statement


def by_recurrence(
    statements: Sequence[Statement], positions: Sequence[int], depth: int
) -> Iterator[tuple[Recurrence | None, list[int]]]:
    """``positions`` in runs: those in one block that is ``depth`` blocks deep, or in none."""
    groups = itertools.groupby(positions, lambda p: next(iter(statements[p].recurrences[depth:]), None))
    return ((recurrence, list(run)) for recurrence, run in groups)


def first_of_block(statements: Sequence[Statement], position: int) -> int:
    """The position of the first statement of the outermost block that holds the one at ``position``."""
    around = statements[position].recurrences[:1] if statements else ()
    while around and position and statements[position - 1].recurrences[:1] == around:
        position -= 1
    return position


def steps_behind(writer: Statement, read: Load) -> dict[int, int]:
    """How many steps of their innermost block a read is behind what is written, by dimension, where that is plain."""
    step = writer.recurrences[-1].axis.var if writer.recurrences else None
    axes = {a.var.name for a in writer.axes}
    steps: dict[int, int] = {}
    for dimension, (own, index) in enumerate(zip(writer.indices, read.indices)):
        form, distance = affine_form(own), simplify(own - index)
        moves = form is not None and step is not None and form.get(step.name) == 1
        if moves and form is not None and isinstance(distance, Const) and axes.isdisjoint(form):
            steps[dimension] = int(distance.value)
    return steps


@dataclass(frozen=True, slots=True)
class Step:
    """The statement at ``position`` where the variables of its blocks are those of ``point``."""

    position: int
    point: Mapping[Var, Expr]
    statement: Statement


def in_order(statements: Sequence[Statement]) -> Iterator[Step]:
    """The statements of a specialized program as they run."""
    return _steps(statements, range(len(statements)), 0, {})


def _steps(
    statements: Sequence[Statement], positions: Sequence[int], depth: int, point: Mapping[Var, Expr]
) -> Iterator[Step]:
    for recurrence, run in by_recurrence(statements, positions, depth):
        if recurrence is None:
            yield from (Step(p, point, replace(put(statements[p], point), recurrences=())) for p in run)
            continue
        lo, hi = (simplify(substitute(e, dict(point))) for e in (recurrence.axis.lo, recurrence.axis.hi))
        for step in range(constant_of(lo), constant_of(hi)):
            yield from _steps(statements, run, depth + 1, {**point, recurrence.axis.var: idx(step)})


def constant_of(e: Expr) -> int:
    """The value of a size or bound of a specialized program."""
    assert isinstance(e, Const), "a specialized program has constant sizes"
    return int(e.value)


def put(statement: Statement, values: Mapping[Var, Expr]) -> Statement:
    """``statement`` with ``values`` for variables of its blocks; one that becomes a variable renames its block's."""
    if not values:
        return statement
    given = dict(values)

    def axis(a: Axis) -> Axis:
        var = given.get(a.var, a.var)
        return Axis(var if isinstance(var, Var) else a.var, substitute(a.lo, given), substitute(a.hi, given))

    return replace(
        statement,
        indices=tuple(substitute(i, given) for i in statement.indices),
        value=substitute(statement.value, given),
        axes=tuple(map(axis, statement.axes)),
        recurrences=tuple(replace(r, axis=axis(r.axis)) for r in statement.recurrences),
    )
