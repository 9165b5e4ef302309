"""A tensor program for given sizes: every shape, range and requirement becomes a number.

>>> sizes = solve_sizes(program, {"A": (3, 4), "B": (4, 5)})      # {"M": 3, "K": 4, "N": 5}
>>> specialize(program, sizes).outputs[0].shape                   # (3, 5)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

from weft.ir.affine import affine_form
from weft.ir.buffer import Buffer
from weft.ir.dtype import index, int32
from weft.ir.errors import ShapeError
from weft.ir.expr import Axis, Cast, Const, Expr, Var, const, idx
from weft.ir.interval import Interval, bounds
from weft.ir.simplify import simplify
from weft.ir.solve import variables
from weft.ir.visit import free_vars, loads, rebuild, rebuild_buffer, substitute, walk
from weft.tensor.program import Requirement, Statement, TensorProgram
from weft.tensor.simplify_values import simplify_subscript, simplify_value
from weft.tensor.text import describe

Shape = tuple[int, ...]


def solve_sizes(
    program: TensorProgram, shapes: Mapping[str, Shape], constants: Mapping[str, int] | None = None
) -> dict[str, int]:
    """Values of the symbolic sizes from the shapes of inputs (and of outputs, where given).

    ``constants`` holds the integer parameters in ``program.constants``; the result includes them.
    """
    solved = dict(constants or {})
    origin = {name: f"given as {name} = {value}" for name, value in solved.items()}
    given = [(b, shapes[b.name]) for b in (*program.inputs, *program.outputs) if b.name in shapes]
    for buffer, shape in given:
        _check_rank(buffer, shape)
    pending = [(b, d, b.shape[d], shape[d]) for b, shape in given for d in range(b.rank)]
    while pending:
        left = [entry for entry in pending if not _solve_dimension(entry, solved, origin)]
        if len(left) == len(pending):
            break
        pending = left
    for size in program.sizes:
        if size.name not in solved:
            raise ShapeError(
                f"size {size.name} is not known",
                why=f"no argument's shape gives {size.name}",
                help=f"pass `out=` an array whose shape has {size.name}",
            )
    return solved


def _check_rank(buffer: Buffer, shape: Shape) -> None:
    if len(shape) == buffer.rank:
        return
    expected = describe_shape(buffer.shape)
    raise ShapeError(
        f"{buffer.name} must have {buffer.rank} dimension{'s' * (buffer.rank != 1)}, got {len(shape)}",
        span=buffer.span,
        why=f"{buffer.name} is declared with shape {expected}, the argument has shape {shape}",
    )


def _solve_dimension(entry: tuple[Buffer, int, Expr, int], solved: dict[str, int], origin: dict[str, str]) -> bool:
    """Checks a dimension whose size is known, or solves it for its one unknown; False where it must wait."""
    buffer, dimension, declared, actual = entry
    form = affine_form(simplify(_substitute_sizes(declared, solved)))
    unknown = [] if form is None else variables(form)
    if form is None or len(unknown) > 1:
        return False
    if not unknown:
        if form.get("", 0) != actual:
            raise _disagreement(buffer, dimension, actual, declared, form.get("", 0), origin)
        return True
    value, rest = divmod(actual - form.get("", 0), form[unknown[0]])
    if rest or value < 0:
        raise ShapeError(
            f"dimension {dimension} of {buffer.name} cannot be {actual}",
            span=buffer.span,
            why=f"it is declared as {describe(declared)}, which no size {unknown[0]} makes {actual}",
        )
    solved[unknown[0]] = value
    origin[unknown[0]] = f"dimension {dimension} of {buffer.name} says {unknown[0]} = {value}"
    return True


def _disagreement(
    buffer: Buffer, dimension: int, actual: int, declared: Expr, expected: int, origin: Mapping[str, str]
) -> ShapeError:
    sources = [origin[name] for name in free_vars(declared) if name in origin]
    text = describe(declared)
    why = f"{buffer.name} is declared with shape {describe_shape(buffer.shape)}"
    if sources:
        why = f"{', '.join(sources)}, and dimension {dimension} of {buffer.name} is declared as {text}"
    return ShapeError(
        f"dimension {dimension} of {buffer.name} must be {expected}, got {actual}", span=buffer.span, why=why
    )


def describe_shape(shape: Sequence[Expr]) -> str:
    """A shape as a user writes it: ``(M, 3)``."""
    inner = ", ".join(describe(size) for size in shape)
    return f"({inner},)" if len(shape) == 1 else f"({inner})"


def specialize(
    program: TensorProgram,
    sizes: Mapping[str, int],
    layouts: Mapping[str, Sequence[int | Expr]] | None = None,
    symbolic: frozenset[str] = frozenset(),
) -> TensorProgram:
    """``program`` with values for its ``sizes`` and ``constants``; the constants leave ``params``.

    ``layouts`` gives element strides for parameters and outputs that are not dense and row-major.
    Sizes named in ``symbolic`` stay open, in strides too. Raises ShapeError where a requirement fails
    or a range would have a negative length.
    """
    values = {v: e for v, e in _size_values(program, sizes).items() if v.name not in symbolic}
    for requirement in program.requirements:
        _check_requirement(requirement, values, sizes)
    layouts = layouts or {}
    mapping: dict[str, Buffer] = {}
    for old in (*program.inputs, *program.outputs, *program.temporaries):
        _check_addressable(old, values, sizes)
        new = rebuild_buffer(old, lambda e: simplify(substitute(e, values)))
        _check_extents(new, old, sizes)
        strides = layouts.get(old.name)
        if strides is not None:
            new = replace(new, strides=tuple(s if isinstance(s, Expr) else idx(s) for s in strides))
        mapping[old.name] = new
    return replace(
        program,
        params=tuple(mapping[p.name] if isinstance(p, Buffer) else p for p in program.params if p not in values),
        outputs=tuple(mapping[b.name] for b in program.outputs),
        temporaries=tuple(mapping[b.name] for b in program.temporaries),
        statements=tuple(_specialize_statement(s, values, mapping) for s in program.statements),
        sizes=tuple(v for v in program.sizes if v.name in symbolic),
        constants=(),
        requirements=(),
    )


def _size_values(program: TensorProgram, sizes: Mapping[str, int]) -> dict[Var, Expr]:
    values: dict[Var, Expr] = {}
    for var in (*program.sizes, *program.constants):
        if var.name not in sizes:
            raise ShapeError(f"size {var.name} is not known", help=f"give a value for {var.name}")
        value = int(sizes[var.name])
        if not var.dtype.min_value <= value <= var.dtype.max_value:
            raise ShapeError(f"{var.name} = {value} does not fit {var.dtype}", span=var.span)
        values[var] = const(value, var.dtype)
    return values


def _substitute_sizes(e: Expr, solved: Mapping[str, int]) -> Expr:
    free = free_vars(e)
    return substitute(e, {v: const(solved[name], v.dtype) for name, v in free.items() if name in solved})


def _check_requirement(requirement: Requirement, values: Mapping[Var, Expr], sizes: Mapping[str, int]) -> None:
    condition = simplify(substitute(requirement.condition, values))
    if isinstance(condition, Const) and not condition.value:
        raise ShapeError(
            requirement.message,
            span=requirement.span,
            why=f"with {describe_sizes(requirement.condition, sizes)}",
        )


def describe_sizes(e: Expr, sizes: Mapping[str, int]) -> str:
    """The sizes ``e`` mentions, with their values: ``N = 3, K = 5``."""
    named = [f"{name} = {sizes[name]}" for name in free_vars(e) if name in sizes]
    return ", ".join(named) or "the given sizes"


def _check_addressable(buffer: Buffer, values: Mapping[Var, Expr], sizes: Mapping[str, int]) -> None:
    """Places in an array are int64, in bytes too."""
    shape = [simplify(substitute(size, values)) for size in buffer.shape]
    extents = [int(size.value) for size in shape if isinstance(size, Const)]
    if all(extents) and prod(extents) * buffer.dtype.itemsize > index.max_value:
        given = ", ".join(dict.fromkeys(describe_sizes(size, sizes) for size in buffer.shape if free_vars(size)))
        raise ShapeError(
            f"{buffer.name} would have {' x '.join(map(str, extents))} elements of {buffer.dtype}",
            span=buffer.span,
            why="that is more than memory can address" + (f", with {given}" if given else ""),
            help="give smaller inputs",
        )


def _check_extents(buffer: Buffer, declared: Buffer, sizes: Mapping[str, int]) -> None:
    for dimension, (size, symbolic) in enumerate(zip(buffer.shape, declared.shape)):
        if isinstance(size, Const) and size.value < 0:
            raise ShapeError(
                f"dimension {dimension} of {buffer.name} would be {size.value}",
                span=buffer.span,
                why=f"its size is {describe(symbolic)} with {describe_sizes(symbolic, sizes)}",
                help="give larger inputs",
            )


def _specialize_statement(statement: Statement, values: Mapping[Var, Expr], mapping: Mapping[str, Buffer]) -> Statement:
    def put(n: Any) -> Any:
        if isinstance(n, Buffer):
            return mapping[n.name]
        return values.get(n, n) if isinstance(n, Var) else rebuild(n, put)

    axes = []
    ranges: dict[str, Interval] = {}
    for axis in statement.all_axes:
        lo, hi = simplify(put(axis.lo), ranges), simplify(put(axis.hi), ranges)
        if isinstance(lo, Const) and isinstance(hi, Const) and hi.value < lo.value:
            _check_range(axis, lo, hi, values, statement)
            hi = lo
        axes.append(Axis(axis.var, lo, hi))
        ranges[axis.var.name] = axis_interval(axes[-1], ranges)
    value = put(statement.value)
    _check_positions(value, ranges)
    return replace(
        statement,
        target=mapping[statement.target.name],
        indices=tuple(simplify_subscript(put(i), ranges) for i in statement.indices),
        value=simplify_value(value, ranges),
        axes=tuple(axes[len(statement.recurrences) :]),
        recurrences=tuple(replace(r, axis=a) for r, a in zip(statement.recurrences, axes)),
    )


def _check_positions(value: Expr, ranges: Mapping[str, Interval]) -> None:
    """An index expression that is used as a value counts as int32, which long axes exceed."""
    for node in walk(value):
        if not (isinstance(node, Cast) and node.type == int32 and node.operand.dtype == index):
            continue
        interval = (
            bounds(node.operand, ranges) if ranges.keys() >= free_vars(node.operand).keys() else Interval(None, None)
        )
        if loads(node.operand) or interval.lo is None or interval.hi is None:
            continue  # not a position but a number of the user's, which is converted as asked
        if interval.lo < int32.min_value or interval.hi > int32.max_value:
            text = describe(node.operand)
            raise ShapeError(
                f"`{text}` does not fit int32",
                span=node.span,
                why=f"it is used as a value, which counts as int32, and runs over {interval.lo}:{interval.hi + 1}",
                help=f"say which type it has: `int64({text})`",
            )


def _check_range(axis: Axis, lo: Const, hi: Const, values: Mapping[Var, Expr], statement: Statement) -> None:
    """A range from 0 that would be negative means that an argument is too small for another.

    One from elsewhere was written as such (``i in 1:N``) and is empty, as a slice would be.
    """
    if lo.value != 0:
        return
    sizes: dict[str, Any] = {v.name: c.value for v, c in values.items() if isinstance(c, Const)}
    raise ShapeError(
        f"range of index variable `{axis.var.name}` would have {hi.value} elements",
        span=axis.var.span or statement.span,
        why=f"it runs over {describe(axis.lo)}:{describe(axis.hi)} with {describe_sizes(axis.hi, sizes)}",
        help="give larger inputs",
    )


def axis_interval(axis: Axis, ranges: Mapping[str, Interval]) -> Interval:
    """The values the axis variable can take, given those of the axes around it."""
    high = bounds(axis.hi, ranges).hi
    return Interval(bounds(axis.lo, ranges).lo, None if high is None else high - 1)


def axis_ranges(axes: Sequence[Axis]) -> dict[str, Interval]:
    """The values every axis variable can take; sizes (any other variable) are at least 0."""
    ranges: dict[str, Interval] = {}
    for axis in axes:
        for name, var in (free_vars(axis.lo) | free_vars(axis.hi)).items():
            if var.dtype == index:
                ranges.setdefault(name, Interval(0, None))
        ranges[axis.var.name] = axis_interval(axis, ranges)
    return ranges
