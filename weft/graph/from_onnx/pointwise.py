"""Entries of the table of ONNX's operators: one element in, one element out."""

from __future__ import annotations

import math
from typing import Any

from weft.graph.formulas import pointwise as f
from weft.graph.formulas.common import broadcast
from weft.graph.from_onnx.edge import type_of
from weft.graph.from_onnx.table import Site, Term, lowers
from weft.ir import dtype as dt
from weft.ir.errors import UnsupportedError

_FLOAT_UNARY = {
    "Exp": "exp", "Log": "log", "Sqrt": "sqrt", "Sin": "sin", "Cos": "cos", "Tan": "tan", "Asin": "asin",
    "Acos": "acos", "Atan": "atan", "Sinh": "sinh", "Cosh": "cosh", "Tanh": "tanh", "Asinh": "asinh",
    "Acosh": "acosh", "Atanh": "atanh", "Sigmoid": "sigmoid", "Erf": "erf", "Reciprocal": "reciprocal",
    "Softplus": "softplus", "Mish": "mish", "HardSwish": "hard_swish", "Softsign": "softsign",
}  # fmt: skip
_SAME_UNARY = {"Abs": "abs", "Neg": "neg", "Sign": "sign", "Relu": "relu", "BitwiseNot": "bitwise_not"}
_ROUNDING = {"Floor": "floor", "Ceil": "ceil", "Round": "round"}
_BINARY = {
    "Add": "add", "Sub": "sub", "Mul": "mul", "BitwiseAnd": "bitwise_and", "BitwiseOr": "bitwise_or",
    "BitwiseXor": "bitwise_xor",
}  # fmt: skip
_COMPARE = {"Equal": "eq", "Less": "lt", "LessOrEqual": "le", "Greater": "gt", "GreaterOrEqual": "ge"}
_LOGICAL = {"And": "logical_and", "Or": "logical_or", "Xor": "logical_xor"}


def float_only(*terms: Term) -> None:
    if not all(x.dtype.is_float for x in terms):
        raise UnsupportedError(f"elements of {terms[0].dtype}")


def unary(t: Site, x: Term, name: str, *args: Any) -> Term:
    """A function of floats by its name."""
    float_only(x)
    return t.make([x], f.unary, name, x.dtype, *args)


def binary(t: Site, a: Term, b: Term, name: str) -> Term:
    """A function of two tensors of one type; a number that is known stands in the formula."""
    if a.dtype != b.dtype:
        raise UnsupportedError(f"{a.dtype} with {b.dtype}")
    for term, other, swapped in ((b, a, False), (a, b, True)):
        value = t.number(term)
        is_plain = value is not None and math.isfinite(value) and not isinstance(value, bool)
        if is_plain and len(term.shape) <= len(other.shape) and other.array is None:
            return t.make([other], f.with_number, value, name, a.dtype, swapped)
    return t.make([a, b], f.binary, name, a.dtype)


@lowers(*_FLOAT_UNARY)
def _float_unary(t: Site, x: Term) -> Term:
    return unary(t, x, _FLOAT_UNARY[t.op])


@lowers(*_SAME_UNARY)
def _same_unary(t: Site, x: Term) -> Term:
    return t.make([x], f.same, _SAME_UNARY[t.op])


@lowers(*_ROUNDING)
def _rounded(t: Site, x: Term) -> Term:
    return t.make([x], f.rounded, _ROUNDING[t.op])


@lowers(*_BINARY)
def _binary(t: Site, a: Term, b: Term) -> Term:
    return binary(t, a, b, _BINARY[t.op])


@lowers("Div")
def _divide(t: Site, a: Term, b: Term) -> Term:
    return binary(t, a, b, "div" if a.dtype.is_float else "truncate_divide")


@lowers("Mod")
def _remainder(t: Site, a: Term, b: Term) -> Term:
    if not t.get("fmod", 0):
        return binary(t, a, b, "remainder")
    return binary(t, a, b, "fmod" if a.dtype.is_float else "truncate_remainder")


@lowers("Pow")
def _power(t: Site, a: Term, b: Term) -> Term:
    exponent = t.number(b)
    if exponent is not None and b.rank <= a.rank and a.dtype.is_float:
        return t.make([a], f.unary, "power", a.dtype, float(exponent))
    if exponent in (1, 2, 3) and b.rank <= a.rank:
        return t.make([a], f.same, "power_of_integer", int(exponent))
    if a.dtype.is_float:
        return t.make([a, t.make([b], f.converted, a.dtype)], f.binary, "pow", a.dtype)
    if a.dtype.bits > 32:
        raise UnsupportedError("powers of 64-bit integers", help="cast them to float64")
    wide = [t.make([x], f.converted, dt.float64) for x in (a, b)]
    power = t.make(wide, f.binary, "pow", dt.float64)
    return t.make([t.make([power], f.rounded, "round")], f.converted, a.dtype)


@lowers(*_COMPARE)
def _compare(t: Site, a: Term, b: Term) -> Term:
    return t.make([a, b], f.compare, _COMPARE[t.op], a.dtype)


@lowers(*_LOGICAL)
def _logical(t: Site, a: Term, b: Term) -> Term:
    return t.make([a, b], f.logical, _LOGICAL[t.op])


@lowers("Not")
def _not(t: Site, x: Term) -> Term:
    return t.make([x], f.logical_not)


@lowers("IsNaN")
def _is_nan(t: Site, x: Term) -> Term:
    return t.make([x], f.test, "isnan")


@lowers("IsInf")
def _is_infinite(t: Site, x: Term) -> Term:
    found = t.make([x], f.test, "isinf")
    wanted = (t.get("detect_negative", 1), t.get("detect_positive", 1))
    if wanted == (1, 1):
        return found
    if wanted == (0, 0):
        return t.make([], f.filled, x.shape, False, dt.bool_)
    sign = t.make([x], f.compare_number, 0, "lt" if wanted[0] else "gt", x.dtype)
    return t.make([found, sign], f.logical, "logical_and")


@lowers("BitShift")
def _shift(t: Site, a: Term, b: Term) -> Term:
    return t.make([a, b], f.shifted, t.get("direction") == "LEFT")


@lowers("Max", "Min")
def _extreme(t: Site, *terms: Term) -> Term:
    return _folded(t, "maximum" if t.op == "Max" else "minimum", *terms)


@lowers("Sum")
def _sum(t: Site, *terms: Term) -> Term:
    return _folded(t, "add", *terms)


@lowers("Mean")
def _mean(t: Site, *terms: Term) -> Term:
    float_only(*terms)
    return t.make([_folded(t, "add", *terms)], f.with_number, float(len(terms)), "div", terms[0].dtype)


def _folded(t: Site, name: str, *terms: Term) -> Term:
    result = terms[0]
    for term in terms[1:]:
        result = t.make([result, term], f.binary, name, result.dtype)
    return result


@lowers("Clip")
def _clip(t: Site, x: Term, low: Term | None = None, high: Term | None = None) -> Term:
    bounds = [t.get("min"), t.get("max")] if t.opset < 11 else [t.number(low), t.number(high)]
    if (x.array is None and all((b is None) == (g is None) for b, g in zip(bounds, (low, high)))) or t.opset < 11:
        return t.make([x], f.same, "clamp", *bounds)
    for name, bound in (("maximum", low), ("minimum", high)):
        x = x if bound is None else t.make([x, bound], f.binary, name, x.dtype)
    return x


@lowers("LeakyRelu")
def _leaky_relu(t: Site, x: Term) -> Term:
    return unary(t, x, "leaky_relu", t.get("alpha", 0.01))


@lowers("Elu")
def _elu(t: Site, x: Term) -> Term:
    return unary(t, x, "elu", t.get("alpha", 1.0))


@lowers("Selu")
def _selu(t: Site, x: Term) -> Term:
    return unary(t, x, "elu", t.get("alpha", 1.67326319217681884765625), t.get("gamma", 1.05070102214813232421875))


@lowers("Celu")
def _celu(t: Site, x: Term) -> Term:
    alpha = t.get("alpha", 1.0)
    return unary(t, x, "elu", alpha, 1.0, 1.0 / alpha)


@lowers("HardSigmoid")
def _hard_sigmoid(t: Site, x: Term) -> Term:
    return unary(t, x, "hard_sigmoid", t.get("alpha", 0.2), t.get("beta", 0.5))


@lowers("ThresholdedRelu")
def _thresholded_relu(t: Site, x: Term) -> Term:
    return unary(t, x, "thresholded_relu", t.get("alpha", 1.0))


@lowers("Gelu")
def _gelu(t: Site, x: Term) -> Term:
    return unary(t, x, "gelu_tanh" if t.get("approximate", "none") == "tanh" else "gelu")


@lowers("PRelu")
def _parametric_relu(t: Site, x: Term, slope: Term) -> Term:
    if broadcast(x.shape, slope.shape) != x.shape:
        raise UnsupportedError(f"a slope of shape {slope.shape} for {x.shape}")
    scaled = t.make([x, slope], f.binary, "mul", x.dtype)
    is_negative = t.make([x], f.compare_number, 0, "lt", x.dtype)
    return t.make([is_negative, scaled, x], f.where, x.dtype)


@lowers("Where")
def _where(t: Site, test: Term, a: Term, b: Term) -> Term:
    return t.make([test, a, b], f.where, a.dtype)


@lowers("Cast")
def _cast(t: Site, x: Term) -> Term:
    return _converted(t, x, type_of(t.get("to")))


@lowers("CastLike")
def _cast_like(t: Site, x: Term, like: Term) -> Term:
    return _converted(t, x, like.dtype)


def _converted(t: Site, x: Term, dtype: Any) -> Term:
    return x if x.dtype == dtype else t.make([x], f.converted, dtype)


@lowers("Identity")
def _identity(t: Site, x: Term) -> Term:
    return x


@lowers("Dropout")
def _dropout(t: Site, x: Term, ratio: Term | None = None, training: Term | None = None) -> tuple[Term, Term]:
    if training is not None and t.known(training).item() and (ratio is None or t.known(ratio).item() != 0):
        raise UnsupportedError("dropout while training", help="export the model for inference")
    return x, t.make([], f.filled, x.shape, True, dt.bool_)
