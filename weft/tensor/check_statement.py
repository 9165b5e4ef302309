"""What a statement must satisfy before it has a meaning: each rule with the message of its violation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from weft.ir import dtype as dt
from weft.ir.dtype import DType, can_hold
from weft.ir.errors import LanguageError, ShapeError
from weft.ir.expr import Axis, Binary, Const, Expr, Var, cast
from weft.ir.remark import Remark
from weft.ir.span import Span
from weft.ir.visit import free_vars, loads
from weft.tensor.infer_ranges import RangeClause
from weft.tensor.ranges import Ranges, mentions
from weft.tensor.text import describe, describe_access


def check_rank(name: str, rank: int, given: int, span: Span | None) -> None:
    if rank != given:
        raise ShapeError(
            f"`{name}` has {rank} dimension{'s' * (rank != 1)}, but {given} "
            f"{'index is' if given == 1 else 'indices are'} given",
            span=span,
            help=f"write `{describe_access(name, [Var(v) for v in 'ijklmnpqrs'[:rank]])}`",
        )


def check_subscript(index: Expr, name: str, span: Span | None) -> Expr:
    """``index`` in int64."""
    if index.dtype.is_float or index.dtype.is_bool:
        raise LanguageError(
            f"a subscript of `{name}` is {index.dtype}",
            span=index.span or span,
            why="subscripts are integers",
            help="convert it: `int32(...)`",
        )
    return cast(dt.index, index)


def check_writable(target: str, kind: str | None, span: Span | None) -> None:
    if kind in ("an input", "a scalar", "a size"):
        raise LanguageError(
            f"cannot write `{target}`",
            span=span,
            why=f"it is {kind}; what a call is given is never changed",
            help=f"write to another tensor, such as `{target}_new`",
        )


def check_bound(bound: Expr, clause: RangeClause) -> None:
    """A bound of a range is an integer that reads no tensor."""
    if not bound.dtype.is_integer:
        raise LanguageError(
            f"a bound of `{clause.var.name}` is {bound.dtype}",
            span=bound.span or clause.span,
            why="ranges have integer bounds",
        )
    if loads(bound):
        raise LanguageError(
            f"a bound of `{clause.var.name}` reads a tensor",
            span=bound.span or clause.span,
            why="ranges depend on sizes, integer parameters and other index variables only",
            help=_instead_of_data(clause),
        )


def _instead_of_data(clause: RangeClause) -> str:
    """Rows of different lengths, one after another, as a scatter: each element says which row it is of."""
    first = {load.buffer for load in loads(clause.lo)}
    last = next((load for load in loads(clause.hi) if load.buffer in first and load.buffer.rank == 1), None)
    if last is None:
        return "use a wider range and a condition in the expression"
    name, ends = clause.var.name, last.buffer.name
    return (
        f"let each element say which row it is of, and scatter: `Y(row({name})) +=! ...`, where `row` is an input, "
        f"`np.repeat(np.arange(len({ends}) - 1), np.diff({ends}))`"
    )


def check_assignment(target: str, reductions: Mapping[str, Var], span: Span | None) -> None:
    """``=`` combines nothing, so nothing may be left to combine."""
    for name, var in reductions.items():
        raise LanguageError(
            f"`=` with reduction variable `{name}`",
            span=var.span or span,
            why=f"`{name}` is not on the left, so every value of it would overwrite `{target}` again",
            help="say how to combine the values: `+=!` sums from zero, `+=` adds to what is there",
        )


def check_exists(variables: Mapping[str, Var], mentioned: Mapping[str, Var], span: Span | None) -> None:
    for name, var in mentioned.items():
        if name not in variables:
            raise LanguageError(
                f"unknown variable `{name}` in an exists clause",
                span=var.span or span,
                why="the statement does not use it",
            )


def merge_ranges(where: Sequence[RangeClause]) -> list[RangeClause]:
    """One clause a variable: two ranges of one variable hold both."""
    merged: dict[str, RangeClause] = {}
    for clause in where:
        first = merged.get(clause.var.name)
        if first is not None:
            lo, hi = Binary("max", first.lo, clause.lo), Binary("min", first.hi, clause.hi)
            clause = RangeClause(first.var, lo, hi, first.span)
        merged[clause.var.name] = clause
    return list(merged.values())


def check_where(
    variables: Mapping[str, Var], where: Sequence[RangeClause], known: Mapping[str, Var], span: Span | None
) -> None:
    """Each clause is for a variable of the statement, in terms of others (``known`` are sizes and scalars)."""
    seen: dict[str, RangeClause] = {}
    for clause in where:
        name = clause.var.name
        at = clause.span or clause.var.span or span
        if name not in variables:
            raise LanguageError(
                f"`{name}` has a range but is not used",
                span=at,
                why="no subscript or value of the statement mentions it",
                help="remove the clause or use the variable",
            )
        seen[name] = clause
        for other, var in {**free_vars(clause.lo), **free_vars(clause.hi)}.items():
            if other not in known and (other not in variables or other == name):
                raise LanguageError(
                    f"unknown name `{other}` in the range of `{name}`",
                    span=var.span or at,
                    why="a bound is made of sizes, integer parameters and the statement's other index variables",
                )
    _check_no_cycle(seen, span)


def _check_no_cycle(clauses: Mapping[str, RangeClause], span: Span | None) -> None:
    for start, clause in clauses.items():
        reached = {start}
        frontier = [start]
        while frontier:
            c = clauses[frontier.pop()]
            for other in {**free_vars(c.lo), **free_vars(c.hi)}:
                if other == start:
                    raise LanguageError(
                        f"the range of `{start}` depends on itself",
                        span=clause.span or span,
                        why=f"it leads back to `{start}` through `{c.var.name}`",
                        help="give one of the variables a range of its own",
                    )
                if other in clauses and other not in reached:
                    reached.add(other)
                    frontier.append(other)


def check_axis_order(order: Sequence[str], reductions: Mapping[str, Var], ranges: Ranges, span: Span | None) -> None:
    """Ranges of the left side cannot wait for a reduction variable."""
    for name in order:
        bounds = [a for p in (ranges.known[name].lo, ranges.known[name].hi) for a in p.atoms()]
        bad = next((n for n in reductions if any(mentions(a, n) for a in bounds)), None)
        if name not in reductions and bad is not None:
            raise LanguageError(
                f"the range of `{name}` depends on reduction variable `{bad}`",
                span=span,
                why=f"`{name}` is on the left, so its range must be known before `{bad}` runs",
                help=f"give `{bad}` a range in terms of `{name}` instead",
            )


def check_arg_reduction(op: str, reductions: Sequence[Var], initialize: bool, result: DType, span: Span | None) -> None:
    """An index of an extreme is for one reduction variable, starts afresh and is an integer."""
    what, why = "", ""
    if len(reductions) != 1:
        what = "exactly one reduction variable"
        why = f"it gives the value of the one reduction variable; there are {len(reductions)}"
    elif not initialize:
        what, why = "a `!`", "an index found earlier cannot be compared with a new one"
    elif not result.is_integer:
        what, why = "an integer tensor to write", f"it gives an index, and the tensor holds {result}"
    if what:
        raise LanguageError(f"`{op}=` needs {what}", span=span, why=why, help=f"write `I(m) {op}=! D(m,n)`")


def perhaps_empty(what: str, axis: Axis, span: Span | None) -> LanguageError:
    """The error for a position of an extreme among elements of which there may be none."""
    name, range_ = axis.var.name, f"{describe(axis.lo)}:{describe(axis.hi)}"
    return LanguageError(
        f"`{what}` is perhaps over nothing",
        span=span,
        why=f"`{name}` runs over {range_}, which may be empty, and nothing has no extreme",
        help="state ranges in which there always is an element, as in `where i in 1:N, j in 0:i`",
    )


def narrow_sum(name: str, dtype: DType, span: Span | None) -> Remark:
    """What to say of a sum whose type is that of the narrow integers it is of, because none was stated."""
    return Remark(
        "narrow-arithmetic",
        f"the elements of `{name}` are {dtype}, which wraps at {dtype.bits} bits",
        span,
        f"no type is stated, so they have that of what is summed up, {dtype}",
        f"state a wider one: `-> (int32(...) {name})`, or convert: `int32(...)`",
    )


def unreadable(name: str, kind: str | None, span: Span | None) -> LanguageError:
    """The error for a tensor of which nothing is known where it is read."""
    if kind in ("an output", "a temporary"):
        return LanguageError(
            f"`{name}` is read before it is written",
            span=span,
            why="its type and sizes are not known yet",
            help=f"write it first, or declare it with its type: `-> (float(N) {name})`",
        )
    return LanguageError(f"unknown tensor `{name}`", span=span, why="no parameter or statement defines it")


def unknown_bound(name: str, steps: RangeClause) -> LanguageError:
    """The error for a block whose bound is not known where it begins."""
    return LanguageError(
        f"unknown name `{name}` in the range of `{steps.var.name}`",
        span=steps.span,
        why="the steps of a block are bounded by sizes, integer parameters and the steps of blocks around it",
    )


def undeclared_size(name: str, subscripts: Sequence[Expr], dimension: int, span: Span | None) -> LanguageError:
    """The error for a scatter into a tensor of unknown size."""
    sizes = ", ".join("MNKPQRST"[j % 8] for j in range(len(subscripts)))
    return LanguageError(
        f"the size of dimension {dimension} of `{name}` is unknown",
        span=span,
        why=f"`{describe_access(name, subscripts)}` writes where the data says",
        help=f"declare it: `-> (float({sizes}) {name})`",
    )


def check_target_dtype(name: str, target: DType, op: str, value: Expr, span: Span | None) -> None:
    """Raises where ``value`` would be narrowed, or where ``op`` has no meaning for the target's type."""
    if target.is_bool and op in ("+", "*"):
        raise LanguageError(
            f"`{op}=` into bool tensor `{name}`",
            span=span,
            why="bools have no sums and products",
            help=f"use `{'max' if op == '+' else 'min'}=` for {'any' if op == '+' else 'all'}, or an int tensor",
        )
    if can_hold(target, value.dtype) or _fits(target, value):
        return
    raise LanguageError(
        f"cannot put {value.dtype} into {target} tensor `{name}`",
        span=span,
        why=f"{value.dtype} narrows to {target}, and values are never narrowed silently",
        help=f"convert the value: `{target}(...)`, or declare `{name}` as {value.dtype}",
    )


def _fits(target: DType, value: Expr) -> bool:
    """A literal goes into any tensor that can represent it: ``O(i) = 0`` into uint8, ``1.5`` into float16."""
    if not isinstance(value, Const):
        return False
    if target.is_float:
        return True
    return target.is_integer and value.dtype.is_integer and target.min_value <= value.value <= target.max_value
