"""Expressions over a box of points, as numpy arrays that broadcast along the axes they do not use."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from weft.ir.buffer import Buffer
from weft.ir.errors import ShapeError
from weft.ir.expr import Axis, Binary, Expr, Load, Select, Var
from weft.ir.span import Span
from weft.ir.visit import children
from weft.tensor.array_arithmetic import OPERATIONS, Array, apply
from weft.tensor.text import describe_access


@dataclass(frozen=True)
class Point:
    """Every point of a box at once: a value for each axis variable, and which of the points count.

    ``mask`` None means all; points outside it are computed with some value and then ignored,
    which is how ranges that are no boxes and operands that are not chosen are evaluated.
    """

    variables: dict[str, Array]
    memory: dict[str, Array]
    shape: tuple[int, ...]
    wide: bool
    mask: Array | None = None

    @staticmethod
    def over(
        axes: Sequence[Axis], box: Mapping[str, range], memory: dict[str, Array], wide: bool, masked: bool = True
    ) -> Point:
        shape = tuple(len(box[a.var.name]) for a in axes)
        variables = {}
        for position, axis in enumerate(axes):
            values = box[axis.var.name]
            along = [1] * len(axes)
            along[position] = len(values)
            variables[axis.var.name] = np.arange(values.start, values.stop, dtype=np.int64).reshape(along)
        point = Point(variables, memory, shape, wide)
        return point.within(axes, box) if masked and point.size else point

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def within(self, axes: Sequence[Axis], box: Mapping[str, range]) -> Point:
        """Only the points where each axis is in its range; a range that is its box needs no test."""
        point = self
        for axis in axes:
            lo, hi = evaluate_expr(axis.lo, self), evaluate_expr(axis.hi, self)
            values = box[axis.var.name]
            if int(lo.max()) > values.start or int(hi.min()) < values.stop:
                value = self.variables[axis.var.name]
                point = point.where((lo <= value) & (value < hi))
        return point

    def where(self, condition: Array) -> Point:
        return replace(self, mask=condition if self.mask is None else self.mask & condition)

    def select(self, values: Array) -> Array:
        """The values at the points that count, in order."""
        full = np.broadcast_to(values, self.shape)
        return full.reshape(-1) if self.mask is None else full[np.broadcast_to(self.mask, self.shape)]

    def subscripts(self, buffer: Buffer, indices: tuple[Expr, ...], span: Span | None) -> tuple[Array, ...]:
        """Subscripts of ``buffer``, in range at every point that counts and clamped elsewhere."""
        shape = self.memory[buffer.name].shape
        arrays = []
        for dimension, index_expr in enumerate(indices):
            value = evaluate_expr(index_expr, self)
            size = shape[dimension]
            outside = (value < 0) | (value >= size)
            if outside.any():
                self._check(buffer, indices, dimension, value, outside, span)
                value = np.clip(value, 0, max(size - 1, 0))
            arrays.append(value)
        return tuple(arrays)

    def _check(
        self,
        buffer: Buffer,
        indices: tuple[Expr, ...],
        dimension: int,
        value: Array,
        outside: Array,
        span: Span | None,
    ) -> None:
        bad = outside if self.mask is None else outside & self.mask
        if not bad.any():
            return
        bad = np.broadcast_to(bad, self.shape)
        where = np.unravel_index(int(np.argmax(bad)), self.shape) if self.shape else ()
        at = {n: int(np.broadcast_to(v, self.shape)[where]) for n, v in self.variables.items()}
        number = int(np.broadcast_to(value, self.shape)[where])
        size = self.memory[buffer.name].shape[dimension]
        place = ", ".join(f"{n}={v}" for n, v in at.items())
        raise ShapeError(
            f"{buffer.name} index out of range",
            span=span,
            why=f"{describe_access(buffer.name, indices)} has subscript {number} in dimension {dimension} "
            f"of size {size}" + (f" at ({place})" if place else ""),
        )


def evaluate_expr(e: Expr, point: Point) -> Array:
    """The value of ``e`` at every point, in the numpy type of ``e`` (float64 for floats where ``point.wide``)."""
    match e:
        case Var(name=name):
            return point.variables[name] if name in point.variables else point.memory[name]
        case Load(buffer=buffer, indices=indices):
            return _load(buffer, point, point.subscripts(buffer, indices, e.span))
        case Binary(op="&&" | "||" as op, left=left, right=right):
            return _logical(op, left, right, point)
        case Select(condition=condition, then=then, otherwise=otherwise):
            chosen = evaluate_expr(condition, point)
            yes, no = evaluate_expr(then, point.where(chosen)), evaluate_expr(otherwise, point.where(~chosen))
            return np.where(chosen, yes, no)
    operands = children(e) if isinstance(e, OPERATIONS) else ()
    return apply(e, [evaluate_expr(x, point) for x in operands if isinstance(x, Expr)], wide=point.wide)


def _load(buffer: Buffer, point: Point, subscripts: tuple[Array, ...]) -> Array:
    array = point.memory[buffer.name]
    if array.size == 0:
        # Nothing can be read: `subscripts` has found that no point that counts does.
        return np.zeros((1,) * len(point.shape), array.dtype)
    part = part_of(array, subscripts, len(point.shape))
    return np.asarray(array[subscripts]) if part is None else part


def part_of(array: Array, subscripts: tuple[Array, ...], rank: int) -> Array | None:
    """The elements under ``subscripts`` without a copy, with one dimension for each of ``rank`` axes.

    None where subscripts do more than run through a range along an axis of their own each.
    """
    ranges: list[Any] = [...]  # which keep a tensor of no dimension one
    dimensions: dict[int, int] = {}
    for dimension, subscript in enumerate(subscripts):
        along = [d for d, n in enumerate(subscript.shape) if n != 1]
        values = subscript.reshape(-1)
        if len(along) > 1 or values.size == 0 or (np.diff(values) != 1).any() or dimensions.keys() & {*along}:
            return None
        first = int(values[0])
        ranges.append(slice(first, first + values.size))
        dimensions |= dict.fromkeys(along, dimension)
    part: Array = array[tuple(ranges)]
    single = [d for d in range(part.ndim) if d not in dimensions.values()]
    ordered: Array = part.transpose(*single, *(dimensions[axis] for axis in sorted(dimensions)))
    return np.reshape(ordered, [part.shape[dimensions[d]] if d in dimensions else 1 for d in range(rank)])


def _logical(op: str, left: Expr, right: Expr, point: Point) -> Array:
    first = evaluate_expr(left, point)
    if op == "&&":
        return np.asarray(first & evaluate_expr(right, point.where(first)))
    return np.asarray(first | evaluate_expr(right, point.where(~first)))
