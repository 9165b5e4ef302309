"""Entries of the table: reductions, norms, products, convolutions, pools and attention."""

from __future__ import annotations

import math
from typing import Any

from weft.graph.formulas import attention, contraction, joints, normalization, reductions, views, windows
from weft.graph.formulas.common import axes, axis
from weft.graph.from_torch.edge import element_type
from weft.graph.from_torch.known_values import mask_says
from weft.graph.from_torch.table import MOST_COMPARED, Site, lowers, number
from weft.graph.graph import Edge
from weft.ir import dtype as dt
from weft.ir.errors import UnsupportedError


def _dims(x: Edge, dims: Any) -> tuple[int, ...]:
    if isinstance(dims, int):
        dims = [dims]
    return () if not x.shape else axes(dims, len(x.shape))


@lowers("sum.dim_IntList", "sum.default")
def _sum(t: Site, x: Edge, dims: Any = None, keepdim: bool = False, *, dtype: Any = None) -> str:
    return t.make([x], reductions.total, _dims(x, dims), keepdim, t.dtype)


@lowers("mean.dim", "mean.default")
def _mean(t: Site, x: Edge, dims: Any = None, keepdim: bool = False, *, dtype: Any = None) -> str:
    return t.make([x], reductions.mean, _dims(x, dims), keepdim, t.dtype)


@lowers("prod.default", "prod.dim_int")
def _product(t: Site, x: Edge, dims: Any = None, keepdim: bool = False, *, dtype: Any = None) -> str:
    return t.make([x], reductions.product, _dims(x, dims), keepdim, t.dtype)


@lowers("amax", "max.default")
def _greatest(t: Site, x: Edge, dims: Any = None, keepdim: bool = False) -> str:
    return t.make([x], reductions.extreme, "max", _dims(x, dims), keepdim)


@lowers("amin", "min.default")
def _least(t: Site, x: Edge, dims: Any = None, keepdim: bool = False) -> str:
    return t.make([x], reductions.extreme, "min", _dims(x, dims), keepdim)


@lowers("any", "any.dim", "any.dims")
def _any(t: Site, x: Edge, dims: Any = None, keepdim: bool = False) -> str:
    return t.make([x], reductions.any_of, _dims(x, dims), keepdim, t.dtype)


@lowers("all", "all.dim", "all.dims")
def _all(t: Site, x: Edge, dims: Any = None, keepdim: bool = False) -> str:
    return t.make([x], reductions.all_of, _dims(x, dims), keepdim, t.dtype)


@lowers("argmax", "argmin")
def _place(t: Site, x: Edge, dim: Any = None, keepdim: bool = False) -> str:
    if dim is None or not x.shape:
        flat = t.edge(t.make([x], views.reshape, (x.count,), is_library=False))
        place = t.make([flat], reductions.place_of_extreme, t.call.target[8:11], 0, False, is_library=False)
        return t.make([t.edge(place)], views.reshape, t.shape, is_library=False)
    return t.make([x], reductions.place_of_extreme, t.call.target[8:11], axis(dim, len(x.shape)), keepdim)


@lowers("max.dim", "min.dim")
def _extreme_and_place(t: Site, x: Edge, dim: int, keepdim: bool = False) -> tuple[str, str]:
    if not x.shape:
        raise UnsupportedError("an extreme of a number")
    which, d = t.call.target[5:8], axis(dim, len(x.shape))
    value = t.make([x], reductions.extreme, which, (d,), keepdim, is_library=False)
    return value, t.make([x], reductions.place_of_extreme, which, d, keepdim, is_library=False)


@lowers("var.correction", "var.dim")
def _variance(t: Site, x: Edge, dims: Any = None, *args: Any, correction: Any = 1, keepdim: bool = False) -> str:
    if args:
        correction, keepdim = int(args[0]), args[1] if len(args) > 1 else False
    return t.make_all([x], reductions.moments, _dims(x, dims), keepdim, _correction(correction))[0]


@lowers("var_mean.correction")
def _moments(t: Site, x: Edge, dims: Any = None, *, correction: Any = 1, keepdim: bool = False) -> tuple[str, ...]:
    return t.make_all([x], reductions.moments, _dims(x, dims), keepdim, _correction(correction))


def _correction(value: Any) -> float:
    return 1.0 if value is None else float(value)


@lowers("linalg_vector_norm")
def _norm(t: Site, x: Edge, order: Any = 2, dims: Any = None, keepdim: bool = False, *, dtype: Any = None) -> str:
    return t.make([x], reductions.norm, float(number(order)), _dims(x, dims), keepdim, t.dtype)


@lowers("cumsum")
def _cumsum(t: Site, x: Edge, dim: int, *, dtype: Any = None) -> str:
    if not x.shape:
        raise UnsupportedError("a running sum of a number")
    return t.make([x], reductions.running, axis(dim, len(x.shape)), "sum", t.dtype)


@lowers("cumprod")
def _cumprod(t: Site, x: Edge, dim: int, *, dtype: Any = None) -> str:
    if not x.shape:
        raise UnsupportedError("a running product of a number")
    return t.make([x], reductions.running, axis(dim, len(x.shape)), "prod", t.dtype)


@lowers("sort", "sort.stable")
def _sort(t: Site, x: Edge, dim: int = -1, descending: bool = False, *, stable: Any = None) -> tuple[str, ...]:
    """Equals stay in their order, as in torch on CPUs; which of them `topk` takes is torch's own secret."""
    if not x.shape or x.shape[dim] > MOST_COMPARED or x.dtype.is_bool:
        raise UnsupportedError("sorting a long axis")
    return t.make_all([x], reductions.ranked, axis(dim, len(x.shape)), x.shape[dim], descending)


def _softmax(t: Site, x: Edge, dim: int, log: bool, safe: bool = False) -> str:
    if not x.shape:
        raise UnsupportedError("softmax of a number")
    return t.make([x], normalization.softmax, axis(dim, len(x.shape)), t.dtype, log, safe)


lowers("_softmax")(lambda t, x, dim, half: _softmax(t, x, dim, False))
lowers("_log_softmax")(lambda t, x, dim, half: _softmax(t, x, dim, True))
lowers("_safe_softmax")(lambda t, x, dim, dtype=None: _softmax(t, x, dim, False, True))


@lowers("native_layer_norm")
def _layer_norm(t: Site, x: Edge, sizes: Any, gain: Any, shift: Any, epsilon: float) -> tuple[str | None, ...]:
    given = [x, *(e for e in (gain, shift) if e is not None)]
    facts = (gain is not None, shift is not None, len(sizes), float(epsilon))
    made = t.make_all(given, normalization.layer_norm, *facts)
    return tuple(name if t.edge(name).dtype == element_type(said.dtype) else None for name, said in zip(made, t.result))


@lowers("native_group_norm")
def _group_norm(
    t: Site, x: Edge, gain: Any, shift: Any, _n: int, _c: int, _image: int, groups: int, epsilon: float
) -> tuple[str, ...]:
    given = [x, *(e for e in (gain, shift) if e is not None)]
    facts = (gain is not None, shift is not None, groups, float(epsilon))
    return t.make_all(given, normalization.group_norm, *facts)


@lowers("_fused_rms_norm")
def _rms_norm(t: Site, x: Edge, sizes: Any, gain: Any, epsilon: Any) -> tuple[str | None, ...]:
    small = {"float64": 2.220446049250313e-16, "float32": 1.1920928955078125e-07}.get(x.dtype.name)
    if epsilon is None and small is None:
        raise UnsupportedError("the least step of a narrow type")
    given = [x, *([] if gain is None else [gain])]
    made = t.make(given, normalization.rms_norm, gain is not None, len(sizes), float(epsilon or small or 0))
    return made, None


@lowers("_native_batch_norm_legit_no_training")
def _batch_norm(
    t: Site, x: Edge, gain: Any, shift: Any, mean: Edge, variance: Edge, _momentum: float, epsilon: float
) -> tuple[str | None, ...]:
    given = [x, mean, variance, *(e for e in (gain, shift) if e is not None)]
    facts = (gain is not None, shift is not None, float(epsilon))
    return t.make(given, normalization.batch_norm, *facts), None, None


@lowers("native_batch_norm", "_native_batch_norm_legit")
def _batch_norm_either(
    t: Site, x: Edge, gain: Any, shift: Any, mean: Any, variance: Any, training: bool, momentum: float, epsilon: float
) -> tuple[str | None, ...]:
    if training and mean is None:
        return _batch_norm_of_itself(t, x, gain, shift, training, momentum, epsilon)  # type: ignore[return-value]
    if training:
        raise UnsupportedError("statistics of the batch that are kept")
    return _batch_norm(t, x, gain, shift, mean, variance, momentum, epsilon)  # type: ignore[return-value]


@lowers("_native_batch_norm_legit.no_stats")
def _batch_norm_of_itself(
    t: Site, x: Edge, gain: Any, shift: Any, _training: bool, _momentum: float, epsilon: float
) -> tuple[str, ...]:
    given = [x, *(e for e in (gain, shift) if e is not None)]
    return t.make_all(given, normalization.norm_by_channel, gain is not None, shift is not None, float(epsilon))


def _same_type(*edges: Edge) -> None:
    """torch's own operator says what is wrong otherwise, when it is called; while it is traced it does not."""
    if len({e.dtype for e in edges}) > 1:
        raise UnsupportedError("factors of different types")


def _float_only(*edges: Edge, what: str = "products of integers") -> None:
    if not all(e.dtype.is_float for e in edges):
        raise UnsupportedError(what)


@lowers("mm", "bmm", "mv", "dot")
def _matmul(t: Site, a: Edge, b: Edge) -> str:
    _same_type(a, b)
    return t.make([a, b], contraction.matmul)


@lowers("_cdist_forward")
def _distances(t: Site, a: Edge, b: Edge, order: Any, _how: Any) -> str:
    return t.make([a, b], contraction.distances, float(number(order)))


@lowers("addbmm")
def _add_products(t: Site, c: Edge, a: Edge, b: Edge, *, beta: Any = 1, alpha: Any = 1) -> str:
    _float_only(a, b)
    left = t.edge(t.make([a], views.permute, (1, 0, 2), is_library=False))
    left = t.edge(t.make([left], views.reshape, (a.shape[1], a.shape[0] * a.shape[2]), is_library=False))
    right = t.edge(t.make([b], views.reshape, (b.shape[0] * b.shape[1], b.shape[2]), is_library=False))
    return t.make([c, left, right], contraction.add_product, number(beta), number(alpha), is_library=False)


@lowers("addmm", "baddbmm")
def _add_product(t: Site, c: Edge, a: Edge, b: Edge, *, beta: Any = 1, alpha: Any = 1) -> str:
    _float_only(a, b)
    _same_type(c, a, b)
    return t.make([c, a, b], contraction.add_product, number(beta), number(alpha))


@lowers("convolution")
def _convolution(
    t: Site, x: Edge, weight: Edge, bias: Any, strides: Any, padding: Any, dilations: Any, transposed: bool,
    output_padding: Any, groups: int,
) -> str:  # fmt: skip
    _float_only(x, weight)
    _same_type(x, weight)
    n = len(x.shape) - 2
    steps, around, wide, extra = (_pairs(v, n) for v in (strides, padding, dilations, output_padding))
    if transposed and groups == 1:
        image, kernel = x.shape[2:], weight.shape[2:]
        if windows.spreads_evenly(image, kernel, (steps, around, wide, extra)):
            return _spread(t, x, weight, bias, steps, around, extra)
        sizes = windows.spread_sizes(image, kernel, steps, around, extra)
        if windows.gathers_evenly(sizes, (steps, wide)):
            given = [x, weight, *([] if bias is None else [bias])]
            fn = windows.gathered_without_bias if bias is None else windows.gathered
            return t.make(given, fn, steps, around, sizes, is_library=False)
    if transposed:
        x, weight = _turned(t, x, weight, groups, steps, around, wide, extra)
        steps, around = (1,) * n, (0,) * n
    weight, before, after = _cropped(t, x, weight, steps, around, wide)
    given = [x, weight, *([] if bias is None else [bias])]
    fn = windows.convolution_without_bias if bias is None else windows.convolution
    return t.make(given, fn, steps, before, after, wide, groups, is_library=not transposed)


def _cropped(t: Site, x: Edge, weight: Edge, *facts: tuple[int, ...]) -> tuple[Edge, tuple[int, ...], tuple[int, ...]]:
    """The weights without taps that never meet the image, and what is around that then."""
    steps, around, wide = facts
    kernel = weight.shape[2:]
    first, counts = windows.useful_taps(x.shape[2:], kernel, (steps, around, around, wide))
    if counts == kernel:
        return weight, around, around
    sizes = (*weight.shape[:2], *counts)
    part = t.make([weight], views.cut, (0, 0, *first), (1,) * len(sizes), sizes, is_library=False)
    left = tuple(p - f * d for p, f, d in zip(around, first, wide))
    right = tuple(p - (k - f - c) * d for p, k, f, c, d in zip(around, kernel, first, counts, wide))
    return t.edge(part), left, right


def _spread(t: Site, x: Edge, weight: Edge, bias: Any, *facts: tuple[int, ...]) -> str:
    """A transposed convolution whose strides divide all sizes."""
    steps, around, extra = facts
    sizes = windows.spread_sizes(x.shape[2:], weight.shape[2:], steps, around, extra)
    given = [x, weight, *([] if bias is None else [bias])]
    fn = spread_without_bias if bias is None else windows.spread
    made = t.make(given, fn, steps, around, sizes, is_library=False)
    whole = (x.shape[0], weight.shape[1], *sizes)
    return t.make([t.edge(made)], views.reshape, whole, is_library=False)


def spread_without_bias(x: Any, weight: Any, *facts: Any) -> Any:
    return windows.spread(x, weight, None, *facts)


def _turned(t: Site, x: Edge, weight: Edge, groups: int, *facts: tuple[int, ...]) -> tuple[Edge, Edge]:
    """A transposed convolution as a plain one: the image with zeros between its elements, the weights turned around."""
    steps, around, wide, extra = facts
    kernel, n = weight.shape[2:], len(weight.shape) - 2
    before = tuple((k - 1) * d - p for k, d, p in zip(kernel, wide, around))
    after = tuple(b + e for b, e in zip(before, extra))
    stretched = t.make([x], windows.stretched, steps, before, after, is_library=False)
    each = weight.shape[0] // groups
    apart = t.make([weight], views.reshape, (groups, each, *weight.shape[1:]), is_library=False)
    swapped = t.make([t.edge(apart)], views.permute, (0, 2, 1, *range(3, n + 3)), is_library=False)
    sizes = (groups * weight.shape[1], each, *kernel)
    merged = t.make([t.edge(swapped)], views.reshape, sizes, is_library=False)
    flipped = t.make([t.edge(merged)], joints.flip, tuple(range(2, n + 2)), is_library=False)
    return t.edge(stretched), t.edge(flipped)


def _pairs(value: Any, n: int) -> tuple[int, ...]:
    return tuple(value) * (n if len(value) == 1 else 1)


@lowers("max_pool2d_with_indices", "max_pool3d_with_indices")
def _max_pool(
    t: Site, x: Edge, kernel: Any, strides: Any = (), padding: Any = (0,), dilations: Any = (1,), ceil: bool = False
) -> tuple[str, ...]:
    n = 3 if "3d" in t.call.target else 2
    k = _pairs(kernel, n)
    around = _pairs(padding, n)
    facts = (k, _pairs(strides, n) if strides else k, around, around, _pairs(dilations, n), ceil)
    return t.make_all([x], windows.max_pool_places, *facts)


@lowers("avg_pool2d", "avg_pool1d", "avg_pool3d")
def _average_pool(
    t: Site, x: Edge, kernel: Any, strides: Any = (), padding: Any = (0,), ceil: bool = False,
    counts_padding: bool = True, divisor: Any = None,
) -> str:  # fmt: skip
    _float_only(x, what="means of integers")
    n = int(t.call.target.partition("pool")[2][0])
    k, around = _pairs(kernel, n), _pairs(padding, n)
    facts = (k, _pairs(strides, n) if strides else k, around, around, ceil, counts_padding, divisor)
    return t.make([x], windows.average_pool, *facts)


@lowers("_adaptive_avg_pool2d", "adaptive_avg_pool1d", "_adaptive_avg_pool3d")
def _adaptive_pool(t: Site, x: Edge, sizes: Any) -> str:
    return t.make([x], windows.adaptive_average_pool, tuple(sizes))


@lowers("adaptive_max_pool2d", "adaptive_max_pool3d")
def _adaptive_max_pool(t: Site, x: Edge, sizes: Any) -> tuple[str, ...]:
    return t.make_all([x], windows.adaptive_max_pool, tuple(sizes))


@lowers("_scaled_dot_product_flash_attention_for_cpu")
def _attention(
    t: Site, q: Edge, k: Edge, v: Edge, dropout: float = 0.0, causal: bool = False, *, attn_mask: Any = None,
    scale: Any = None,
) -> tuple[str | None, ...]:  # fmt: skip
    if dropout:
        raise UnsupportedError("dropout")
    if q.dtype != dt.float32 and q.dtype != dt.float64 and not q.dtype.is_narrow_float:
        raise UnsupportedError("attention of integers")
    said = None if attn_mask is None or causal else mask_says(t.builder, attn_mask, q.shape[2], k.shape[2])
    if said is not None:
        attn_mask, causal = None, said == "causal"
    factor = 1 / math.sqrt(q.shape[-1]) if scale is None else float(scale)
    shared = q.shape[1] // k.shape[1]
    if causal and attn_mask is None and q.shape[2] <= k.shape[2]:
        return t.make_all([q, k, v], attention.causal_attention, factor, shared)[0], None
    given = [q, k, v, *([] if attn_mask is None else [attn_mask])]
    formula = attention.attention if attn_mask is None else attention.attention_with_zeros
    made = t.make_all(given, formula, attn_mask is not None, causal, factor, shared)
    return made[0], None
