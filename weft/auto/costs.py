"""What computing a formula at one point costs, in the length of a multiplication."""

from __future__ import annotations

from weft.auto.estimate_values import CALL_COST, DIVISION, INTEGER_DIVISION
from weft.ir import dtype as dt
from weft.ir.expr import Binary, Call, Cast, Compare, Const, Expr, Load, Select, Unary, Var
from weft.ir.intrinsics import INTRINSICS
from weft.ir.visit import Node, children


def point_cost(e: Expr) -> float:
    """Subscripts and tests of them are free, as are casts and what is the same everywhere.

    Both sides of a select are computed.
    """
    return _cost(e) or 0.0


def _cost(e: Node) -> float | None:
    """None where ``e`` has one value, known when compiling."""
    if not isinstance(e, Expr) or isinstance(e, (Load, Var)):
        return 0.0
    parts = [_cost(n) for n in children(e)]
    if all(cost is None for cost in parts):
        return None
    own = None if e.dtype == dt.index else _own_cost(e)
    return 0.0 if own is None else sum((cost or 0.0 for cost in parts), own)


def _own_cost(e: Expr) -> float | None:
    """What ``e`` adds to its operands; None where nothing in it counts."""
    match e:
        case Binary(op="&&" | "||") | Cast():
            return 0.0
        case Binary(op=op, right=right):
            return _binary_cost(op, right, e.dtype.is_float)
        case Compare(left=left):
            return None if left.dtype == dt.index else 1.0
        case Unary() | Select():
            return 1.0
        case Call(name=name):
            return float(CALL_COST[name] if name in CALL_COST else INTRINSICS[name].flops)
    return None


def _binary_cost(op: str, right: Expr, is_float: bool) -> float:
    if op not in ("/", "//", "%") or isinstance(right, Const):  # by a constant: a multiplication
        return 1.0
    return DIVISION if is_float else INTEGER_DIVISION
