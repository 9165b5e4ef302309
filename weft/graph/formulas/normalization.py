"""Softmax and the normalizations: each whole, so that its schedule is chosen and not taken apart."""

from __future__ import annotations

from typing import Any

from weft.graph.formulas.common import count, element, reduce_axes, row_moments, shape, whole, working_type
from weft.ir.dtype import DType
from weft.tensor import python_api as w
from weft.tensor.python_api import Tensor, cast, compute
from weft.tensor.value import call


def softmax(x: Tensor, dim: int, dtype: DType, log: bool, safe: bool = False) -> Tensor:
    """Stable softmax (or its logarithm) along an axis; with ``safe``, rows of -inf alone give zeros."""
    sizes, kind = shape(x), working_type(dtype)
    rest = tuple(n for d, n in enumerate(sizes) if d != dim)

    def row(i: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(k for d, k in enumerate(i) if d != dim)

    def greatest(*i: Any) -> Any:
        r = reduce_axes(sizes, (dim,))
        return w.max(cast(kind, x[whole(i, r, len(sizes))]), over=list(r.values()))

    top = compute(rest, greatest, name="Top", dtype=kind)
    if safe:
        found = top
        top = compute(rest, lambda *i: w.select(found[i] == float("-inf"), cast(kind, 0), found[i]), name="Finite")
    off = compute(sizes, lambda *i: cast(kind, x[i]) - top[row(i)], name="Off", dtype=kind)
    power = compute(sizes, lambda *i: call("exp", off[i]), name="E", dtype=kind)

    def add_up(*i: Any) -> Any:
        r = reduce_axes(sizes, (dim,))
        return w.sum(power[whole(i, r, len(sizes))], over=list(r.values()))

    total = compute(rest, add_up, name="Total", dtype=kind)
    if log:
        return compute(sizes, lambda *i: off[i] - call("log", total[row(i)]), name="O", dtype=dtype)
    if safe:
        return compute(
            sizes,
            lambda *i: w.select(total[row(i)] == 0, cast(kind, 0), power[i] / total[row(i)]),
            name="O",
            dtype=dtype,
        )
    return compute(sizes, lambda *i: power[i] / total[row(i)], name="O", dtype=dtype)


def _affine(given: list[Any], has_gain: bool, has_shift: bool) -> tuple[Tensor | None, Tensor | None]:
    """Gain and shift, of the tensors that there are."""
    return (given[0] if has_gain else None), (given[-1] if has_shift else None)


def _scaled(value: Any, gain: Tensor | None, shift: Tensor | None, at: tuple[Any, ...], kind: DType) -> Any:
    value = value if gain is None else value * cast(kind, gain[at])
    return value if shift is None else value + cast(kind, shift[at])


def layer_norm(x: Tensor, *rest: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Normalized over the last ``axes``, with the mean and reciprocal deviation that it used.

    After ``x`` come the tensors of gain and shift that there are, then: which there are, how many axes, epsilon.
    """
    *given, has_gain, has_shift, axes, epsilon = rest
    gain, shift = _affine(given, has_gain, has_shift)
    sizes, kind = shape(x), working_type(x.dtype)
    front = len(sizes) - axes
    outer, inner = sizes[:front], sizes[front:]
    mean, squares = row_moments(lambda i, r: cast(kind, element(x, *i, *r)), outer, inner, kind)
    number = float(count(inner))
    root = compute(outer, lambda *i: call("rsqrt", squares[i] / number + epsilon), name="R", dtype=kind)

    def end(*i: Any) -> Any:
        value = (cast(kind, x[i]) - mean[i[:front]]) * root[i[:front]]
        return _scaled(value, gain, shift, i[front:], kind)

    kept = (*outer, *(1,) * axes)
    return (
        compute(sizes, end, name="O", dtype=x.dtype),
        compute(kept, lambda *i: mean[i[:front]], name="Mean", dtype=kind),
        compute(kept, lambda *i: root[i[:front]], name="Rstd", dtype=kind),
    )


def rms_norm(x: Tensor, *rest: Any) -> Tensor:
    """Over the last ``axes``: after ``x`` the gain, where there is one; whether, how many axes, epsilon."""
    *given, has_gain, axes, epsilon = rest
    gain = given[0] if has_gain else None
    sizes, kind = shape(x), working_type(x.dtype)
    front = len(sizes) - axes
    over, number = tuple(range(front, len(sizes))), float(count(sizes[front:]))

    def spread(*i: Any) -> Any:
        r = reduce_axes(sizes, over)
        value = cast(kind, x[whole(i, r, len(sizes))])
        return w.sum(value * value, over=list(r.values()))

    squares = compute(sizes[:front], spread, name="Q", dtype=kind)
    root = compute(sizes[:front], lambda *i: call("rsqrt", squares[i] / number + epsilon), name="R", dtype=kind)

    def end(*i: Any) -> Any:
        value = cast(kind, x[i]) * root[i[:front]]
        return value if gain is None else value * cast(kind, gain[i[front:]])

    return compute(sizes, end, name="O", dtype=x.dtype)


def batch_norm(x: Tensor, mean: Tensor, variance: Tensor, *rest: Any) -> Tensor:
    """With statistics given, by channel: then gain and shift where they are; whether each is there, epsilon."""
    *given, has_gain, has_shift, epsilon = rest
    gain, shift = _affine(given, has_gain, has_shift)
    kind = working_type(x.dtype, mean.dtype)

    def end(*i: Any) -> Any:
        c = i[1]
        root = call("rsqrt", cast(kind, variance[c]) + epsilon)
        scale = root if gain is None else root * cast(kind, gain[c])
        value = (cast(kind, x[i]) - cast(kind, mean[c])) * scale
        return value if shift is None else value + cast(kind, shift[c])

    return compute(shape(x), end, name="O", dtype=x.dtype)


def group_norm(x: Tensor, *rest: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Over the channels and image of each group, with mean and reciprocal deviation of each.

    After ``x`` the gain and shift that there are; whether each is there, the number of groups, epsilon.
    """
    *given, has_gain, has_shift, groups, epsilon = rest
    gain, shift = _affine(given, has_gain, has_shift)
    sizes, kind = shape(x), working_type(x.dtype)
    each = sizes[1] // groups
    outer, inner = (sizes[0], groups), (each, *sizes[2:])

    def inside(i: Any, r: list[Any]) -> Any:
        return cast(kind, element(x, i[0], i[1] * each + r[0], *r[1:]))

    mean, squares = row_moments(inside, outer, inner, kind)
    number = float(count(inner))
    root = compute(outer, lambda *i: call("rsqrt", squares[i] / number + epsilon), name="Rstd", dtype=kind)

    def end(n: Any, c: Any, *place: Any) -> Any:
        value = (cast(kind, element(x, n, c, *place)) - mean[n, c // each]) * root[n, c // each]
        return _scaled(value, gain, shift, (c,), kind)

    result = compute(sizes, end, name="O", dtype=x.dtype)
    return result, compute(outer, lambda *i: mean[i], name="Mean", dtype=kind), root


def norm_by_channel(x: Tensor, *rest: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Over the batch and image of each channel (instance norm: of one image), with mean and reciprocal deviation.

    After ``x`` the gain and shift that there are; whether each is there, epsilon.
    """
    *given, has_gain, has_shift, epsilon = rest
    gain, shift = _affine(given, has_gain, has_shift)
    sizes, kind = shape(x), working_type(x.dtype)
    inner = (sizes[0], *sizes[2:])
    mean, squares = row_moments(lambda i, r: cast(kind, element(x, r[0], *i, *r[1:])), sizes[1:2], inner, kind)
    number = float(count(inner))
    root = compute(sizes[1:2], lambda c: call("rsqrt", squares[c] / number + epsilon), name="Rstd", dtype=kind)

    def end(*i: Any) -> Any:
        return _scaled((cast(kind, x[i]) - mean[i[1]]) * root[i[1]], gain, shift, (i[1],), kind)

    return (
        compute(sizes, end, name="O", dtype=x.dtype),
        compute(sizes[1:2], lambda c: mean[c], name="Mean", dtype=kind),
        root,
    )


def local_response(x: Tensor, size: int, alpha: float, beta: float, bias: float) -> Tensor:
    """Divided by a power of the squares of the channels around each, ``size`` of them."""
    kind, before, padded = working_type(x.dtype), (size - 1) // 2, x.outside("zero")

    def around(n: Any, c: Any, *place: Any) -> Any:
        r = reduce_axes((size,), (0,))[0]
        value = cast(kind, element(padded, n, c + r - before, *place))
        return w.sum(value * value, over=r)

    squares = compute(shape(x), around, name="Q", dtype=kind)

    def end(*i: Any) -> Any:
        return cast(kind, x[i]) / call("pow", squares[i] * (alpha / size) + bias, beta)

    return compute(shape(x), end, name="O", dtype=x.dtype)
