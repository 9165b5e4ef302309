"""Integer expressions of many threads at once, as numpy computes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from weft.ir.dtype import DType
from weft.ir.expr import Binary, Cast, Compare, Expr, Unary

Ints = npt.NDArray[np.int64]


def _divided(a: Ints, b: Ints) -> Ints:
    """Rounded to minus infinity; 0 where it is by 0."""
    return np.where(b == 0, 0, a // np.where(b == 0, 1, b))


def _rest(a: Ints, b: Ints) -> Ints:
    return np.where(b == 0, 0, a % np.where(b == 0, 1, b))


def _truncated(a: Ints, b: Ints) -> Ints:
    return np.sign(a) * np.sign(b) * _divided(np.abs(a), np.abs(b))


_COMPUTE: dict[str, Callable[[Any, Any], Any]] = {
    "+": np.add, "-": np.subtract, "*": np.multiply, "min": np.minimum, "max": np.maximum, "&": np.bitwise_and,
    "|": np.bitwise_or, "^": np.bitwise_xor, "&&": np.logical_and, "||": np.logical_or, "//": _divided, "%": _rest,
    "tdiv": _truncated, "tmod": lambda a, b: np.where(b == 0, 0, a - _truncated(a, b) * b),
    "==": np.equal, "!=": np.not_equal, "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal,
}  # fmt: skip
#: Distances of shifts that are the same however wide the number is.
_SHORT = 31


def compute(e: Expr, operands: Sequence[Ints]) -> Ints | None:
    """What ``e`` is for each thread, given what its operands are; None where that is not computed here."""
    if not all(_is_followed(n.dtype) for n in (e, *_operands(e))):
        return None
    match e:
        case Cast():
            return _wrapped(operands[0], e.dtype)
        case Unary(op="!"):
            return 1 - operands[0]
        case Unary():
            return _wrapped(-operands[0] if e.op == "-" else ~operands[0], e.dtype)
        case Binary(op="<<" | ">>"):
            if (operands[1] < 0).any() or (operands[1] > _SHORT).any():
                return None
            shift = np.left_shift if e.op == "<<" else np.right_shift
            return _wrapped(shift(operands[0], operands[1]), e.dtype)
        case Binary() | Compare():
            return _wrapped(_COMPUTE[e.op](*operands).astype(np.int64), e.dtype)
    return None


def _operands(e: Expr) -> tuple[Expr, ...]:
    if isinstance(e, (Cast, Unary)):
        return (e.operand,)
    return (e.left, e.right) if isinstance(e, (Binary, Compare)) else ()


def _is_followed(t: DType) -> bool:
    return t.lanes == 1 and (t.is_bool or (t.is_integer and (t.bits < 64 or t.kind == "int")))


def _wrapped(numbers: Ints, t: DType) -> Ints:
    if t.is_bool:
        return np.not_equal(numbers, 0).astype(np.int64)
    if t.bits == 64:
        return numbers
    wrapped: Ints = (numbers - int(t.min_value)) % (1 << t.bits) + int(t.min_value)
    return wrapped
