"""Arithmetic on constants with exactly the meaning the program has at run time.

Each function gives the constant, or None where the value is better left to the target.
"""

from __future__ import annotations

import math
import operator
import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from weft.ir import dtype as dt
from weft.ir.dtype import DType
from weft.ir.expr import Const, Expr, const


def fold_unary(op: str, c: Const) -> Const | None:
    if op == "!":
        return Const(not c.value, c.type)
    if op == "~":
        return const(~int(c.value), c.type)
    return const(-c.value, c.type)


def fold_binary(op: str, a: Const, b: Const) -> Const | None:
    t = a.type
    if t.is_float:
        return _fold_float(op, a, b)
    if t.is_bool:
        rule = _BOOL[op]
        return Const(bool(rule(a.value, b.value)), t)
    return const(_INTEGER[op](int(a.value), int(b.value), t), t)


def fold_compare(op: str, a: Const, b: Const) -> Const | None:
    x, y = number(a), number(b)
    if x is None or y is None:
        return None
    return Const(bool(_COMPARE[op](x, y)), dt.bool_.with_lanes(a.type.lanes))


def fold_cast(t: DType, c: Const) -> Const | None:
    value = number(c)
    if value is None:
        return None
    if t.is_bool:
        return Const(bool(value != 0), t)
    if t.is_integer:
        return const(_saturated(value, t) if c.type.is_float else int(value), t)
    if abs(value) > 2**53 and not c.type.is_float:
        return None  # float() would round once and the narrower type a second time
    rounded = round_float(float(value), t)
    return None if rounded is None else Const(rounded, t)


def drop_neutral(op: str, left: Expr, right: Expr) -> Expr | None:
    """``left op right`` where one side is neutral or decides alone; exact for every value, -0.0 and NaN included."""
    for one, other, is_right in ((right, left, True), (left, right, False)):
        if not isinstance(one, Const):
            continue
        value, t = number(one), one.type
        if value is None:
            return None
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


def number(c: Const) -> int | float | None:
    """The value at run time: a float constant is rounded to its type."""
    return round_float(float(c.value), c.type) if c.type.is_float else int(c.value)


def round_float(value: float, t: DType) -> float | None:
    """``value`` rounded to the nearest of type ``t``; None where that would take two roundings."""
    if t.kind == "bfloat":
        return _round_bfloat16(value)
    if t.bits == 64 or math.isnan(value) or math.isinf(value):
        return value
    with np.errstate(over="ignore"):
        return float(np.float32(value) if t.bits == 32 else np.float16(value))


def _round_bfloat16(value: float) -> float | None:
    if math.isnan(value) or math.isinf(value):
        return value
    if round_float(value, dt.float32) != value:
        return None
    bits = struct.unpack("<I", struct.pack("<f", value))[0]
    bits = (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000
    return float(struct.unpack("<f", struct.pack("<I", bits))[0])


def _saturated(value: float, t: DType) -> int:
    if math.isnan(value):
        return 0
    if math.isinf(value):
        return t.max_value if value > 0 else t.min_value
    return min(max(int(value), t.min_value), t.max_value)


def _fold_float(op: str, a: Const, b: Const) -> Const | None:
    x, y = number(a), number(b)
    if x is None or y is None:
        return None
    wide = np.float64 if a.type.bits == 64 else np.float32
    with np.errstate(all="ignore"):
        value = round_float(float(_FLOAT[op](wide(x), wide(y))), a.type)
    return None if value is None else Const(value, a.type)


def _floor_divide(a: int, b: int, t: DType) -> int:
    return a // b if b else 0


def _floor_modulo(a: int, b: int, t: DType) -> int:
    return a % b if b else 0


def _truncated(a: int, b: int, t: DType) -> int:
    quotient = abs(a) // abs(b) if b else 0
    return quotient if (a < 0) == (b < 0) else -quotient


def _truncated_modulo(a: int, b: int, t: DType) -> int:
    return a - b * _truncated(a, b, t) if b else 0


def _shift_left(a: int, b: int, t: DType) -> int:
    return a << b if 0 <= b < t.bits else 0


def _shift_right(a: int, b: int, t: DType) -> int:
    return a >> (b if 0 <= b < t.bits else t.bits)


_INTEGER: dict[str, Callable[[int, int, DType], int]] = {
    "+": lambda a, b, t: a + b,
    "-": lambda a, b, t: a - b,
    "*": lambda a, b, t: a * b,
    "//": _floor_divide,
    "%": _floor_modulo,
    "tdiv": _truncated,
    "tmod": _truncated_modulo,
    "min": lambda a, b, t: min(a, b),
    "max": lambda a, b, t: max(a, b),
    "&": lambda a, b, t: a & b,
    "|": lambda a, b, t: a | b,
    "^": lambda a, b, t: a ^ b,
    "<<": _shift_left,
    ">>": _shift_right,
}

_BOOL: dict[str, Callable[[Any, Any], Any]] = {
    "&&": operator.and_, "&": operator.and_, "min": operator.and_,
    "||": operator.or_, "|": operator.or_, "max": operator.or_, "^": operator.xor,
}  # fmt: skip

_FLOAT: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv,
    # Of two zeros the first, as the interpreter has it; a NaN compares false with everything.
    "min": lambda a, b: a if a <= b or a != a else b, "max": lambda a, b: a if a >= b or a != a else b,
}  # fmt: skip

_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
