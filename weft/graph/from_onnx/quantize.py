"""Entries of the table of ONNX's operators: small integers that stand for scaled floats."""

from __future__ import annotations

from typing import Any

from weft.graph.formulas import pointwise, views
from weft.graph.formulas.common import axis
from weft.graph.from_onnx.edge import type_of
from weft.graph.from_onnx.shapes import reshape
from weft.graph.from_onnx.table import Site, Term, lowers
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
    inside = t.make([whole], pointwise.same, "clamp", float(dtype.min_value), float(dtype.max_value))
    return t.make([inside], pointwise.converted, dtype)
