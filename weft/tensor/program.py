"""Tensor programs: what the whiteboard language and the Python builders both mean.

A program is a list of statements over buffers; all expressions are those of `weft.ir`.
Sizes stay symbolic (int64 variables) until `specialize` gives them values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from weft.ir.buffer import Buffer
from weft.ir.expr import Axis, Expr, Var
from weft.ir.remark import Remark
from weft.ir.span import Source, Span
from weft.ir.stmt import Param
from weft.ir.visit import free_vars

AssignOp = Literal["=", "+", "*", "min", "max"]


@dataclass(frozen=True, slots=True)
class Recurrence:
    """A block ``for var in lo:hi { … }``; ``number`` tells apart blocks that follow one another."""

    axis: Axis
    number: int


def axes_for(names: Iterable[str], axes: Sequence[Axis]) -> tuple[Axis, ...]:
    """Those of ``axes`` that are called one of ``names``, and those that their ranges depend on."""
    needed = set(names)
    for axis in reversed(axes):
        if axis.var.name in needed:
            needed |= {*free_vars(axis.lo), *free_vars(axis.hi)}
    return tuple(a for a in axes if a.var.name in needed)


@dataclass(frozen=True, slots=True)
class Statement:
    """``target(indices) op= value`` at every point of ``axes``, in lexicographic order.

    ``axes`` holds the axes of the left side in order, then the reduction axes in order of
    appearance; ranges are resolved. ``initialize`` (the ``!`` of ``+=!``) sets every element
    the statement updates to the identity of ``op`` first.

    ``recurrences`` are the blocks around it, outermost first: statements that follow one another in
    one block all run at one step of it before any runs at the next. A statement says what happens
    at one step, where the variables of its blocks are as good as sizes.
    """

    target: Buffer
    indices: tuple[Expr, ...]
    op: AssignOp
    initialize: bool
    value: Expr
    axes: tuple[Axis, ...]
    recurrences: tuple[Recurrence, ...] = ()
    span: Span | None = field(default=None, compare=False, repr=False, kw_only=True)

    @property
    def all_axes(self) -> tuple[Axis, ...]:
        """The steps of the blocks around it, then its own axes: every point it runs at."""
        return (*(r.axis for r in self.recurrences), *self.axes)

    @property
    def spatial_axes(self) -> tuple[Axis, ...]:
        """Axes of the left side."""
        left = self._left_names()
        return tuple(a for a in self.axes if a.var.name in left)

    @property
    def reduce_axes(self) -> tuple[Axis, ...]:
        """Axes that appear only on the right."""
        left = self._left_names()
        return tuple(a for a in self.axes if a.var.name not in left)

    def _left_names(self) -> set[str]:
        return {name for i in self.indices for name in free_vars(i)}


@dataclass(frozen=True, slots=True)
class Requirement:
    """A condition on sizes that must hold for the program to stay in bounds; checked when sizes are known."""

    condition: Expr
    message: str
    span: Span | None = field(default=None, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Doubt:
    """A remark that is true at sizes for which ``condition`` holds."""

    condition: Expr
    remark: Remark


@dataclass(frozen=True, slots=True)
class TensorProgram:
    """An operator: parameters in the order a call gives them, statements in the order they run.

    ``sizes`` are the symbolic dimensions, solved from argument shapes. ``constants`` are the
    integer scalar parameters that shapes, ranges or subscripts depend on: specialized like
    sizes. Other scalars stay run-time parameters. ``carried`` names outputs whose value
    before the call matters (read or accumulated into before anything initializes them).
    """

    name: str
    params: tuple[Param, ...]
    outputs: tuple[Buffer, ...]
    temporaries: tuple[Buffer, ...]
    statements: tuple[Statement, ...]
    sizes: tuple[Var, ...] = ()
    constants: tuple[Var, ...] = ()
    #: follow from how ranges were found, and so take no part in comparisons: text with ranges spelled out is equal
    requirements: tuple[Requirement, ...] = field(default=(), compare=False)
    carried: tuple[str, ...] = ()
    source: Source | None = field(default=None, compare=False, repr=False)
    #: what is allowed and perhaps not meant, whatever the sizes are; what shows at some sizes only
    remarks: tuple[Remark, ...] = field(default=(), compare=False, repr=False)
    doubts: tuple[Doubt, ...] = field(default=(), compare=False, repr=False)
    #: outputs of declared size, each with the dimensions that variables of inferred range run through
    run_through: tuple[tuple[str, tuple[int, ...]], ...] = field(default=(), compare=False, repr=False)

    @property
    def inputs(self) -> tuple[Buffer, ...]:
        return tuple(p for p in self.params if isinstance(p, Buffer))

    @property
    def scalars(self) -> tuple[Var, ...]:
        return tuple(p for p in self.params if isinstance(p, Var))

    def with_buffers(self, buffers: Mapping[str, Buffer], statements: Iterable[Statement]) -> TensorProgram:
        """The program with others in the place of buffers, by name, and ``statements`` that use those."""
        return replace(
            self,
            params=tuple(buffers.get(p.name, p) for p in self.params),
            outputs=tuple(buffers.get(b.name, b) for b in self.outputs),
            temporaries=tuple(buffers.get(b.name, b) for b in self.temporaries),
            statements=tuple(statements),
        )
