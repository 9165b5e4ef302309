"""One element in, one element out: functions of values, by the names that frameworks share."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from weft.graph.formulas.common import elementwise, shape, working_type
from weft.graph.graph import Shape
from weft.ir import dtype as dt
from weft.ir.dtype import DType
from weft.tensor import python_api as w
from weft.tensor.python_api import Tensor, Value, cast, compute
from weft.tensor.value import Operand, call, convert, lift

V = Value


def _number(x: Operand, like: Value) -> Value:
    """A Python number in the type of a value beside it."""
    return V(convert(lift(x), like.dtype))


def gelu(x: Value) -> Value:
    return x * 0.5 * (call("erf", x * math.sqrt(0.5)) + 1.0)


def gelu_tanh(x: Value) -> Value:
    inner = (x + x * x * x * 0.044715) * math.sqrt(2 / math.pi)
    return x * 0.5 * (call("tanh", inner) + 1.0)


def silu(x: Value) -> Value:
    return x * call("sigmoid", x)


def softplus(x: Value, beta: float = 1.0, threshold: float = 20.0) -> Value:
    scaled = x * beta
    return w.select(scaled > threshold, x, call("log1p", call("exp", scaled)) / beta)


def sign(x: Value) -> Value:
    zero = _number(0, x)
    return cast(x.dtype, cast("int32", x > zero) - cast("int32", x < zero))


def relu(x: Value) -> Value:
    return w.maximum(x, _number(0, x))


def clamp(x: Value, low: float | None = None, high: float | None = None) -> Value:
    x = x if low is None else w.maximum(x, _number(low, x))
    return x if high is None else w.minimum(x, _number(high, x))


def leaky_relu(x: Value, slope: float = 0.01) -> Value:
    return w.select(x > 0, x, x * slope)


def elu(x: Value, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> Value:
    return w.select(x > 0, x * scale, call("expm1", x * input_scale) * (alpha * scale))


def hard_sigmoid(x: Value, slope: float = 1 / 6, shift: float = 0.5) -> Value:
    return clamp(x * slope + shift, 0.0, 1.0)


def hard_swish(x: Value) -> Value:
    return x * clamp(x + 3.0, 0.0, 6.0) / 6.0


def mish(x: Value) -> Value:
    return x * call("tanh", softplus(x))


def softsign(x: Value) -> Value:
    return x / (abs(x) + 1.0)


def thresholded_relu(x: Value, threshold: float = 1.0) -> Value:
    return w.select(x > threshold, x, _number(0, x))


def power(x: Value, exponent: float) -> Value:
    """``x`` to a power that is known: small whole ones and roots are what frameworks make of them."""
    if exponent == 2:
        return x * x
    if exponent == 3:
        return x * x * x
    if exponent == 1:
        return x
    roots = {0.5: "sqrt", -0.5: "rsqrt"}
    return call(roots[exponent], x) if exponent in roots else call("pow", x, _number(exponent, x))


def reciprocal(x: Value) -> Value:
    return _number(1, x) / x


def remainder(a: Value, b: Value) -> Value:
    """With the sign of ``b``; exact for floats."""
    if not a.dtype.is_float:
        return a % b
    rest = call("fmod", a, b)
    return w.select(w.logical_and(rest != 0, (rest < 0) != (b < 0)), rest + b, rest)


def floor_divide(a: Value, b: Value) -> Value:
    return call("floor", a / b) if a.dtype.is_float else a // b


def truncate_divide(a: Value, b: Value) -> Value:
    if a.dtype.is_float:
        return call("trunc", a / b)
    whole = a // b
    return w.select(w.logical_and(whole < 0, whole * b != a), whole + 1, whole)


def truncate_remainder(a: Value, b: Value) -> Value:
    """With the sign of ``a``."""
    return call("fmod", a, b) if a.dtype.is_float else a - truncate_divide(a, b) * b


def divide(a: Value, b: Value) -> Value:
    return a / b


def _ignoring_nan(pick: Callable[[Value, Value], Value], a: Value, b: Value) -> Value:
    """The greater or the less, or the one that is a number."""
    if not a.dtype.is_float:
        return pick(a, b)
    return w.select(call("isnan", a), b, w.select(call("isnan", b), a, pick(a, b)))


def _intrinsic(name: str) -> Callable[..., Value]:
    return lambda *operands: call(name, *operands)


#: Functions of one float (integers become floats), by name; those of the table of intrinsics are among them.
FLOAT_UNARY: dict[str, Callable[..., Value]] = {
    "gelu": gelu, "gelu_tanh": gelu_tanh, "silu": silu, "softplus": softplus, "leaky_relu": leaky_relu, "elu": elu,
    "hard_sigmoid": hard_sigmoid, "hard_swish": hard_swish, "mish": mish, "power": power, "reciprocal": reciprocal,
    "softsign": softsign, "thresholded_relu": thresholded_relu,
    **{name: _intrinsic(name) for name in (
        "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos", "atan", "sinh",
        "cosh", "tanh", "asinh", "acosh", "atanh", "sigmoid", "erf", "erfc", "lgamma", "sqrt", "rsqrt",
    )},
}  # fmt: skip
#: Functions of one number that keep its type.
SAME_UNARY: dict[str, Callable[..., Value]] = {
    "neg": lambda x: -x, "abs": abs, "sign": sign, "relu": relu, "clamp": clamp, "square": lambda x: x * x,
    "power_of_integer": power, "identity": lambda x: x, "bitwise_not": lambda x: ~x,
}  # fmt: skip
#: Functions that keep floats as they are and leave integers alone.
ROUNDING: dict[str, str] = {"floor": "floor", "ceil": "ceil", "trunc": "trunc", "round": "rint"}
#: Functions of two numbers of one type.
BINARY: dict[str, Callable[[Value, Value], Value]] = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "div": divide,
    "maximum": w.maximum, "minimum": w.minimum, "remainder": remainder, "floor_divide": floor_divide,
    "truncate_divide": truncate_divide, "truncate_remainder": truncate_remainder,
    "bitwise_and": lambda a, b: a & b, "bitwise_or": lambda a, b: a | b,
    "bitwise_xor": lambda a, b: a ^ b, **{
        name: _intrinsic(name) for name in ("pow", "atan2", "fmod", "hypot", "copysign")
    },
}  # fmt: skip
BINARY |= {"fmax": lambda a, b: _ignoring_nan(w.maximum, a, b), "fmin": lambda a, b: _ignoring_nan(w.minimum, a, b)}
COMPARE: dict[str, Callable[[Value, Value], Value]] = {
    "eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "lt": lambda a, b: a < b, "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b,
}  # fmt: skip
LOGICAL: dict[str, Callable[[Value, Value], Value]] = {
    "logical_and": w.logical_and, "logical_or": w.logical_or,
    "logical_xor": lambda a, b: w.logical_not(a) != w.logical_not(b),
}  # fmt: skip


def unary(x: Tensor, name: str, dtype: DType, *args: Any) -> Tensor:
    """A function of one float by its name, with a result of type ``dtype``."""
    return elementwise(lambda v: FLOAT_UNARY[name](cast(working_type(dtype), v), *args), x, dtype=dtype)


def same(x: Tensor, name: str, *args: Any) -> Tensor:
    """A function of one number that keeps its type."""
    return elementwise(lambda v: SAME_UNARY[name](cast(working_type(x.dtype), v), *args), x, dtype=x.dtype)


def rounded(x: Tensor, name: str) -> Tensor:
    if not x.dtype.is_float:
        return same(x, "identity")
    return elementwise(lambda v: call(ROUNDING[name], v), x, dtype=x.dtype)


def test(x: Tensor, name: str) -> Tensor:
    """Whether an element is ``isnan``, ``isinf`` or ``isfinite``."""
    if not x.dtype.is_float:
        return elementwise(lambda v: v != v if name != "isfinite" else v == v, x, dtype=dt.bool_)
    return elementwise(lambda v: call(name, v), x, dtype=dt.bool_)


def binary(a: Tensor, b: Tensor, name: str, dtype: DType, scale: float | int = 1) -> Tensor:
    """A function of two numbers, both taken as ``dtype`` first; the second times ``scale``."""

    def fn(x: Value, y: Value) -> Value:
        x, y = cast(working_type(dtype), x), cast(working_type(dtype), y)
        return BINARY[name](x, y if scale == 1 else y * _number(scale, y))

    return elementwise(fn, a, b, dtype=dtype)


def with_number(a: Tensor, number: Any, name: str, dtype: DType, swapped: bool = False) -> Tensor:
    """A function of an element and a number that is known."""

    def fn(x: Value) -> Value:
        x = cast(working_type(dtype), x)
        pair = (x, _number(number, x))
        return BINARY[name](*(pair[::-1] if swapped else pair))

    return elementwise(fn, a, dtype=dtype)


def compare(a: Tensor, b: Tensor, name: str, dtype: DType) -> Tensor:
    """A comparison of elements, both taken as ``dtype``."""
    return elementwise(lambda x, y: COMPARE[name](cast(dtype, x), cast(dtype, y)), a, b, dtype=dt.bool_)


def compare_number(a: Tensor, number: Any, name: str, dtype: DType) -> Tensor:
    def fn(x: Value) -> Value:
        x = cast(dtype, x)
        return COMPARE[name](x, _number(number, x))

    return elementwise(fn, a, dtype=dt.bool_)


def logical(a: Tensor, b: Tensor, name: str) -> Tensor:
    return elementwise(LOGICAL[name], a, b, dtype=dt.bool_)


def logical_not(x: Tensor) -> Tensor:
    return elementwise(w.logical_not, x, dtype=dt.bool_)


def where(test: Tensor, a: Tensor, b: Tensor, dtype: DType) -> Tensor:
    return elementwise(lambda t, x, y: w.select(t, cast(dtype, x), cast(dtype, y)), test, a, b, dtype=dtype)


def masked_fill(x: Tensor, mask: Tensor, number: Any) -> Tensor:
    return elementwise(lambda v, m: w.select(m, _number(number, v), v), x, mask, dtype=x.dtype)


def converted(x: Tensor, dtype: DType) -> Tensor:
    """``x`` as ``dtype``; a test for zero where that is bool, whole parts that wrap where it is an integer."""

    def fn(v: Value) -> Value:
        if dtype.is_bool and not v.dtype.is_bool:
            return v != 0
        return cast(dtype, v)

    return elementwise(fn, x, dtype=dtype)


def filled(sizes: Shape, number: Any, dtype: DType) -> Tensor:
    return compute(sizes, lambda *i: V(convert(lift(number), dtype)), name="O", dtype=dtype)


def counted(length: int, start: Any, step: Any, dtype: DType) -> Tensor:
    """``start``, ``start + step``, …"""

    def fn(i: Any) -> Value:
        kind = dt.float64 if dtype.is_float else dt.int64
        place = cast(kind, i)
        return cast(dtype, place * _number(step, place) + _number(start, place))

    return compute((length,), fn, name="O", dtype=dtype)


def eye(sizes: Shape, diagonal: int, dtype: DType) -> Tensor:
    return compute(sizes, lambda i, j: cast(dtype, j - i == diagonal), name="O", dtype=dtype)


def triangle(x: Tensor, diagonal: int, lower: bool) -> Tensor:
    """``x`` below (or above) a diagonal of its last two axes, zero elsewhere."""

    def fn(*i: Any) -> Value:
        inside = i[-1] - i[-2] <= diagonal if lower else i[-1] - i[-2] >= diagonal
        value = x[i]
        return w.select(inside, value, _number(0, value))

    return compute(shape(x), fn, name="O")


def shifted(a: Tensor, b: Tensor, to_left: bool) -> Tensor:
    """Bits moved by so many places; beyond the width of the type none are left, or the sign alone."""
    bits = a.dtype.bits

    def fn(x: Value, y: Value) -> Value:
        most = w.minimum(y, _number(bits - 1, y))
        if not to_left and a.dtype.min_value < 0:
            return x >> most
        return w.select(y < _number(bits, y), x << most if to_left else x >> most, _number(0, x))

    return elementwise(fn, a, b, dtype=a.dtype)


def lerp(a: Tensor, b: Tensor, weight: Tensor) -> Tensor:
    t = a.dtype
    kind = working_type(t)
    return elementwise(
        lambda x, y, s: cast(kind, x) + (cast(kind, y) - cast(kind, x)) * cast(kind, s), a, b, weight, dtype=t
    )


def lerp_by(a: Tensor, b: Tensor, weight: float) -> Tensor:
    kind = working_type(a.dtype)
    return elementwise(lambda x, y: cast(kind, x) + (cast(kind, y) - cast(kind, x)) * weight, a, b, dtype=a.dtype)


def multiply_add(a: Tensor, b: Tensor, c: Tensor, scale: Any, divides: bool) -> Tensor:
    """``a + scale * b * c``, or ``/ c``."""
    kind = working_type(a.dtype)

    def fn(x: Value, y: Value, z: Value) -> Value:
        x, y, z = (cast(kind, v) for v in (x, y, z))
        scaled = y if scale == 1 else y * _number(scale, y)
        return x + (scaled / z if divides else scaled * z)

    return elementwise(fn, a, b, c, dtype=a.dtype)
