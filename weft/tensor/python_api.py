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

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, Literal, ParamSpec, TypeVar

from weft.ir import dtype as dt
from weft.ir.buffer import Buffer
from weft.ir.dtype import DType
from weft.ir.errors import ArgumentError, LanguageError, ShapeError
from weft.ir.expr import Axis, Const, Expr, Reduce, ReduceOp, Var, idx
from weft.ir.expr import cast as cast_expr
from weft.ir.intrinsics import INTRINSICS
from weft.ir.span import Span
from weft.ir.visit import free_vars
from weft.tensor.boundary import Outside, OutsideMode
from weft.tensor.build_python import ArgReduce, DefinedLoad, Definition, Scan, assemble
from weft.tensor.caller import caller_span
from weft.tensor.program import TensorProgram
from weft.tensor.value import (
    Operand,
    ReduceAxis,
    Value,
    as_position,
    call,
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

_serial = count()
#: The steps of scans that are being written.
_open_steps: list[str] = []
_P = ParamSpec("_P")
_R = TypeVar("_R")


def _unique(name: str) -> str:
    """A name no other variable or tensor has; what follows ``@`` is dropped when the program is built."""
    return f"{name}@{next(_serial)}"


@dataclass(frozen=True, eq=False)
class Tensor:
    """A tensor to subscript: an input, or what a compute defines."""

    buffer: Buffer
    definition: Definition | None = None
    boundary: tuple[OutsideMode, Operand | None] | None = None
    span: Span | None = field(default=None, repr=False)

    @property
    def name(self) -> str:
        return self.buffer.name.partition("@")[0]

    @property
    def dtype(self) -> DType:
        return self.buffer.dtype

    @property
    def shape(self) -> tuple[Value, ...]:
        return tuple(index_value(s) for s in self.buffer.shape)

    @property
    def ndim(self) -> int:
        return self.buffer.rank

    def outside(self, mode: str | float) -> Tensor:
        """The tensor with its outside defined: ``"zero"``, ``"edge"``, ``"wrap"``, ``"reflect"`` or a value."""
        if mode == "zero" or not isinstance(mode, str):
            return Tensor(self.buffer, self.definition, ("value", 0 if isinstance(mode, str) else mode), self.span)
        if mode not in ("edge", "wrap", "reflect"):
            raise ArgumentError(
                f"unknown boundary `{mode}`",
                span=caller_span(),
                help='use "zero", "edge", "wrap", "reflect" or a number',
            )
        return Tensor(self.buffer, self.definition, (mode, None), self.span)  # type: ignore[arg-type]

    def __getitem__(self, indices: Operand | tuple[Operand, ...]) -> Value:
        given = indices if isinstance(indices, tuple) else (indices,)
        span = caller_span()
        if len(given) != self.ndim:
            raise ShapeError(
                f"`{self.name}` has {self.ndim} dimension{'s' * (self.ndim != 1)}, but {len(given)} "
                f"{'index is' if len(given) == 1 else 'indices are'} given",
                span=span,
                help=f"write `{self.name}[{', '.join('ijklmnpq'[: self.ndim])}]`",
            )
        subscripts = tuple(as_position(i, f"a subscript of `{self.name}`") for i in given)
        load = DefinedLoad(self.buffer, subscripts, span=span, definition=self.definition)
        if self.boundary is None:
            return Value(load)
        mode, fill = self.boundary
        filled = None if fill is None else convert(lift(fill), self.dtype)
        return Value(Outside(load, mode, filled, span=span))

    def __iter__(self) -> Any:
        raise LanguageError(f"tensor `{self.name}` cannot be iterated over", span=caller_span())


def _told_when_too_deep(fn: Callable[_P, _R]) -> Callable[_P, _R]:
    """``fn``, with Python's recursion limit as an error about the user's expression."""

    @functools.wraps(fn)
    def told(*args: _P.args, **named: _P.kwargs) -> _R:
        try:
            return fn(*args, **named)
        except RecursionError:
            raise LanguageError(
                "expression is nested too deeply",
                span=caller_span(),
                why="Python's recursion limit was reached while it was read",
                help="compute parts of it as tensors of their own: T = weft.compute(...), then use T[i]",
            ) from None

    return told


def size(name: str) -> Value:
    """A symbolic size, known when the operator is called."""
    _check_name(name)
    return index_value(Var(name, span=caller_span()))


def sizes(names: str) -> tuple[Value, ...]:
    """Symbolic sizes by name: ``M, N = sizes("M N")``."""
    if not isinstance(names, str):
        raise ArgumentError("sizes takes their names in one text", span=caller_span(), help='M, N = weft.sizes("M N")')
    return tuple(size(name) for name in names.replace(",", " ").split())


def placeholder(name: str, shape: Sequence[Operand] | Operand, dtype: str | DType = "float32") -> Tensor:
    """An input tensor; its shape is made of sizes and numbers."""
    span = caller_span()
    _check_name(name)
    extents = _shape(shape, f"a size of `{name}`")
    return Tensor(Buffer(_unique(name), parse_type(dtype), extents, span=span), span=span)


def scalar(name: str, dtype: str | DType = "float32") -> Value:
    """A scalar parameter; an integer one may appear in subscripts, sizes and ranges."""
    _check_name(name)
    return scalar_value(Var(name, parse_type(dtype), span=caller_span()))


def reduce_axis(extent: Operand | tuple[Operand, Operand], name: str = "k") -> ReduceAxis:
    """A variable to reduce over: ``0:extent``, or ``lo:hi`` of a pair."""
    _check_name(name)
    pair = extent if isinstance(extent, tuple) else (0, extent)
    if len(pair) != 2:
        raise ArgumentError(f"the range of `{name}` is an extent or a pair (lo, hi)", span=caller_span())
    lo, hi = (as_position(e, f"a bound of `{name}`") for e in pair)
    var = Var(_unique(name), span=caller_span())
    made = index_value(var)
    return ReduceAxis(made.expr, made.position, made.kind, name, lo, hi)


def _check_name(name: object) -> None:
    if not isinstance(name, str) or not name.isidentifier():
        raise ArgumentError(f"`{name}` is not a name", span=caller_span(), help="use letters, digits and `_`")


def _shape(shape: Sequence[Operand] | Operand, what: str) -> tuple[Expr, ...]:
    given = shape if isinstance(shape, (tuple, list)) else (shape,)
    extents = tuple(as_position(s, what) for s in given)
    for extent in extents:
        if isinstance(extent, Const) and extent.value < 0:
            raise ShapeError(f"{what} is {extent.value}", span=caller_span(), why="a size counts elements")
    return extents


@_told_when_too_deep
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
    _check_name(name)
    extents = _shape(shape, f"a size of `{name}`")
    axes = tuple(Axis(Var(_unique(n)), idx(0), e) for n, e in zip(_parameter_names(fn, len(extents)), extents))
    places = tuple(index_value(a.var) for a in axes)
    body = lift(fn(*places))
    sooner = {} if ends is None else {d: as_position(e, f"an end of `{name}`") for d, e in ends(*places).items()}
    axes = tuple(replace(a, hi=sooner.get(d, a.hi)) for d, a in enumerate(axes))
    to = None if dtype is None else parse_type(dtype)
    value = body.expr if to is None else convert(body, to)
    _check_variables(value, axes, name, span)
    counts_bools = isinstance(value, Reduce) and value.dtype.is_bool and value.op in ("+", "*")
    buffer = Buffer(_unique(name), dt.int32 if counts_bools else value.dtype, extents, span=span)
    return Tensor(buffer, Definition(buffer, axes, value, span), span=span)


@dataclass(frozen=True, eq=False)
class _State(Tensor):
    """What a state is before a step: a row of all that it was."""

    step: Value | None = None

    @property
    def ndim(self) -> int:
        return self.buffer.rank - (self.step is not None)

    def __getitem__(self, indices: Operand | tuple[Operand, ...]) -> Value:
        given = indices if isinstance(indices, tuple) else (indices,)
        row = () if self.step is None else (self.step,)
        return Tensor(self.buffer, span=self.span)[row + given]


@_told_when_too_deep
def scan(
    steps: Operand, starts: Sequence[Tensor], step: Callable[..., Sequence[Tensor]], name: str = "t"
) -> tuple[Tensor, ...]:
    """States that go on from step to step: ``step(t, a, b, ...)`` gives what each is after step ``t``.

    Of each state, a tensor of ``steps + 1`` rows: the first is its start, the last what it is in the end.

    >>> (S,) = scan(T, [S0], lambda t, s: [compute((N,), lambda i: 0.5 * s[i] + X[t, i])])
    """
    span = caller_span()
    var = Var(_unique(name), span=span)
    axis = Axis(var, idx(0), as_position(steps, "the number of steps"))
    rows = [Buffer(_unique(f"{s.name}_steps"), s.dtype, (axis.hi + idx(1), *s.buffer.shape), span=span) for s in starts]
    _open_steps.append(var.name)
    try:
        ends = list(step(index_value(var), *(_State(b, span=span, step=index_value(var)) for b in rows)))
    finally:
        _open_steps.remove(var.name)
    _check_states(starts, ends, span)
    firsts, lasts = (tuple(map(_whole, tensors)) for tensors in (starts, ends))
    together = Scan(axis, tuple(rows), firsts, lasts)
    return tuple(Tensor(b, Definition(b, (), idx(0), span, together), span=span) for b in rows)


def _check_states(starts: Sequence[Tensor], ends: Sequence[Tensor], span: Span | None) -> None:
    if len(ends) != len(starts) or [e for e in ends if not isinstance(e, Tensor)]:
        count = f"{len(starts)} tensor{'s' * (len(starts) != 1)}"
        raise ArgumentError(f"a step of this scan gives {count}", span=span, why="each state that starts must go on")
    for old, new in zip(starts, ends):
        if (new.dtype, new.buffer.shape) != (old.dtype, old.buffer.shape):
            raise ShapeError(
                f"`{new.name}` does not follow `{old.name}`",
                span=span,
                why="a state keeps its type and shape from step to step",
            )


def _whole(tensor: Tensor) -> DefinedLoad:
    return DefinedLoad(tensor.buffer, tuple(idx(0) for _ in tensor.buffer.shape), definition=tensor.definition)


def _parameter_names(fn: Callable[..., Operand], rank: int) -> list[str]:
    if not callable(fn):
        raise ArgumentError("compute takes a function of the index variables", span=caller_span())
    parameters = list(inspect.signature(fn).parameters.values())
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
        if "@" in stray and stray not in own and stray not in _open_steps:
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
    return Value(convert(lift(x), parse_type(dtype)))


@_told_when_too_deep
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


def _intrinsic(name: str) -> Callable[..., Value]:
    def apply(*args: Operand) -> Value:
        return call(name, *args)

    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = f"`{name}` of the intrinsics table."
    return apply


globals().update({name: _intrinsic(name) for name in INTRINSICS})

__all__ = [
    "ReduceAxis", "Tensor", "Value", "all", "any", "argmax", "argmin", "build_program", "cast", "compute",
    "logical_and", "logical_not", "logical_or", "max", "maximum", "min", "minimum", "placeholder", "prod",
    "reduce_axis", "scalar", "scan", "select", "size", "sizes", "sum", "where",
    *INTRINSICS,
]  # fmt: skip
