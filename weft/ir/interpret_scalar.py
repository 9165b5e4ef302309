"""What every operator means on single values: the arithmetic of the interpreter.

A value is a Python int or bool, or a numpy scalar of the type a float computes in
(float32 for float16 and bfloat16, whose results are rounded to what they can hold).
Each function here takes an operator and a type and returns the Python function to call.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from math import copysign
from typing import Any, TypeAlias

import numpy as np

from weft.ir.dtype import DType
from weft.ir.errors import ProgramError
from weft.ir.intrinsics import INTRINSICS, REINTERPRET
from weft.ir.numpy_dtypes import convert, to_numpy
from weft.ir.span import Span

Value: TypeAlias = Any
Function1: TypeAlias = Callable[[Any], Any]
Function2: TypeAlias = Callable[[Any, Any], Any]

_COMPARISONS: dict[str, Function2] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_FLOAT_OPS: dict[str, Function2] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    # A NaN compares false with everything, so each side is asked for it; -0 is less than 0.
    "min": lambda a, b: a if a < b or a != a or (a == b and copysign(1, a) < 0) else b,
    "max": lambda a, b: a if a > b or a != a or (a == b and copysign(1, a) > 0) else b,
}
_BITWISE: dict[str, Function2] = {"&": operator.and_, "|": operator.or_, "^": operator.xor}


def scalar_value(dtype: DType, value: Any) -> Value:
    """``value``, a number of any kind, as the interpreter holds it."""
    if dtype.is_bool:
        return bool(value)
    if dtype.is_integer:
        return wrap(dtype)(int(value))
    return _rounding(dtype)(np.float64(value))


@functools.cache
def wrap(dtype: DType) -> Function1:
    """Brings any Python integer into the range of ``dtype``, modulo 2**bits."""
    mask, half = (1 << dtype.bits) - 1, 1 << (dtype.bits - 1)
    if dtype.is_signed:
        return lambda v: ((v + half) & mask) - half
    return lambda v: v & mask


@functools.cache
def _rounding(dtype: DType) -> Function1:
    """From a wider or equal float to ``dtype``."""
    if dtype.bits == 64:
        return np.float64
    if dtype.bits == 32:
        return np.float32
    if dtype.kind == "float":
        return lambda v: np.float32(np.float16(v))
    return lambda v: np.float32(convert(np.asarray(v), dtype))


@functools.cache
def unary_op(op: str, dtype: DType) -> Function1:
    if op == "!":
        return operator.not_
    if dtype.is_float:
        return operator.neg
    fix = wrap(dtype)
    return (lambda v: fix(-v)) if op == "-" else (lambda v: fix(~v))


@functools.cache
def compare_op(op: str) -> Function2:
    test = _COMPARISONS[op]
    return lambda a, b: bool(test(a, b))


@functools.cache
def binary_op(op: str, dtype: DType) -> Function2:
    """The meaning of ``op``; the lazy ``&&`` and ``||`` are evaluated where their operands are."""
    found: Function2 | None
    if dtype.is_float:
        found = _float_op(op, dtype)
    elif dtype.is_bool:
        found = {"min": operator.and_, "max": operator.or_, **_BITWISE}.get(op)
    else:
        found = _integer_op(op, dtype)
    if found is None:
        raise ProgramError(f"`{op}` has no meaning for {dtype}")
    return found


def _float_op(op: str, dtype: DType) -> Function2 | None:
    exact = _FLOAT_OPS.get(op)
    if exact is None or not dtype.is_narrow_float or op in ("min", "max"):
        return exact
    fn, fix = exact, _rounding(dtype)
    return lambda a, b: fix(fn(a, b))


def _integer_op(op: str, dtype: DType) -> Function2 | None:
    fix, bits = wrap(dtype), dtype.bits
    table: dict[str, Function2] = {
        "+": lambda a, b: fix(a + b),
        "-": lambda a, b: fix(a - b),
        "*": lambda a, b: fix(a * b),
        "//": lambda a, b: fix(a // b) if b else 0,
        "%": lambda a, b: a % b if b else 0,
        "tdiv": lambda a, b: fix(_truncating(a, b)) if b else 0,
        "tmod": lambda a, b: a - b * _truncating(a, b) if b else 0,
        "min": min,
        "max": max,
        "<<": lambda a, b: fix(a << b) if 0 <= b < bits else 0,
        ">>": lambda a, b: a >> b if 0 <= b < bits else -1 if a < 0 else 0,
        **_BITWISE,
    }
    return table.get(op)


def _truncating(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


@functools.cache
def cast_op(source: DType, target: DType) -> Function1:
    """Wraps between integers, saturates from float to integer (NaN gives 0), rounds to nearest even."""
    source, target = source.scalar, target.scalar
    if source == target:
        return lambda v: v
    if target.is_bool:
        return lambda v: bool(v != 0)
    if target.is_integer:
        return _saturating(target) if source.is_float else wrap(target) if source.is_integer else int
    if source.is_float:
        return _rounding(target)
    exact, holder = to_numpy(source), np.float32 if target.is_narrow_float else to_numpy(target).type
    return lambda v: holder(convert(np.asarray(v, exact), target))


def _saturating(target: DType) -> Function1:
    low, high = target.min_value, target.max_value

    def saturate(v: Any) -> int:
        value = float(v)
        if value != value:
            return 0
        # Python compares a float with an integer exactly.
        return high if value >= high else low if value <= low else int(value)

    return saturate


def call_op(name: str, argument: DType, result: DType, span: Span | None = None) -> Callable[..., Any]:
    """The intrinsic ``name`` on values of type ``argument``."""
    if name == REINTERPRET:
        return _reinterpreting(argument.scalar, result.scalar)
    entry = INTRINSICS.get(name)
    if entry is None:
        raise ProgramError(f"unknown function `{name}`", span=span, help="known are " + ", ".join(sorted(INTRINSICS)))
    evaluate = entry.evaluate
    if argument.is_float:
        back: Function1 = bool if result.is_bool else _rounding(result.scalar)
        return lambda *args: back(evaluate(*args))
    typed = to_numpy(argument.scalar).type
    unpack: Function1 = bool if result.is_bool else int
    return lambda *args: unpack(evaluate(*(typed(a) for a in args)))


def _reinterpreting(source: DType, target: DType) -> Function1:
    """The bits of a value as one of another type of the same size."""
    given, made = to_numpy(source), to_numpy(target)
    unpack: Function1 = (np.float32 if target.is_narrow_float else made.type) if target.is_float else int
    return lambda v: unpack(np.asarray(v, given).view(made)[()])
