"""Entries of the table of ONNX's operators: small integers that stand for scaled floats."""

from __future__ import annotations

from typing import Any

from weft.graph.formulas import contraction, pointwise, views
from weft.graph.formulas.common import axis
from weft.graph.from_onnx.edge import type_of
from weft.graph.from_onnx.shapes import reshape
from weft.graph.from_onnx.table import Site, Term, lowers
from weft.graph.from_onnx.windows import convolved
from weft.ir import dtype as dt
from weft.ir.errors import UnsupportedError


def _beside(t: Site, x: Term, given: Term) -> Term:
    """Scales or zero points, one for all, for each place along an axis, or for each block of it, to fit ``x``."""
    if given.shape in ((), (1,)):
        return reshape(t, given, ())
    d, block = axis(t.get("axis", 1), x.rank), t.get("block_size", 0)
    if not block:
        return reshape(t, given, tuple(given.shape[0] if k == d else 1 for k in range(x.rank)))
    apart = reshape(t, given, (*given.shape[: d + 1], 1, *given.shape[d + 1 :]))
    wide = t.make([apart], views.expand, (*given.shape[: d + 1], block, *given.shape[d + 1 :]))
    if given.shape[d] * block != x.shape[d]:
        raise UnsupportedError(f"blocks of {block} in {x.shape[d]} elements")
    return reshape(t, wide, x.shape)


def _small(dtype: Any) -> None:
    if not dtype.is_integer or dtype.bits > 16:
        raise UnsupportedError(f"quantized as {dtype}")


@lowers("DequantizeLinear")
def _dequantize(t: Site, x: Term, scale: Term, zero: Term | None = None) -> Term:
    dtype = scale.dtype if not t.get("output_dtype", 0) else type_of(t.get("output_dtype"))
    if x.dtype != dt.int32:
        _small(x.dtype)
    whole = t.make([x], pointwise.converted, dt.int32)
    if zero is not None:
        shift = t.make([_beside(t, x, zero)], pointwise.converted, dt.int32)
        whole = t.make([whole, shift], pointwise.binary, "sub", dt.int32)
    value = t.make([whole], pointwise.converted, dtype)
    factor = t.make([_beside(t, x, scale)], pointwise.converted, dtype)
    return t.make([value, factor], pointwise.binary, "mul", dtype)


@lowers("QuantizeLinear")
def _quantize(t: Site, x: Term, scale: Term, zero: Term | None = None) -> Term:
    given = t.get("output_dtype", 0)
    dtype = zero.dtype if zero is not None else type_of(given) if given else dt.uint8
    _small(dtype)
    t.builder.numerics = "strict"  # a quotient that is off by one bit may round to another integer
    value = t.make([x], pointwise.converted, dt.float32)
    factor = t.make([_beside(t, x, scale)], pointwise.converted, dt.float32)
    whole = t.make([t.make([value, factor], pointwise.binary, "div", dt.float32)], pointwise.rounded, "round")
    if zero is not None:
        shift = t.make([_beside(t, x, zero)], pointwise.converted, dt.float32)
        whole = t.make([whole, shift], pointwise.binary, "add", dt.float32)
    return _narrowed(t, whole, dtype)


def _shifted(t: Site, x: Term, zero: Term | None, axis_of_zeros: int) -> Term:
    """What small integers stand for, as whole numbers; zero points are one for all, or one for each place of an axis.

    Where there is an axis for each matrix of a batch as well, zero points lie beside them already.
    """
    whole = t.make([x], pointwise.converted, dt.int32)
    if zero is None:
        return whole
    shift = t.make([zero], pointwise.converted, dt.int32)
    if zero.shape in ((), (1,)):
        shift = reshape(t, shift, ())
    elif zero.rank == 1:
        d = axis(axis_of_zeros, x.rank)
        shift = reshape(t, shift, tuple(zero.shape[0] if k == d else 1 for k in range(x.rank)))
    return t.make([whole, shift], pointwise.binary, "sub", dt.int32)


def _rows_axis(x: Term) -> int:
    return -2 if x.rank > 1 else -1


@lowers("MatMulInteger")
def _integer_matmul(t: Site, a: Term, b: Term, a_zero: Term | None = None, b_zero: Term | None = None) -> Term:
    left, right = _shifted(t, a, a_zero, _rows_axis(a)), _shifted(t, b, b_zero, -1)
    return t.make([left, right], contraction.matmul)


@lowers("ConvInteger")
def _integer_convolution(
    t: Site, x: Term, weight: Term, x_zero: Term | None = None, weight_zero: Term | None = None
) -> Term:
    return convolved(t, _shifted(t, x, x_zero, 1), _shifted(t, weight, weight_zero, 0), None)


@lowers("QLinearMatMul")
def _quantized_matmul(
    t: Site, a: Term, a_scale: Term, a_zero: Term, b: Term, b_scale: Term, b_zero: Term, scale: Term, zero: Term
) -> Term:
    left, right = _shifted(t, a, a_zero, _rows_axis(a)), _shifted(t, b, b_zero, -1)
    whole = t.make([left, right], contraction.matmul)
    rows, columns = (_one_or_along(t, s, d, whole.rank) for s, d in ((a_scale, -2), (b_scale, -1)))
    return _requantized(t, whole, (rows, columns), scale, zero)


@lowers("QLinearConv")
def _quantized_convolution(
    t: Site, x: Term, x_scale: Term, x_zero: Term, weight: Term, weight_scale: Term, weight_zero: Term, scale: Term,
    zero: Term, bias: Term | None = None,
) -> Term:  # fmt: skip
    whole = convolved(t, _shifted(t, x, x_zero, 1), _shifted(t, weight, weight_zero, 0), bias)
    factors = reshape(t, x_scale, ()), _one_or_along(t, weight_scale, 1, whole.rank)
    return _requantized(t, whole, factors, scale, zero)


def _one_or_along(t: Site, given: Term, d: int, rank: int) -> Term:
    """A number, or one for each place along axis ``d`` of a result."""
    if given.shape in ((), (1,)):
        return reshape(t, given, ())
    if given.rank > 1:
        return given
    return reshape(t, given, tuple(given.shape[0] if k == d % rank else 1 for k in range(rank)))


def _requantized(t: Site, whole: Term, factors: tuple[Term, Term], scale: Term, zero: Term) -> Term:
    """Sums of products of whole numbers, scaled by ``factors``, as small integers of another scale."""
    t.builder.numerics = "strict"
    a, b, c = (
        t.make([s], pointwise.converted, dt.float32) for s in (*factors, _one_or_along(t, scale, -1, whole.rank))
    )
    factor = t.make([t.make([a, b], pointwise.binary, "mul", dt.float32), c], pointwise.binary, "div", dt.float32)
    value = t.make([whole], pointwise.converted, dt.float32)
    value = t.make([t.make([value, factor], pointwise.binary, "mul", dt.float32)], pointwise.rounded, "round")
    shift = t.make([_one_or_along(t, zero, -1, whole.rank)], pointwise.converted, dt.float32)
    value = t.make([value, shift], pointwise.binary, "add", dt.float32)
    return _narrowed(t, value, zero.dtype)


def _narrowed(t: Site, value: Term, dtype: Any) -> Term:
    """Whole numbers as small integers, the nearest where they do not fit."""
    _small(dtype)
    inside = t.make([value], pointwise.same, "clamp", float(dtype.min_value), float(dtype.max_value))
    return t.make([inside], pointwise.converted, dtype)
