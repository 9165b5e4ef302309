"""Entries of the table of ONNX's operators: convolutions and pools."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from weft.graph.formulas import joints, pointwise, reductions, windows
from weft.graph.from_onnx.pointwise import float_only
from weft.graph.from_onnx.shapes import permute, reshape
from weft.graph.from_onnx.table import Site, Term, known_term, lowers
from weft.ir import dtype as dt
from weft.ir.errors import UnsupportedError

Ints = tuple[int, ...]


def _sized(t: Site, name: str, count: int, default: int) -> Ints:
    """An attribute with one integer an axis of the image."""
    given = tuple(t.get(name, (default,) * count))
    if len(given) != count or (name != "output_padding" and min(given, default=1) < 1):
        raise UnsupportedError(f"{name} is {given} for {count} axes")
    return given


def _padding(t: Site, image: Ints, kernel: Ints, strides: Ints, dilations: Ints) -> tuple[Ints, Ints]:
    """Before and after each axis, given or as the attribute `auto_pad` wants it."""
    auto, count = t.get("auto_pad", "NOTSET"), len(kernel)
    if auto == "VALID":
        return (0,) * count, (0,) * count
    if auto in ("NOTSET", ""):
        pads = tuple(t.get("pads", (0,) * (2 * count)))
        if len(pads) != 2 * count or min(pads, default=0) < 0:
            raise UnsupportedError(f"pads is {pads} for {count} axes")
        return pads[:count], pads[count:]
    total = [
        max((-(-n // s) - 1) * s + (k - 1) * d + 1 - n, 0) for n, k, s, d in zip(image, kernel, strides, dilations)
    ]
    return _halves(total, auto == "SAME_UPPER")


def _halves(total: list[int], more_after: bool) -> tuple[Ints, Ints]:
    less, more = tuple(n // 2 for n in total), tuple(n - n // 2 for n in total)
    return (less, more) if more_after else (more, less)


@lowers("Conv")
def _convolution(t: Site, x: Term, weight: Term, bias: Term | None = None) -> Term:
    float_only(x)
    return convolved(t, x, weight, bias)


def convolved(t: Site, x: Term, weight: Term, bias: Term | None) -> Term:
    """A convolution as the attributes of the node say, of floats or integers of one type."""
    kernel, groups = weight.shape[2:], t.get("group", 1)
    _check_channels(x.shape[1], weight.shape[1] * groups, weight.shape[0], groups)
    strides, dilations = _sized(t, "strides", len(kernel), 1), _sized(t, "dilations", len(kernel), 1)
    facts = (strides, *_padding(t, x.shape[2:], kernel, strides, dilations), dilations, groups)
    return _convolved(t, x, weight, bias, *facts)


def _check_channels(have: int, wanted: int, filters: int, groups: int) -> None:
    if have != wanted or groups < 1 or filters % groups:
        raise UnsupportedError(f"{have} channels for weights of {wanted}, {filters} filters in {groups} groups")


def _convolved(t: Site, x: Term, weight: Term, bias: Term | None, *facts: Any) -> Term:
    if bias is None:
        return t.make([x, weight], windows.convolution_without_bias, *facts)
    return t.make([x, weight, bias], windows.convolution, *facts)


@lowers("ConvTranspose")
def _convolution_transposed(t: Site, x: Term, weight: Term, bias: Term | None = None) -> Term:
    """Each place from the taps that reach it, where these are the same in groups of places; else a convolution of the
    image with zeros between its elements, by the weights turned around."""
    float_only(x)
    kernel, groups = weight.shape[2:], t.get("group", 1)
    _check_channels(x.shape[1], weight.shape[0], weight.shape[0], groups)
    n = len(kernel)
    strides, dilations = _sized(t, "strides", n, 1), _sized(t, "dilations", n, 1)
    before, after = _transposed_padding(t, x.shape[2:], kernel, strides, dilations)
    reach = tuple((k - 1) * d for k, d in zip(kernel, dilations))
    sizes = tuple(s * (m - 1) + 1 + r - b - a for s, m, r, b, a in zip(strides, x.shape[2:], reach, before, after))
    if groups == 1 and windows.gathers_evenly(sizes, (strides, dilations)):
        fn = windows.gathered_without_bias if bias is None else windows.gathered
        return t.make([x, weight, *([] if bias is None else [bias])], fn, strides, before, sizes)
    wide = t.make(
        [x], windows.stretched, strides,
        tuple(r - b for r, b in zip(reach, before)), tuple(r - a for r, a in zip(reach, after)),
    )  # fmt: skip
    apart = reshape(t, weight, (groups, weight.shape[0] // groups, *weight.shape[1:]))
    swapped = permute(t, apart, (0, 2, 1, *range(3, n + 3)))
    merged = reshape(t, swapped, (groups * weight.shape[1], weight.shape[0] // groups, *kernel))
    turned = t.make([merged], joints.flip, tuple(range(2, n + 2)))
    zeros = (0,) * n
    return _convolved(t, wide, turned, bias, (1,) * n, zeros, zeros, dilations, groups)


def _transposed_padding(t: Site, image: Ints, kernel: Ints, strides: Ints, dilations: Ints) -> tuple[Ints, Ints]:
    """What is cut off before and after; less than nothing is added."""
    extra = _sized(t, "output_padding", len(kernel), 0)
    full = [s * (n - 1) + e + (k - 1) * d + 1 for n, k, s, d, e in zip(image, kernel, strides, dilations, extra)]
    auto, wanted = t.get("auto_pad", "NOTSET"), t.get("output_shape")
    if wanted is None and auto in ("SAME_UPPER", "SAME_LOWER"):
        wanted = [n * s for n, s in zip(image, strides)]
    if wanted is None:
        before, after = _padding(t, image, kernel, strides, dilations)
    else:
        before, after = _halves([f - n for f, n in zip(full, wanted)], auto == "SAME_UPPER")
    return before, tuple(a - e for a, e in zip(after, extra))


def _pool_facts(t: Site, x: Term) -> tuple[Ints, Ints, Ints, Ints, Ints, bool]:
    kernel = tuple(t.get("kernel_shape"))
    if len(kernel) != x.rank - 2:
        raise UnsupportedError(f"a window of {kernel} for {x.rank - 2} axes")
    strides, dilations = _sized(t, "strides", len(kernel), 1), _sized(t, "dilations", len(kernel), 1)
    before, after = _padding(t, x.shape[2:], kernel, strides, dilations)
    ceil = bool(t.get("ceil_mode", 0)) and not t.get("auto_pad", "NOTSET").startswith("SAME")
    return kernel, strides, before, after, dilations, ceil


@lowers("MaxPool")
def _max_pool(t: Site, x: Term) -> Term | tuple[Term, Term]:
    facts = _pool_facts(t, x)
    if len(t.node.outputs) < 2 or not t.node.outputs[1]:
        return t.make([x], windows.max_pool, *facts)
    if t.get("storage_order", 0):
        raise UnsupportedError("places counted in columns")
    top, places = t.make_all([x], windows.max_pool_places, *facts)
    image = prod(x.shape[2:])
    t.reserve(prod(x.shape[:2]), 4)
    starts = np.arange(prod(x.shape[:2])).reshape(*x.shape[:2], *(1,) * (x.rank - 2)) * image
    return top, t.make([places, known_term(starts.astype(np.int64))], pointwise.binary, "add", dt.int64)


@lowers("AveragePool")
def _average_pool(t: Site, x: Term) -> Term:
    float_only(x)
    kernel, strides, before, after, dilations, ceil = facts = _pool_facts(t, x)
    counts = bool(t.get("count_include_pad", 0))
    if all(d == 1 for d in dilations):
        return t.make([x], windows.average_pool, kernel, strides, before, after, ceil, counts)
    total = t.make([x], windows.sum_pool, *facts)
    t.reserve(prod(n + a + b for n, a, b in zip(x.shape[2:], before, after)), 2)
    ones = np.ones((1, 1, *x.shape[2:]), np.float32)
    if counts:
        ones = np.pad(ones, [(0, 0), (0, 0), *zip(before, after)], constant_values=1)
        facts = (kernel, strides, (0,) * len(kernel), (0,) * len(kernel), dilations, ceil)
    number = t.make([known_term(ones)], windows.sum_pool, *facts)
    return t.make([total, t.make([number], pointwise.converted, x.dtype)], pointwise.binary, "div", x.dtype)


@lowers("LpPool")
def _power_pool(t: Site, x: Term) -> Term:
    float_only(x)
    order = float(t.get("p", 2))
    powers = t.make([t.make([x], pointwise.same, "abs")], pointwise.unary, "power", x.dtype, order)
    total = t.make([powers], windows.sum_pool, *_pool_facts(t, x))
    return t.make([total], pointwise.unary, "power", x.dtype, 1.0 / order)


@lowers("GlobalAveragePool")
def _global_average(t: Site, x: Term) -> Term:
    return t.make([x], reductions.mean, tuple(range(2, x.rank)), True, x.dtype)


@lowers("GlobalMaxPool")
def _global_max(t: Site, x: Term) -> Term:
    return t.make([x], reductions.extreme, "max", tuple(range(2, x.rank)), True)


@lowers("GlobalLpPool")
def _global_norm(t: Site, x: Term) -> Term:
    return t.make([x], reductions.norm, float(t.get("p", 2)), tuple(range(2, x.rank)), True, x.dtype)
