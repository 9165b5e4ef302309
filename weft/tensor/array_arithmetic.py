"""What each operator of an expression means on numpy arrays: the evaluator's arithmetic.

Written from the rules of `weft.ir.expr` and separately from the interpreter's scalar
arithmetic, so that each can be checked against the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from weft.ir.dtype import DType, float64
from weft.ir.errors import InternalError
from weft.ir.expr import Binary, Call, Cast, Compare, Const, Expr, Unary
from weft.ir.intrinsics import INTRINSICS, REINTERPRET
from weft.ir.numpy_dtypes import convert, to_numpy
from weft.tensor.extremes import MAXIMUM, MINIMUM, Extreme

Array = npt.NDArray[Any]


def _where_divisible(divide: Callable[[Array, Array], Array], a: Array, b: Array) -> Array:
    """``divide`` with 0 where the divisor is 0; dividing the least integer by -1 wraps."""
    a, b = np.broadcast_arrays(a, b)
    safe = np.where((b == 0) | ((b == -1) if b.dtype.kind == "i" else False), b.dtype.type(1), b)
    result = np.asarray(divide(a, safe))
    if b.dtype.kind == "i":
        # x / -1 is -x and x % -1 is 0: both follow from x / 1 and x % 1 by the sign of the divisor.
        result = np.where(b == -1, -result, result)
    return np.where(b == 0, b.dtype.type(0), result)


def _truncating_quotient(a: Array, b: Array) -> Array:
    if a.dtype.kind == "u":
        return np.asarray(a // b)
    quotient = a // b
    return np.asarray(quotient + ((a - quotient * b != 0) & (quotient < 0)).astype(a.dtype))


def _shift(a: Array, b: Array, *, left: bool) -> Array:
    bits = a.dtype.itemsize * 8
    outside = (b < 0) | (b >= bits) if b.dtype.kind == "i" else b >= bits
    amount = np.where(outside, b.dtype.type(0), b)
    if left:
        return np.where(outside, a.dtype.type(0), np.left_shift(a, amount))
    sign = np.right_shift(a, a.dtype.type(bits - 1)) if a.dtype.kind == "i" else np.zeros_like(a)
    return np.where(outside, sign, np.right_shift(a, amount))


BINARY: dict[str, Callable[[Array, Array], Array]] = {
    "+": lambda a, b: np.asarray(np.add(a, b)),
    "-": lambda a, b: np.asarray(np.subtract(a, b)),
    "*": lambda a, b: np.asarray(np.multiply(a, b)),
    "/": lambda a, b: np.asarray(np.divide(a, b)),
    "//": lambda a, b: _where_divisible(np.floor_divide, a, b),
    "%": lambda a, b: _where_divisible(np.remainder, a, b),
    "tdiv": lambda a, b: _where_divisible(_truncating_quotient, a, b),
    "tmod": lambda a, b: _where_divisible(np.fmod, a, b),
    "min": MINIMUM,
    "max": MAXIMUM,
    "&": lambda a, b: np.asarray(np.bitwise_and(a, b)),
    "|": lambda a, b: np.asarray(np.bitwise_or(a, b)),
    "^": lambda a, b: np.asarray(np.bitwise_xor(a, b)),
    "<<": lambda a, b: _shift(a, b, left=True),
    ">>": lambda a, b: _shift(a, b, left=False),
}

COMPARE: dict[str, Callable[[Array, Array], Array]] = {
    "==": lambda a, b: np.asarray(a == b),
    "!=": lambda a, b: np.asarray(a != b),
    "<": lambda a, b: np.asarray(a < b),
    "<=": lambda a, b: np.asarray(a <= b),
    ">": lambda a, b: np.asarray(a > b),
    ">=": lambda a, b: np.asarray(a >= b),
}

UNARY: dict[str, Callable[[Array], Array]] = {
    "-": lambda a: np.asarray(np.negative(a)),
    "!": lambda a: np.asarray(np.logical_not(a)),
    "~": lambda a: np.asarray(np.invert(a)),
}


_NUMERIC: dict[str, np.ufunc | Extreme] = {"+": np.add, "*": np.multiply, "min": MINIMUM, "max": MAXIMUM}
_LOGICAL: dict[str, np.ufunc | Extreme] = {
    **dict.fromkeys(("+", "max"), np.logical_or), **dict.fromkeys(("*", "min"), np.logical_and),
}  # fmt: skip


def accumulator(op: str, dtype: DType) -> np.ufunc | Extreme:
    """What an accumulation by ``op`` repeats; bools combine by or (+, max) and and (*, min)."""
    kept = (_LOGICAL if dtype.is_bool else _NUMERIC).get(op)
    if kept is None:
        raise InternalError(f"`{op}` does not accumulate")
    return kept


#: What `apply` knows.
OPERATIONS = (Const, Cast, Unary, Compare, Binary, Call)


def storage_type(dtype: DType, wide: bool) -> DType:
    return float64 if wide and dtype.is_float else dtype


def apply(e: Expr, operands: Sequence[Array], *, wide: bool = False) -> Array:
    """The value of a constant, or of an operation on these values of its operands; with ``wide`` floats are float64."""
    match e:
        case Const(value=value, type=dtype):
            exact = np.asarray(value, np.float64) if dtype.is_float else np.asarray(value, to_numpy(dtype))
            return convert(convert(exact, dtype), storage_type(dtype, wide))
        case Cast(type=dtype):
            return convert(operands[0], storage_type(dtype, wide))
        case Unary(op=op):
            return computed(e.dtype, UNARY[op], *operands, wide=wide)
        case Compare(op=op):
            return computed(e.dtype, COMPARE[op], *operands)
        case Binary(op=op):
            return computed(e.dtype, BINARY[op], *operands, wide=wide)
        case Call(name=name, type=dtype) if name == REINTERPRET:
            return np.ascontiguousarray(operands[0]).view(to_numpy(dtype))
        case Call(name=name) if name in INTRINSICS:
            return computed(e.dtype, INTRINSICS[name].evaluate, *operands, wide=wide)
    raise InternalError(f"a tensor program holds no {type(e).__name__}")


def computed(dtype: DType, fn: Callable[..., Any], *values: Array, wide: bool = False) -> Array:
    """``fn`` of the values; narrow floats are computed in float32 and the result is rounded to ``dtype``."""
    values = tuple(v if v.dtype.itemsize > 2 or v.dtype.kind in "biu" else v.astype(np.float32) for v in values)
    result = np.asarray(fn(*values))
    return convert(result, dtype) if dtype.is_narrow_float and not wide else result
