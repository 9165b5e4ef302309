"""The reference evaluator: a tensor program computed with numpy, straight from its definition.

Each statement is evaluated over the whole box of its axes at once, by broadcasting; what
must run in order (recurrences) runs a slice at a time. It shares neither loops nor
arithmetic with lowering and the interpreter, so the three check one another.

>>> evaluate(program, [a, b])                  # one array per parameter; one per output comes back
>>> evaluate(program, [a, b], wide=True)       # every float in float64: what rounding is measured against
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from weft.ir.buffer import Buffer
from weft.ir.dtype import DType
from weft.ir.errors import ArgumentError
from weft.ir.expr import Axis, identity
from weft.ir.numpy_dtypes import convert, to_numpy
from weft.tensor.access import independent_axes, is_injective, reads_target
from weft.tensor.array_arithmetic import Array, accumulator, storage_type
from weft.tensor.coverage import infer_fills, initial_value, initialization
from weft.tensor.evaluate_expr import Point, evaluate_expr, part_of
from weft.tensor.normalize import normalize
from weft.tensor.program import Statement, TensorProgram
from weft.tensor.recurrences import constant_of, in_order
from weft.tensor.specialize import solve_sizes, specialize

#: Points evaluated at once; a temporary of that many float64 elements takes 4 MB.
CHUNK_POINTS = 1 << 19


def evaluate(
    program: TensorProgram,
    args: Sequence[Any],
    *,
    out: Mapping[str, Any] | None = None,
    wide: bool = False,
) -> tuple[Array, ...]:
    """The outputs for ``args``, one per parameter in order; ``out`` gives what carried outputs hold before.

    Nothing passed in is written to. Raises ShapeError where sizes disagree or an index is out of range.
    """
    program, memory = begin(program, args, out=out, wide=wide)
    with np.errstate(all="ignore"):
        for step in in_order(program.statements):
            Evaluation(step.statement, memory, wide).run()
    return tuple(memory[b.name] for b in program.outputs)


def begin(
    program: TensorProgram, args: Sequence[Any], *, out: Mapping[str, Any] | None, wide: bool
) -> tuple[TensorProgram, dict[str, Array]]:
    """The program for these arguments, specialized and normalized, and what memory holds before its first statement."""
    if len(args) != len(program.params):
        raise ArgumentError(f"{program.name} takes {len(program.params)} arguments, got {len(args)}")
    given = {p.name: np.asarray(a) for p, a in zip(program.params, args)}
    before = {name: np.asarray(a) for name, a in (out or {}).items()}
    shapes = {b.name: given[b.name].shape for b in program.inputs} | {name: a.shape for name, a in before.items()}
    constants = {v.name: int(given[v.name]) for v in program.constants if v.name in given}
    plain = specialize(program, solve_sizes(program, shapes, constants))
    program = normalize(plain)
    memory = {p.name: _as_type(given[p.name], p.dtype, wide) for p in program.params}
    for buffer in (*program.outputs, *program.temporaries):
        memory[buffer.name] = _before(plain, buffer, before, wide)
    for fill in infer_fills(program):
        memory[fill.buffer.name][...] = fill.value.value
    return program, memory


def _as_type(value: Array, dtype: DType, wide: bool) -> Array:
    return convert(convert(value, dtype), storage_type(dtype, wide))


def _before(program: TensorProgram, buffer: Buffer, before: Mapping[str, Array], wide: bool) -> Array:
    """A writable array for ``buffer``, holding what the caller passed where that matters."""
    shape = tuple(constant_of(size) for size in buffer.shape)
    array = np.zeros(shape, to_numpy(storage_type(buffer.dtype, wide)))
    if buffer.name not in program.carried:
        return array
    if buffer.name in before:
        array[...] = _as_type(before[buffer.name], buffer.dtype, wide)
        return array
    start = initial_value(program, buffer.name)
    if start is None:
        raise ArgumentError(
            f"{buffer.name} is read before it is written",
            span=buffer.span,
            help=f"pass its value in `out={buffer.name}`",
        )
    array[...] = start.value
    return array


@dataclass(frozen=True)
class Evaluation:
    """One statement of a specialized, normalized program, at one step, and the arrays it works on."""

    statement: Statement
    memory: dict[str, Array]
    wide: bool

    def run(self) -> None:
        statement = self.statement
        if statement.initialize:
            Evaluation(initialization(statement), self.memory, self.wide).run()
        for box in self.boxes():
            self._update(box)

    def boxes(self) -> Iterator[dict[str, range]]:
        """Pieces of the iteration space in lexicographic order, each of which may be evaluated at once."""
        ranges = infer_box(self.statement.axes, self.memory)
        serial = self._serial_axes()
        steps: dict[str, int] = {}
        room = CHUNK_POINTS
        for axis in reversed(self.statement.axes):
            name = axis.var.name
            steps[name] = 1 if name in serial else max(1, min(room, len(ranges[name])))
            room = max(1, room // max(1, steps[name]))
        pieces = [_split(ranges[a.var.name], steps[a.var.name]) for a in self.statement.axes]
        names = [a.var.name for a in self.statement.axes]
        for piece in itertools.product(*pieces):
            yield dict(zip(names, piece))

    def _serial_axes(self) -> set[str]:
        """Axes that must advance one step at a time because later points read what earlier ones wrote."""
        statement = self.statement
        if not reads_target(statement):
            return set()
        return {a.var.name for a in statement.axes} - independent_axes(statement)

    def _update(self, box: Mapping[str, range]) -> None:
        statement, target = self.statement, self.memory[self.statement.target.name]
        point = Point.over(statement.axes, box, self.memory, self.wide)
        if point.size == 0:
            return
        stored = storage_type(statement.target.dtype, self.wide)
        value = convert(evaluate_expr(statement.value, point), stored)
        indices = point.subscripts(statement.target, statement.indices, statement.span)
        if statement.op == "=" or not is_injective(statement):
            self._scatter(target, point, indices, value)
            return
        self._reduce(target, point, indices, value)

    def _scatter(self, target: Array, point: Point, indices: tuple[Array, ...], value: Array) -> None:
        """Points one after another, so that of several that meet one element each counts, and the last is last."""
        if self.statement.op == "=" and point.mask is None:
            part = part_of(target, indices, len(point.shape))
            if part is not None and part.shape == point.shape:
                part[...] = value
                return
        places = tuple(point.select(i) for i in indices)
        values = point.select(value)
        if self.statement.op == "=":
            target[places] = values if places else values[-1]
        elif places:
            accumulator(self.statement.op, self.statement.target.dtype).at(target, places, values)
        else:
            self._combine(target, (), values)

    def _combine(self, target: Array, places: tuple[Array, ...], values: Array) -> None:
        ufunc = accumulator(self.statement.op, self.statement.target.dtype)
        target[places] = ufunc(target[places], ufunc.reduce(values, dtype=target.dtype))

    def _reduce(self, target: Array, point: Point, indices: tuple[Array, ...], value: Array) -> None:
        """Reduction axes folded first, then one update per element."""
        statement = self.statement
        names = {a.var.name for a in statement.reduce_axes}
        folded = tuple(n for n, a in enumerate(statement.axes) if a.var.name in names)
        ufunc = accumulator(statement.op, statement.target.dtype)
        full = np.broadcast_to(value, point.shape)
        if point.mask is not None:
            neutral = np.asarray(identity(statement.op, statement.target.dtype).value).astype(full.dtype)
            full = np.where(point.mask, full, neutral)
        partial = np.asarray(ufunc.reduce(full, axis=folded, keepdims=True, dtype=target.dtype))
        touched = point.mask
        if touched is not None:
            touched = np.asarray(np.broadcast_to(touched, point.shape).any(axis=folded, keepdims=True))
        places = tuple(_pick(i, partial.shape, touched) for i in indices)
        values = _pick(partial, partial.shape, touched)
        target[places] = ufunc(target[places], values if places else values.reshape(()))


def _pick(array: Array, shape: tuple[int, ...], mask: Array | None) -> Array:
    full = np.broadcast_to(array, shape)
    return full.reshape(-1) if mask is None else full[mask]


def infer_box(axes: Sequence[Axis], memory: dict[str, Array]) -> dict[str, range]:
    """For each axis the range that holds all its values, whatever the axes around it are."""
    box: dict[str, range] = {}
    outer: list[Axis] = []
    for axis in axes:
        point = Point.over(outer, box, memory, wide=False, masked=False)
        if point.size == 0:
            return {a.var.name: range(0) for a in axes}
        lo, hi = evaluate_expr(axis.lo, point), evaluate_expr(axis.hi, point)
        box[axis.var.name] = range(int(lo.min()), max(int(lo.min()), int(hi.max())))
        outer.append(axis)
    return box


def _split(whole: range, step: int) -> list[range]:
    return [whole[start : start + step] for start in range(0, len(whole), step)]
