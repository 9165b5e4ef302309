"""What a tensor program costs at least: arithmetic operations, and bytes that must move.

Operations are those of the values computed, whatever their element type; subscripts and
ranges are not counted, comparisons and casts are free, and of a select the dearer side
counts. Bytes count each element of an input read, or output written, once; temporaries
are free, since a good schedule keeps them near.

>>> infer_cost(specialize(matmul, {"M": 2, "N": 3, "K": 4}))
Cost(flops=48, bytes_read=80, bytes_written=24)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from weft.ir.errors import InternalError
from weft.ir.expr import Axis, Binary, Call, Cast, Compare, Const, Expr, Select, Unary
from weft.ir.intrinsics import INTRINSICS, REINTERPRET
from weft.ir.simplify import simplify
from weft.ir.visit import free_vars
from weft.tensor.evaluate import infer_box
from weft.tensor.evaluate_expr import Point, evaluate_expr
from weft.tensor.footprint import count_touched
from weft.tensor.normalize import normalize
from weft.tensor.program import TensorProgram


@dataclass(frozen=True, slots=True)
class Cost:
    flops: int
    bytes_read: int
    bytes_written: int

    @property
    def intensity(self) -> float:
        """Operations per byte moved."""
        return self.flops / max(1, self.bytes_read + self.bytes_written)


def infer_cost(program: TensorProgram) -> Cost:
    """The exact cost of a specialized program; data-dependent subscripts count as all different."""
    if program.sizes or program.constants:
        raise InternalError("the cost in numbers is that of a specialized program")
    program = normalize(program)
    flops = sum(count_operations(s.value, s.op != "=") * count_points(s.all_axes) for s in program.statements)
    carried = [b for b in program.outputs if b.name in program.carried]
    read = sum(b.dtype.itemsize * count_touched(program, b, writes=False) for b in (*program.inputs, *carried))
    written = sum(b.dtype.itemsize * count_touched(program, b, writes=True) for b in program.outputs)
    return Cost(flops, read, written)


def count_operations(value: Expr, accumulates: bool = False) -> int:
    """Operations at one point."""
    return _operations(value) + accumulates


def _operations(e: Expr) -> int:
    match e:
        case Binary(op="&&" | "||", left=left, right=right) | Compare(left=left, right=right):
            return _operations(left) + _operations(right)
        case Binary(left=left, right=right):
            return 1 + _operations(left) + _operations(right)
        case Unary(op=op, operand=operand):
            return (op != "!") + _operations(operand)
        case Cast(operand=operand):
            return _operations(operand)
        case Select(condition=condition, then=then, otherwise=otherwise):
            return _operations(condition) + max(_operations(then), _operations(otherwise))
        case Call(name=name, args=args):
            own = 0 if name == REINTERPRET else INTRINSICS[name].flops
            return own + sum(map(_operations, args))
    return 0


def count_points(axes: Sequence[Axis]) -> int:
    """How many points the axes have; ranges may depend on other axes, sizes are constants."""
    plain, dependent = _split_dependent(axes)
    count = math.prod(_constant_extent(a) for a in plain)
    if not dependent or not count:
        return count
    *outer, last = dependent
    point = Point.over(outer, infer_box(outer, {}), {}, wide=False)
    if point.size == 0:
        return 0
    length = (evaluate_expr(last.hi, point) - evaluate_expr(last.lo, point)).clip(0)
    return count * int(point.select(length).sum())


def _split_dependent(axes: Sequence[Axis]) -> tuple[list[Axis], list[Axis]]:
    """Axes that stand alone, and those whose ranges depend on one another, in order."""
    names = {a.var.name for a in axes}
    uses = {a.var.name: names & {*free_vars(a.lo), *free_vars(a.hi)} for a in axes}
    used = {n for mentioned in uses.values() for n in mentioned}
    plain = [a for a in axes if not uses[a.var.name] and a.var.name not in used]
    return plain, [a for a in axes if a not in plain]


def _constant_extent(axis: Axis) -> int:
    extent = simplify(axis.hi - axis.lo)
    if not isinstance(extent, Const):
        raise InternalError(f"the range of {axis.var.name} is not constant")
    return max(0, int(extent.value))
