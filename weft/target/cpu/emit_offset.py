"""How far from the start of a buffer an access goes, in elements.

Subscripts are added up once for all copies that unrolling makes of an access, as multiples of variables; for each copy,
variables that have become numbers are then only added up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from weft.ir import affine
from weft.ir.buffer import Buffer
from weft.ir.divide import merge_quotients
from weft.ir.expr import Binary, Broadcast, Const, Expr, Ramp, Var
from weft.target.cpu.emit_context import I64, ZERO, Function, add, fit, lane_numbers, literal, literal_of
from weft.target.cpu.llvm_values import Value, constant

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


def emit_offset(f: Function, buffer: Buffer, indices: tuple[Expr, ...], emit: EmitExpr) -> Linear | Value:
    """The offset of ``buffer[indices]``."""
    return _emit_sum(f, offset_sum(f, buffer, indices), emit)


def offset_sum(f: Function, buffer: Buffer, indices: tuple[Expr, ...]) -> Sum:
    """The offset of ``buffer[indices]`` as one sum, added up once for all copies of an access."""
    key = (id(buffer), id(indices))
    kept = f.program.offsets.get(key)
    if kept is None:
        kept = f.program.offsets[key] = (buffer, indices, _add_up(buffer, indices))
    total = kept[2]
    assert isinstance(total, Sum)
    return total


def _add_up(buffer: Buffer, indices: tuple[Expr, ...]) -> Sum:
    """Written lanes apart; where a stride is not a number, its subscript is scaled as a whole."""
    total, step, lanes = affine.Linear(), 0, 1
    for index, stride in zip(indices, buffer.element_strides()):
        if isinstance(index, Ramp) and isinstance(index.stride, Const) and isinstance(stride, Const):
            step += int(index.stride.value) * int(stride.value)
            lanes, index = index.lanes, index.base
        elif isinstance(index, Broadcast):
            lanes, index = index.lanes, index.value
        if isinstance(stride, Const):
            plain = affine.Linear({index: 1}) if index.dtype.lanes > 1 else affine.linear_form(index)
            total.add(plain, int(stride.value))
        else:
            wide = Broadcast(stride, index.dtype.lanes) if index.dtype.lanes > 1 else stride
            total.add(affine.Linear({Binary("*", index, wide): 1}))
    whole = merge_quotients(total)
    return Sum(affine.ordered(whole.terms.items()), whole.constant, step, lanes)


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
        scaled = f.b.mul(value, f.b.splat(literal(factor), value.lanes))
        result = f.b.add(as_vector(f, result, value.lanes), scaled)
    return result


def as_vector(f: Function, offset: Linear | Value, lanes: int) -> Value:
    if isinstance(offset, Value):
        return fit(f, offset, lanes)
    base = f.b.splat(add(f, offset.base, literal(offset.plus)), lanes)
    if offset.step == 0:
        return base
    steps = f.b.mul(lane_numbers(lanes), constant(base.type, offset.step))
    return f.b.add(base, steps)
