"""Tensors of programs written in Python, and what all that makes them shares."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any, ParamSpec, TypeVar

from weft.ir.buffer import Buffer
from weft.ir.dtype import DType
from weft.ir.errors import ArgumentError, LanguageError, ShapeError
from weft.ir.expr import Const
from weft.ir.span import Span
from weft.tensor.boundary import Outside, OutsideMode
from weft.tensor.build_python import DefinedLoad, Definition
from weft.tensor.caller import caller_span
from weft.tensor.value import Operand, Value, as_position, convert, index_value, lift

_serial = count()
#: The steps of scans that are being written.
open_steps: list[str] = []
_P = ParamSpec("_P")
_R = TypeVar("_R")


def unique(name: str) -> str:
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
        if not isinstance(mode, str):
            self._check_fill(mode)
        if mode == "zero" or not isinstance(mode, str):
            return Tensor(self.buffer, self.definition, ("value", 0 if isinstance(mode, str) else mode), self.span)
        if mode not in ("edge", "wrap", "reflect"):
            raise ArgumentError(
                f"unknown boundary `{mode}`",
                span=caller_span(),
                help='use "zero", "edge", "wrap", "reflect" or a number',
            )
        return Tensor(self.buffer, self.definition, (mode, None), self.span)  # type: ignore[arg-type]

    def _check_fill(self, fill: Operand) -> None:
        """Numbers that the elements cannot be are refused."""
        value, t = lift(fill).expr, self.dtype
        if not isinstance(value, Const) or t.is_float:
            return
        if value.dtype.is_float or (t.is_bool and not value.dtype.is_bool):
            fits = False
        else:
            fits = t.is_bool or t.min_value <= value.value <= t.max_value
        if not fits:
            raise ArgumentError(
                f"`{self.name}` holds {t}, and what is outside is {fill}",
                span=caller_span(),
                why="what is read beyond an edge has the type of the elements",
                help=f'convert it: weft.cast("{t}", {fill})',
            )

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


def told_when_too_deep(fn: Callable[_P, _R]) -> Callable[_P, _R]:
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


def check_name(name: object) -> None:
    if not isinstance(name, str) or not name.isidentifier():
        raise ArgumentError(f"`{name}` is not a name", span=caller_span(), help="use letters, digits and `_`")


def parameters_of(fn: Callable[..., object]) -> list[inspect.Parameter]:
    """What a user's function takes."""
    try:
        return list(inspect.signature(fn).parameters.values())
    except (TypeError, ValueError):
        raise ArgumentError(
            f"Python does not say what `{getattr(fn, '__name__', fn)}` takes",
            span=caller_span(),
            help="write a function of your own around it: `lambda i, j: ...`",
        ) from None
