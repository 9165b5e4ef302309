"""Entries of the table: functions of elements."""

from __future__ import annotations

from typing import Any

from weft.graph.formulas import pointwise as f
from weft.graph.formulas import views
from weft.graph.from_torch.table import TABLE, Site, lowers, number, promoted
from weft.graph.graph import Edge
from weft.ir.dtype import DType
from weft.ir.errors import UnsupportedError


def _register_unary() -> None:
    for name in f.FLOAT_UNARY:
        if name not in ("gelu", "gelu_tanh", "softplus", "leaky_relu", "elu", "power", "hard_sigmoid", "hard_swish"):
            lowers(name)(lambda t, x, name=name: t.make([x], f.unary, name, t.dtype))
    for name in ("neg", "abs", "sign", "relu"):
        lowers(name)(lambda t, x, name=name: t.make([x], f.same, name))
    for name in f.ROUNDING:
        lowers(name)(lambda t, x, name=name: t.make([x], f.rounded, name))
    for name in ("isnan", "isinf"):
        lowers(name)(lambda t, x, name=name: t.make([x], f.test, name))


def _register_binary() -> None:
    same = ("add", "sub", "mul", "div", "maximum", "minimum", "remainder", "fmod", "pow", "atan2", "hypot", "copysign",
            "fmax", "fmin", "bitwise_and", "bitwise_or", "bitwise_xor", "floor_divide")  # fmt: skip
    names = {name: name for name in same}
    names |= {"true_divide": "div", "__and__": "bitwise_and", "__or__": "bitwise_or"}
    for aten, name in names.items():
        overloads = [f"{aten}.{o}" for o in ("Tensor", "Scalar", "default", "Tensor_Tensor")]
        lowers(*overloads)(lambda t, a, b, name=name, **rest: arithmetic(t, name, a, b, **rest))
    for name in f.COMPARE:
        lowers(f"{name}.Tensor", f"{name}.Scalar")(lambda t, a, b, name=name: _compare(t, name, a, b))
    for name in f.LOGICAL:
        lowers(name)(lambda t, a, b, name=name: t.make([a, b], f.logical, name))


def _check_integers(name: str, dtype: DType) -> None:
    if not dtype.is_float and name in ("pow", "fmod", "atan2", "hypot", "copysign"):
        raise UnsupportedError(f"{name} of integers")
    if dtype.is_bool and name not in (*_OF_BOOLS, "bitwise_and", "bitwise_or", "bitwise_xor", "maximum", "minimum"):
        raise UnsupportedError(f"{name} of bools")


#: What arithmetic on bools is.
_OF_BOOLS = {"mul": "logical_and", "add": "logical_or"}


def arithmetic(t: Site, name: str, a: Any, b: Any, *, alpha: Any = 1, rounding_mode: str | None = None) -> str:
    """An operator of two, either of which may be a number; the second is multiplied by ``alpha`` first."""
    if name == "div" and rounding_mode is not None:
        name = {"floor": "floor_divide", "trunc": "truncate_divide"}[rounding_mode]
    _check_integers(name, t.dtype)
    if isinstance(a, Edge) and isinstance(b, Edge) and t.dtype.is_bool and name in _OF_BOOLS and alpha == 1:
        return t.make([a, b], f.logical, _OF_BOOLS[name])
    if isinstance(a, Edge) and isinstance(b, Edge):
        return t.make([a, b], f.binary, name, t.dtype, number(alpha))
    if isinstance(a, Edge):
        factor = number(b) * number(alpha) if alpha != 1 else number(b)
        return t.make([a], f.with_number, factor, name, t.dtype, False)
    if alpha != 1:
        raise UnsupportedError("a number first, and a factor for what follows")
    return t.make([b], f.with_number, number(a), name, t.dtype, True)


@lowers("div.Tensor_mode", "div.Scalar_mode")
def _divide(t: Site, a: Any, b: Any, *, rounding_mode: str | None = None) -> str:
    return arithmetic(t, "div", a, b, rounding_mode=rounding_mode)


@lowers("__rshift__.Scalar", "bitwise_right_shift.Tensor_Scalar")
def _shift_right(t: Site, x: Edge, places: Any) -> str:
    return arithmetic(t, "floor_divide", x, _power_of_two(x, places))


@lowers("__lshift__.Scalar", "bitwise_left_shift.Tensor_Scalar")
def _shift_left(t: Site, x: Edge, places: Any) -> str:
    return arithmetic(t, "mul", x, _power_of_two(x, places))


def _power_of_two(x: Edge, places: Any) -> int:
    """What shifting by so many places divides by; shifts by as many as there are, or none, are torch's own."""
    if not x.dtype.is_integer or not isinstance(places, int) or not 0 <= places < x.dtype.bits - 1:
        raise UnsupportedError("shifts by as many places as a number has")
    return 1 << places


@lowers("rsub.Scalar", "rsub.Tensor")
def _subtract_from(t: Site, a: Edge, b: Any, alpha: Any = 1) -> str:
    if alpha != 1:
        raise UnsupportedError("a factor")
    return arithmetic(t, "sub", b, a)


def _compare(t: Site, name: str, a: Edge, b: Any) -> str:
    dtype = promoted(a, b)
    if isinstance(b, Edge):
        return t.make([a, b], f.compare, name, dtype)
    return t.make([a], f.compare_number, number(b), name, dtype)


@lowers("pow.Tensor_Scalar")
def _power(t: Site, x: Edge, exponent: Any) -> str:
    if t.dtype.is_float:
        return t.make([x], f.unary, "power", t.dtype, float(number(exponent)))
    if exponent not in (1, 2, 3):
        raise UnsupportedError("powers of integers")
    return t.make([x], f.same, "power_of_integer", exponent)


@lowers("pow.Scalar")
def _power_of(t: Site, base: Any, x: Edge) -> str:
    if not t.dtype.is_float:
        raise UnsupportedError("powers of integers")
    return t.make([x], f.with_number, float(number(base)), "pow", t.dtype, True)


@lowers("gelu")
def _gelu(t: Site, x: Edge, *, approximate: str = "none") -> str:
    return t.make([x], f.unary, "gelu" if approximate == "none" else "gelu_tanh", t.dtype)


@lowers("softplus")
def _softplus(t: Site, x: Edge, beta: Any = 1, threshold: Any = 20) -> str:
    return t.make([x], f.unary, "softplus", t.dtype, float(beta), float(threshold))


@lowers("leaky_relu")
def _leaky_relu(t: Site, x: Edge, slope: Any = 0.01) -> str:
    return t.make([x], f.unary, "leaky_relu", t.dtype, float(slope))


@lowers("elu")
def _elu(t: Site, x: Edge, alpha: Any = 1, scale: Any = 1, input_scale: Any = 1) -> str:
    return t.make([x], f.unary, "elu", t.dtype, float(alpha), float(scale), float(input_scale))


@lowers("hardsigmoid")
def _hard_sigmoid(t: Site, x: Edge) -> str:
    return t.make([x], f.unary, "hard_sigmoid", t.dtype)


@lowers("hardswish")
def _hard_swish(t: Site, x: Edge) -> str:
    return t.make([x], f.unary, "hard_swish", t.dtype)


@lowers("clamp", "hardtanh", "clamp_min", "clamp_max")
def _clamp(t: Site, x: Edge, low: Any = None, high: Any = None, *, min: Any = None, max: Any = None) -> str:
    target = t.call.target
    low, high = low if min is None else min, high if max is None else max
    if target == "aten.hardtanh.default":
        low, high = -1.0 if low is None else low, 1.0 if high is None else high
    if target == "aten.clamp_max.default":
        low, high = None, low
    if x.dtype != t.dtype:
        raise UnsupportedError("bounds of another type")
    bounds = [None if b is None else number(b) for b in (low, high)]
    return t.make([x], f.same, "clamp", *bounds)


@lowers("clamp.Tensor")
def _clamp_between(t: Site, x: Edge, low: Any = None, high: Any = None) -> str:
    for name, bound in (("maximum", low), ("minimum", high)):
        x = x if bound is None else t.edge(t.make([x, bound], f.binary, name, t.dtype, is_library=False))
    return x.name


@lowers("where.self")
def _where(t: Site, test: Edge, a: Edge, b: Edge) -> str:
    if not test.dtype.is_bool:
        raise UnsupportedError("a condition that is not bool")
    return t.make([test, a, b], f.where, t.dtype)


@lowers("masked_fill.Scalar")
def _masked_fill(t: Site, x: Edge, mask: Edge, value: Any) -> str:
    return t.make([x, mask], f.masked_fill, number(value))


@lowers("masked_fill.Tensor")
def _masked_fill_by(t: Site, x: Edge, mask: Edge, value: Edge) -> str:
    return t.make([mask, value, x], f.where, t.dtype)


@lowers("logical_not")
def _logical_not(t: Site, x: Edge) -> str:
    return t.make([x], f.logical_not)


@lowers("bitwise_not")
def _bitwise_not(t: Site, x: Edge) -> str:
    return t.make([x], f.logical_not) if x.dtype.is_bool else t.make([x], f.same, "bitwise_not")


@lowers("_to_copy", "clone", "lift_fresh_copy", "prims.convert_element_type")
def _copy(t: Site, x: Edge, *_args: Any, **_named: Any) -> str:
    return t.make([x], f.converted, t.dtype)


@lowers("copy")
def _copy_from(t: Site, x: Edge, source: Edge, *_: Any) -> str:
    made = t.make([source], f.converted, t.dtype, is_library=False)
    return made if source.shape == x.shape else t.make([t.edge(made)], views.expand, t.shape, is_library=False)


@lowers("addcmul", "addcdiv")
def _multiply_add(t: Site, x: Edge, a: Edge, b: Edge, *, value: Any = 1) -> str:
    if not t.dtype.is_float:
        raise UnsupportedError("products of integers")
    return t.make([x, a, b], f.multiply_add, number(value), "addcdiv" in t.call.target)


@lowers("lerp.Tensor")
def _lerp(t: Site, a: Edge, b: Edge, weight: Edge) -> str:
    return t.make([a, b, weight], f.lerp)


@lowers("lerp.Scalar")
def _lerp_by(t: Site, a: Edge, b: Edge, weight: Any) -> str:
    return t.make([a, b], f.lerp_by, float(number(weight)))


_register_unary()
_register_binary()
del TABLE["aten.fmod.default"]
