"""``argmin=!`` and ``argmax=!``: the extreme first, then the first place that has it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from weft.ir import dtype as dt
from weft.ir.buffer import Buffer
from weft.ir.dtype import DType
from weft.ir.expr import Axis, Binary, Call, Compare, Expr, Select, Var, cast, const, idx
from weft.ir.span import Span
from weft.ir.visit import free_vars
from weft.tensor.check_statement import perhaps_empty
from weft.tensor.polynomial import Polynomial
from weft.tensor.prove_bounds import GuardedAccess, check_index

if TYPE_CHECKING:
    from weft.tensor.build import ProgramBuilder
    from weft.tensor.infer_ranges import RangeClause


@dataclass(frozen=True, slots=True)
class PositionStatement:
    """``target(indices) argmax=! value``: the ``position`` at which ``value`` is greatest, of type ``result``."""

    target: str
    indices: tuple[Expr, ...]
    op: Literal["argmin", "argmax"]
    value: Expr
    position: Var
    result: DType
    where: Sequence[RangeClause]
    exists: Sequence[Expr]
    span: Span | None


def state_position(builder: ProgramBuilder, s: PositionStatement) -> None:
    """NaN counts as the extreme, as in numpy; over nothing there is none, which is an error, as there."""
    best = builder.temporary_like(f"{s.target}_best", s.target, s.span)
    combine: Literal["min", "max"] = "min" if s.op == "argmin" else "max"
    builder.statement(best, s.indices, combine, True, s.value, where=s.where, exists=s.exists, span=s.span)
    _require_fitting(builder, s)
    _require_points(builder, s)
    extreme = builder.access(best, s.indices, s.span)
    is_extreme: Expr = Compare("==", s.value, cast(s.value.dtype, extreme))
    if s.value.dtype.is_float:
        is_extreme = Binary("||", is_extreme, Call("isnan", (s.value,), dt.bool_))
    place = Select(is_extreme, cast(s.result, s.position), const(s.result.max_value, s.result))
    given = {"where": s.where, "exists": s.exists, "span": s.span}
    builder.statement(s.target, s.indices, "min", True, place, dtype=s.result, **given)  # type: ignore[arg-type]


def _require_fitting(builder: ProgramBuilder, s: PositionStatement) -> None:
    """That the result holds every position."""
    end = next(a.hi for a in builder.latest().axes if a.var == s.position)
    if s.result.bits < dt.index.bits:
        message = f"positions along `{s.position.name}` do not fit the {s.result} of `{s.target}`: declare it as int64"
        builder.require(Compare("<=", end, idx(s.result.max_value + 1)), message, s.span)


def _require_points(builder: ProgramBuilder, s: PositionStatement) -> None:
    axes = builder.latest().all_axes
    axis = next(a for a in axes if a.var == s.position)
    condition = _has_points(axis, tuple(a for a in axes if a is not axis))
    if condition is None or condition == const(False, dt.bool_):
        raise perhaps_empty(f"{s.target} {s.op}=!", axis, s.span)
    if condition != const(True, dt.bool_):
        message = f"`{s.target} {s.op}=!` over nothing: `{s.position.name}` has no elements to run over"
        builder.require(condition, message, s.span)


def _has_points(axis: Axis, others: tuple[Axis, ...]) -> Expr | None:
    """What sizes must be for the range never to be empty; None where that is not found out."""
    extent = Polynomial.of(axis.hi) - Polynomial.of(axis.lo)
    names = {name for a in extent.atoms() for name in free_vars(a)}
    if names.isdisjoint(a.var.name for a in others):
        size = extent.as_int
        return Compare(">=", extent.expr(), idx(1)) if size is None else const(size > 0, dt.bool_)
    first = GuardedAccess(Buffer("points", dt.int32, (axis.hi,)), (axis.lo,), others, (), False)
    verdict = check_index(first, axis.lo, axis.lo, axis.hi, (), assume_no_wrap=True)
    fixed = {"proved": const(True, dt.bool_), "refuted": const(False, dt.bool_)}
    return fixed.get(verdict.kind, verdict.condition)
