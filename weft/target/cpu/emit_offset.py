"""How far from the start of a buffer an access goes, in elements.

With strides that are numbers, subscripts are added up once for all copies that unrolling makes of an access, as
multiples of variables; for each copy, variables that have become numbers are then only added up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from weft.ir.affine import ordered
from weft.ir.buffer import Buffer
from weft.ir.expr import Binary, Broadcast, Const, Expr, Load, Ramp, Unary, Var
from weft.ir.offsets import joined_offset, linear_offset
from weft.target.cpu.builder import Value, constant
from weft.target.cpu.emit_context import I64, ZERO, Function, add, fit, lane_numbers, literal, literal_of, multiply

EmitExpr = Callable[[Function, Expr], Value]


@dataclass(frozen=True, slots=True)
class Linear:
    """``base + plus + step * lane`` for ``lanes`` lanes, ``base`` a scalar i64."""

    base: Value
    step: int
    lanes: int = 1
    plus: int = 0


class Sum(NamedTuple):
    """A sum of multiples, ``plus``, and ``step`` times the lane number of ``lanes`` written lanes."""

    terms: list[tuple[Expr, int]]
    plus: int
    step: int = 0
    lanes: int = 1


def scalar(value: Value) -> Linear:
    """One value for all lanes."""
    number = literal_of(value)
    return Linear(value, 0) if number is None else Linear(ZERO, 0, 1, number)


def emit_offset(f: Function, buffer: Buffer, indices: tuple[Expr, ...], emit: EmitExpr) -> Linear | Value:
    """The offset of ``buffer[indices]``."""
    offset = offset_sum(f, buffer, indices)
    return _emit_dimensions(f, buffer, indices, emit) if offset is None else _emit_sum(f, offset, emit)


def offset_sum(f: Function, buffer: Buffer, indices: tuple[Expr, ...]) -> Sum | None:
    """The offset of ``buffer[indices]`` as one sum, where it is one; added up once for all copies of an access."""
    key = (id(buffer), id(indices))
    kept = f.program.offsets.get(key)
    if kept is None:
        kept = f.program.offsets[key] = (buffer, indices, _add_up(buffer, indices))
    total = kept[2]
    return total if isinstance(total, Sum) else None


def _add_up(buffer: Buffer, indices: tuple[Expr, ...]) -> Sum | None:
    """The offset as one sum; None where a stride is not a number, or vectors of any values are among the subscripts."""
    bases, step, lanes = list(indices), 0, 1
    for d, (index, stride) in enumerate(zip(indices, buffer.element_strides())):
        if isinstance(index, Ramp) and isinstance(index.stride, Const) and isinstance(stride, Const):
            bases[d], lanes = index.base, index.lanes
            step += int(index.stride.value) * int(stride.value)
        elif isinstance(index, Broadcast):
            bases[d], lanes = index.value, index.lanes
        elif index.dtype.lanes > 1:
            return None
    total = linear_offset(buffer, tuple(bases))
    return None if total is None else Sum(ordered(total.terms.items()), total.constant, step, lanes)


def _emit_sum(f: Function, total: Sum, emit: EmitExpr) -> Linear | Value:
    base, step, lanes, plus = ZERO, total.step, total.lanes, total.plus
    vectors: list[tuple[Value, int]] = []
    for e, factor in total.terms:
        if isinstance(e, Var) and e.name == f.lane:
            step, lanes = step + factor, f.lanes
            continue
        value = emit(f, e)
        if value.type != I64:
            vectors.append((value, factor))
        elif (number := literal_of(value)) is not None:
            plus += number * factor
        else:
            scaled = value if factor == 1 else f.b.mul(value, literal(factor))
            base = scaled if base is ZERO else f.b.add(base, scaled)
    result: Linear | Value = Linear(base, step, lanes, plus)
    for value, factor in vectors:
        result = _sum(f, result, _scale(f, value, literal(factor)))
    return result


def _emit_dimensions(f: Function, buffer: Buffer, indices: tuple[Expr, ...], emit: EmitExpr) -> Linear | Value:
    joined = joined_offset(buffer, indices)
    total: Linear | Value = Linear(ZERO, 0) if joined is None else emit_linear(f, joined, emit)
    for index, stride in zip(indices, buffer.element_strides()):
        if joined is not None and index.dtype.lanes == 1:
            continue
        scale = emit(f, stride)
        total = _sum(f, total, _scale(f, emit_linear(f, index, emit), scale))
    return total


def emit_linear(f: Function, e: Expr, emit: EmitExpr) -> Linear | Value:
    """``e`` as a linear form of the lane number, or as a vector of any values."""
    match e:
        case Var(name=name) if name == f.lane:
            return Linear(ZERO, 1, f.lanes)
        case Const(value=number):
            return Linear(ZERO, 0, 1, int(number))
        case Ramp(base=base, stride=Const(value=step), lanes=lanes):
            start = scalar(emit(f, base))
            return Linear(start.base, int(step), lanes, start.plus)
        case Broadcast(value=value, lanes=lanes):
            start = scalar(emit(f, value))
            return Linear(start.base, 0, lanes, start.plus)
        case Binary(op="+", left=left, right=right) if has_lanes(f, e):
            return _sum(f, emit_linear(f, left, emit), emit_linear(f, right, emit))
        case Binary(op="-", left=left, right=right) if has_lanes(f, e):
            negated = _scale(f, emit_linear(f, right, emit), Value("-1", I64))
            return _sum(f, emit_linear(f, left, emit), negated)
        case Binary(op="*", left=left, right=Const(value=factor)) if has_lanes(f, e):
            return _scale(f, emit_linear(f, left, emit), Value(str(int(factor)), I64))
        case Binary(op="*", left=Const(value=factor), right=right) if has_lanes(f, e):
            return _scale(f, emit_linear(f, right, emit), Value(str(int(factor)), I64))
        case Unary(op="-", operand=operand) if has_lanes(f, e):
            return _scale(f, emit_linear(f, operand, emit), Value("-1", I64))
    plain = emit(f, e)
    return scalar(plain) if plain.lanes == 1 else plain


def has_lanes(f: Function, e: Expr) -> bool:
    """Whether ``e`` may differ between lanes."""
    if f.lane is None:
        return e.dtype.lanes > 1
    match e:
        case Const():
            return False
        case Var(name=name):
            kept = f.names.get(name)
            return name == f.lane or (kept is not None and kept.type.startswith("<"))
        case Load(buffer=buffer, indices=indices):
            return f.memory(buffer).lanes > 1 or any(has_lanes(f, i) for i in indices)
        case Binary(left=left, right=right):
            return has_lanes(f, left) or has_lanes(f, right)
        case Unary(operand=operand):
            return has_lanes(f, operand)
    return True


def as_vector(f: Function, offset: Linear | Value, lanes: int) -> Value:
    if isinstance(offset, Value):
        return fit(f, offset, lanes)
    base = f.b.splat(add(f, offset.base, literal(offset.plus)), lanes)
    if offset.step == 0:
        return base
    steps = f.b.mul(lane_numbers(lanes), constant(base.type, offset.step))
    return f.b.add(base, steps)


def _sum(f: Function, a: Linear | Value, b: Linear | Value) -> Linear | Value:
    if isinstance(a, Linear) and isinstance(b, Linear):
        return Linear(add(f, a.base, b.base), a.step + b.step, max(a.lanes, b.lanes), a.plus + b.plus)
    lanes = max(a.lanes, b.lanes)
    return f.b.add(as_vector(f, a, lanes), as_vector(f, b, lanes))


def _scale(f: Function, a: Linear | Value, factor: Value) -> Linear | Value:
    number = literal_of(factor)
    if isinstance(a, Linear) and number is not None:
        return Linear(multiply(f, a.base, factor), a.step * number, a.lanes, a.plus * number)
    if isinstance(a, Linear) and a.step == 0:
        return Linear(multiply(f, add(f, a.base, literal(a.plus)), factor), 0, a.lanes)
    vector_a = as_vector(f, a, a.lanes)
    return f.b.mul(vector_a, f.b.splat(factor, vector_a.lanes))
