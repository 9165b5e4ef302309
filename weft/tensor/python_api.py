"""Tensor programs written in Python: the same programs the whiteboard language writes.

>>> M, N, K = sizes("M N K")
>>> A, B = placeholder("A", (M, K)), placeholder("B", (K, N))
>>> k = reduce_axis(K, "k")
>>> C = compute((M, N), lambda m, n: sum(A[m, k] * B[k, n], over=k), name="C")
>>> program = build_program([A, B], [C], name="mm")

Reductions may stand anywhere in an expression; `compute` gives a tensor that later computes may read.
The functions of the intrinsics table (`exp`, `tanh`, ...) are here under their names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from weft.ir import dtype as dt
from weft.ir.at_the_call import tell_at_the_call
from weft.ir.buffer import Buffer
from weft.ir.dtype import DType
from weft.ir.errors import ArgumentError, LanguageError, ShapeError
from weft.ir.expr import Axis, Const, Expr, Reduce, ReduceOp, Var, idx
from weft.ir.expr import cast as cast_expr
from weft.ir.span import Span
from weft.ir.visit import free_vars
from weft.tensor import python_functions
from weft.tensor.build_python import ArgReduce, Definition, assemble
from weft.tensor.caller import caller_span
from weft.tensor.program import TensorProgram
from weft.tensor.python_functions import *  # noqa: F403
from weft.tensor.python_scan import scan
from weft.tensor.python_tensor import Tensor, check_name, open_steps, parameters_of, told_when_too_deep, unique
from weft.tensor.value import (
    Operand,
    ReduceAxis,
    Value,
    as_position,
    choose,
    condition,
    convert,
    extreme,
    index_value,
    lift,
    logical,
    parse_type,
    scalar_value,
)


def size(name: str) -> Value:
    """A symbolic size, known when the operator is called."""
    check_name(name)
    return index_value(Var(name, span=caller_span()))


def sizes(names: str) -> tuple[Value, ...]:
    """Symbolic sizes by name: ``M, N = sizes("M N")``."""
    if not isinstance(names, str):
        raise ArgumentError("sizes takes their names in one text", span=caller_span(), help='M, N = weft.sizes("M N")')
    return tuple(size(name) for name in names.replace(",", " ").split())


def placeholder(name: str, shape: Sequence[Operand] | Operand, dtype: str | DType = "float32") -> Tensor:
    """An input tensor; its shape is made of sizes and numbers."""
    span = caller_span()
    check_name(name)
    extents = _shape(shape, f"a size of `{name}`")
    return Tensor(Buffer(unique(name), parse_type(dtype), extents, span=span), span=span)


def scalar(name: str, dtype: str | DType = "float32") -> Value:
    """A scalar parameter; an integer one may appear in subscripts, sizes and ranges."""
    check_name(name)
    return scalar_value(Var(name, parse_type(dtype), span=caller_span()))


def reduce_axis(extent: Operand | tuple[Operand, Operand], name: str = "k") -> ReduceAxis:
    """A variable to reduce over: ``0:extent``, or ``lo:hi`` of a pair."""
    check_name(name)
    pair = extent if isinstance(extent, tuple) else (0, extent)
    if len(pair) != 2:
        raise ArgumentError(f"the range of `{name}` is an extent or a pair (lo, hi)", span=caller_span())
    lo, hi = (as_position(e, f"a bound of `{name}`") for e in pair)
    var = Var(unique(name), span=caller_span())
    made = index_value(var)
    return ReduceAxis(made.expr, made.position, made.kind, name, lo, hi)


def _shape(shape: Sequence[Operand] | Operand, what: str) -> tuple[Expr, ...]:
    given = shape if isinstance(shape, (tuple, list)) else (shape,)
    extents = tuple(as_position(s, what) for s in given)
    for extent in extents:
        if isinstance(extent, Const) and extent.value < 0:
            raise ShapeError(f"{what} is {extent.value}", span=caller_span(), why="a size counts elements")
    return extents


@told_when_too_deep
def compute(
    shape: Sequence[Operand] | Operand,
    fn: Callable[..., Operand],
    name: str = "T",
    dtype: str | DType | None = None,
    ends: Callable[..., Mapping[int, Operand]] | None = None,
) -> Tensor:
    """The tensor whose element at ``i, j, ...`` is ``fn(i, j, ...)``.

    ``ends(i, j, ...)`` has, by number, axes of which no more than a part is computed, and where that ends; what is
    beyond must not be read.

    >>> lower = compute((n, n), lambda i, j: x[i] * y[j], ends=lambda i, j: {1: i + 1})
    """
    span = caller_span()
    check_name(name)
    extents = _shape(shape, f"a size of `{name}`")
    axes = tuple(Axis(Var(unique(n)), idx(0), e) for n, e in zip(_parameter_names(fn, len(extents)), extents))
    places = tuple(index_value(a.var) for a in axes)
    body = lift(fn(*places))
    sooner = {} if ends is None else {d: as_position(e, f"an end of `{name}`") for d, e in ends(*places).items()}
    axes = tuple(replace(a, hi=sooner.get(d, a.hi)) for d, a in enumerate(axes))
    to = None if dtype is None else parse_type(dtype)
    value = body.expr if to is None else convert(body, to)
    _check_variables(value, axes, name, span)
    counts_bools = isinstance(value, Reduce) and value.dtype.is_bool and value.op in ("+", "*")
    buffer = Buffer(unique(name), dt.int32 if counts_bools else value.dtype, extents, span=span)
    return Tensor(buffer, Definition(buffer, axes, value, span), span=span)


def _parameter_names(fn: Callable[..., Operand], rank: int) -> list[str]:
    if not callable(fn):
        raise ArgumentError("compute takes a function of the index variables", span=caller_span())
    parameters = parameters_of(fn)
    if [p for p in parameters if p.kind is p.VAR_POSITIONAL]:
        return [f"i{d}" for d in range(rank)]
    if len(parameters) != rank:
        raise ArgumentError(
            f"the function takes {len(parameters)} index variables, but the shape has {rank} dimensions",
            span=caller_span(),
        )
    return [p.name for p in parameters]


def _check_variables(value: Expr, axes: Sequence[Axis], name: str, span: Span | None) -> None:
    own = {a.var.name for a in axes}
    for stray in free_vars(value):
        if "@" in stray and stray not in own and stray not in open_steps:
            shown = stray.partition("@")[0]
            raise LanguageError(
                f"`{shown}` has no meaning here",
                span=span,
                why=f"it is neither an index of `{name}` nor reduced over in this expression",
                help=f"if it is a reduction axis, say how to combine: weft.sum(..., over={shown})",
            )


def _reduce(op: ReduceOp, x: Operand, over: ReduceAxis | Sequence[ReduceAxis]) -> Value:
    axes = tuple(_axis(a) for a in (over if isinstance(over, (tuple, list)) else (over,)))
    value = lift(x).expr
    if op in ("+", "*") and value.dtype.is_bool:
        value = cast_expr(dt.int32, value)
    if isinstance(value, Reduce) and value.op == op:
        axes, value = axes + value.axes, value.value
    return Value(Reduce(op, axes, value, span=caller_span()))


def _axis(axis: object) -> Axis:
    if not isinstance(axis, ReduceAxis) or not isinstance(axis.position, Var):
        raise ArgumentError(
            "`over` takes reduction axes",
            span=caller_span(),
            help='make one: k = weft.reduce_axis(K, "k")',
        )
    return Axis(axis.position, axis.lo, axis.hi)


def sum(x: Operand, over: ReduceAxis | Sequence[ReduceAxis]) -> Value:
    return _reduce("+", x, over)


def prod(x: Operand, over: ReduceAxis | Sequence[ReduceAxis]) -> Value:
    return _reduce("*", x, over)


def min(x: Operand, over: ReduceAxis | Sequence[ReduceAxis]) -> Value:
    return _reduce("min", x, over)


def max(x: Operand, over: ReduceAxis | Sequence[ReduceAxis]) -> Value:
    return _reduce("max", x, over)


def any(x: Operand, over: ReduceAxis | Sequence[ReduceAxis]) -> Value:
    """Whether ``x`` holds (is not zero) somewhere."""
    return _reduce("max", Value(condition(x, "any")), over)


def all(x: Operand, over: ReduceAxis | Sequence[ReduceAxis]) -> Value:
    """Whether ``x`` holds (is not zero) everywhere."""
    return _reduce("min", Value(condition(x, "all")), over)


def argmin(x: Operand, over: ReduceAxis) -> Value:
    """The value of ``over`` at the least ``x``, the first on ties; NaN counts as least."""
    return _arg_reduce("argmin", x, over)


def argmax(x: Operand, over: ReduceAxis) -> Value:
    """The value of ``over`` at the greatest ``x``, the first on ties; NaN counts as greatest."""
    return _arg_reduce("argmax", x, over)


def _arg_reduce(op: Literal["argmin", "argmax"], x: Operand, over: ReduceAxis) -> Value:
    extreme = Reduce("min" if op == "argmin" else "max", (_axis(over),), lift(x).expr)
    return Value(ArgReduce(op, extreme, span=caller_span()))


def select(test: Operand, a: Operand, b: Operand) -> Value:
    """``a`` where ``test`` holds, else ``b``; only the chosen one is evaluated."""
    return choose(test, a, b)


def where(test: Operand, a: Operand, b: Operand) -> Value:
    """numpy's name for `select`."""
    return choose(test, a, b)


def maximum(a: Operand, b: Operand) -> Value:
    """The greater of two; NaN where either is."""
    return extreme("max", a, b)


def minimum(a: Operand, b: Operand) -> Value:
    """The lesser of two; NaN where either is."""
    return extreme("min", a, b)


def logical_and(a: Operand, b: Operand) -> Value:
    return logical("&&", a, b)


def logical_or(a: Operand, b: Operand) -> Value:
    return logical("||", a, b)


def logical_not(a: Operand) -> Value:
    return ~Value(condition(a, "logical_not"))


def cast(dtype: str | DType, x: Operand) -> Value:
    """``x`` converted: wraps between integers, saturates from float to integer."""
    if isinstance(dtype, (Value, Tensor)):
        raise ArgumentError(
            "cast takes the type first, then the value", span=caller_span(), help='weft.cast("float16", A[i, j])'
        )
    return Value(convert(lift(x), parse_type(dtype)))


@told_when_too_deep
def build_program(
    inputs: Sequence[Tensor | Value], outputs: Sequence[Tensor], name: str | None = None
) -> TensorProgram:
    """The program that computes ``outputs`` from ``inputs`` (placeholders and scalars, in the order of a call)."""
    params: list[Buffer | Var] = []
    for x in inputs:
        if isinstance(x, Tensor) and x.definition is None:
            params.append(x.buffer)
        elif isinstance(x, Value) and isinstance(x.expr, Var):
            params.append(x.expr)
        else:
            raise ArgumentError("inputs are placeholders and scalars", span=caller_span())
    definitions = [x.definition for x in outputs if isinstance(x, Tensor) and x.definition is not None]
    if not outputs or len(definitions) != len(outputs):
        raise ArgumentError("outputs are tensors made with weft.compute", span=caller_span())
    tensors = _definitions_below(definitions)
    return assemble(name or outputs[-1].name, params, definitions, tensors)


def _definitions_below(outputs: Sequence[Definition]) -> list[Definition]:
    """All definitions the outputs need, each after those it reads."""
    order: dict[str, Definition] = {}

    def visit(d: Definition) -> None:
        if d.buffer.name in order:
            return
        for inner in d.reads():
            visit(inner)
        order[d.buffer.name] = d

    for d in outputs:
        visit(d)
    return list(order.values())


__all__ = [
    "ReduceAxis", "Tensor", "Value", "all", "any", "argmax", "argmin", "build_program", "cast", "compute",
    "logical_and", "logical_not", "logical_or", "max", "maximum", "min", "minimum", "placeholder", "prod",
    "reduce_axis", "scalar", "scan", "select", "size", "sizes", "sum", "where",
]  # fmt: skip
__all__ += python_functions.__all__

tell_at_the_call(globals(), __all__)
