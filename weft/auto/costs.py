"""What computing a formula at one point costs, in the length of a multiplication."""

from __future__ import annotations

from weft.auto.estimate_values import CALL_COST, DIVISION, INTEGER_DIVISION
from weft.ir import dtype as dt
from weft.ir.expr import Binary, Call, Cast, Compare, Const, Expr, Load, Select, Unary, Var
from weft.ir.intrinsics import INTRINSICS
from weft.ir.visit import walk


def point_cost(e: Expr) -> float:
    """Subscripts and tests of them are free, as are casts and what is the same everywhere.

    Both sides of a select are computed.
    """
    if e.dtype == dt.index or is_constant(e):
        return 0.0
    match e:
        case Load():
            return 0.0
        case Binary(op="&&" | "||", left=left, right=right):
            return point_cost(left) + point_cost(right)
        case Compare(left=left) if left.dtype == dt.index:
            return 0.0
        case Binary(op=op, left=left, right=right):
            return _binary_cost(op, right, e.dtype.is_float) + point_cost(left) + point_cost(right)
        case Compare(left=left, right=right):
            return 1 + point_cost(left) + point_cost(right)
        case Unary(operand=operand):
            return 1 + point_cost(operand)
        case Cast(operand=operand):
            return point_cost(operand)
        case Select(condition=condition, then=then, otherwise=otherwise):
            return 1 + point_cost(condition) + point_cost(then) + point_cost(otherwise)
        case Call(name=name, args=args):
            return CALL_COST.get(name, INTRINSICS[name].flops) + sum(map(point_cost, args))
    return 0.0


def is_constant(e: Expr) -> bool:
    """Whether ``e`` has one value, known when compiling."""
    return not any(isinstance(n, (Load, Var)) for n in walk(e))


def _binary_cost(op: str, right: Expr, is_float: bool) -> float:
    if op not in ("/", "//", "%") or isinstance(right, Const):  # by a constant: a multiplication
        return 1.0
    return DIVISION if is_float else INTEGER_DIVISION
