"""Conversions moved inwards, to where they cost nothing: ``float32(c ? x : 0.0)`` is ``c ? float32(x) : 0.0``. Exact.

What reads a narrow tensor then reads it and converts, whatever is done around the two: a guarded element stays an
element of a product that tensor cores take.
"""

from __future__ import annotations

from weft.ir.dtype import DType
from weft.ir.expr import Binary, Cast, Const, Expr, Select, Unary, cast, const
from weft.ir.visit import Node, rewrite


def push_conversions(value: Expr) -> Expr:
    """Every conversion in ``value`` as far inside as it means the same."""
    return rewrite(value, _moved)


def _moved(node: Node) -> Expr | None:
    return converted(node.type, node.operand) if isinstance(node, Cast) else None


def converted(t: DType, x: Expr) -> Expr:
    """``x`` as a ``t``, where no rounding depends on the place of the conversion; what is inside is in this form."""
    if isinstance(x, Cast) and holds(x.type, x.operand.dtype) and (x.operand.dtype == t or holds(t, x.type)):
        return cast(t, x.operand)
    if x.dtype == t or not holds(t, x.dtype) or not x.dtype.is_float:
        return cast(t, x)
    match x:
        case Const(value=value):
            return const(value, t)
        case Select(condition=condition, then=then, otherwise=otherwise):
            return Select(condition, converted(t, then), converted(t, otherwise), span=x.span)
        case Unary(op="-", operand=operand):
            return Unary("-", converted(t, operand), span=x.span)
        case Binary(op="min" | "max" as op, left=left, right=right):
            return Binary(op, converted(t, left), converted(t, right), span=x.span)
    return Cast(t, x, span=x.span)


def holds(wide: DType, narrow: DType) -> bool:
    """Whether every number of ``narrow`` is one of ``wide``; float16 and bfloat16 do not hold each other."""
    if not wide.is_float:
        return False
    if not narrow.is_float:
        return narrow.is_bool or narrow.bits - narrow.is_signed <= wide.shape.digits + 1
    a, b = wide.shape, narrow.shape
    return a.digits >= b.digits and a.largest >= b.largest and a.least - a.digits <= b.least - b.digits
