"""Arithmetic on constants with exactly the meaning the program has at run time, which is the interpreter's."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from weft.ir import dtype as dt
from weft.ir.dtype import DType
from weft.ir.expr import Const, Expr, const
from weft.ir.interpret_scalar import binary_op, cast_op, compare_op, scalar_value, unary_op

#: Both sides are there, so nothing is left to be lazy about.
_EAGER = {"&&": "&", "||": "|"}


def fold_unary(op: str, c: Const) -> Const:
    return const(-c.value, c.type) if op == "-" else const(unary_op(op, c.type.scalar)(_value(c)), c.type)


def fold_binary(op: str, a: Const, b: Const) -> Const:
    rule = binary_op(_EAGER.get(op, op), a.type.scalar)
    if not a.type.is_float:
        return const(rule(a.value, b.value), a.type)
    with np.errstate(all="ignore"):
        return const(rule(_value(a), _value(b)), a.type)


def fold_compare(op: str, a: Const, b: Const) -> Const:
    return const(compare_op(op)(_value(a), _value(b)), dt.bool_.with_lanes(a.type.lanes))


def fold_cast(t: DType, c: Const) -> Const:
    return const(cast_op(c.type, t)(_value(c)), t)


def _value(c: Const) -> Any:
    """The value at run time: a float constant is rounded to its type."""
    return scalar_value(c.type.scalar, c.value) if c.type.is_float else c.value


def drop_neutral(op: str, left: Expr, right: Expr) -> Expr | None:
    """``left op right`` where one side is neutral or decides alone; exact for every value, -0.0 and NaN included."""
    for one, other, is_right in ((right, left, True), (left, right, False)):
        if not isinstance(one, Const):
            continue
        value, t = _value(one), one.type
        if t.is_float:
            neutral = (op == "*" and value == 1.0) or (is_right and op == "/" and value == 1.0)
            zero = value == 0 and math.copysign(1, value)
            if neutral or (op == "+" and zero == -1) or (is_right and op == "-" and zero == 1):
                return other
        elif value == 0 and (op in ("|", "^") or (is_right and op in ("<<", ">>", "+", "-"))):
            return other
        elif value == 0 and op == "&":
            return one
        elif t.is_bool and value == 1 and op in ("&", "|"):
            return other if op == "&" else one
    return None
