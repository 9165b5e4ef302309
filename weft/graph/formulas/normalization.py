"""Softmax and the normalizations: each whole, so that its schedule is chosen and not taken apart."""

from __future__ import annotations

from typing import Any

from weft.graph.formulas.common import count, element, reduce_axes, shape, whole, working_type
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


def layer_norm(x: Tensor, *rest: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Normalized over the last ``axes``, with the mean and reciprocal deviation that it used.

    After ``x`` come the tensors of gain and shift that there are, then: which there are, how many axes, epsilon.
    """
    *given, has_gain, has_shift, axes, epsilon = rest
    gain = given[0] if has_gain else None
    shift = given[-1] if has_shift else None
    sizes, kind = shape(x), working_type(x.dtype)
    front = len(sizes) - axes
    over, number = tuple(range(front, len(sizes))), float(count(sizes[front:]))
    ones = (1,) * axes

    def average(*i: Any) -> Any:
        r = reduce_axes(sizes, over)
        return w.sum(cast(kind, x[whole(i, r, len(sizes))]), over=list(r.values())) / number

    mean = compute(sizes[:front], average, name="Mu", dtype=kind)

    def spread(*i: Any) -> Any:
        r = reduce_axes(sizes, over)
        off = cast(kind, x[whole(i, r, len(sizes))]) - mean[i]
        return w.sum(off * off, over=list(r.values()))

    squares = compute(sizes[:front], spread, name="Q", dtype=kind)
    root = compute(sizes[:front], lambda *i: call("rsqrt", squares[i] / number + epsilon), name="R", dtype=kind)

    def end(*i: Any) -> Any:
        value = (cast(kind, x[i]) - mean[i[:front]]) * root[i[:front]]
        value = value if gain is None else value * cast(kind, gain[i[front:]])
        return value if shift is None else value + cast(kind, shift[i[front:]])

    result = compute(sizes, end, name="O", dtype=x.dtype)
    kept = (*sizes[:front], *ones)
    return (
        result,
        compute(kept, lambda *i: mean[i[:front]], name="Mean", dtype=x.dtype if not x.dtype.is_float else kind),
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
    gain = given[0] if has_gain else None
    shift = given[-1] if has_shift else None
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
    gain = given[0] if has_gain else None
    shift = given[-1] if has_shift else None
    sizes, kind = shape(x), working_type(x.dtype)
    each = sizes[1] // groups
    inner = (each, *sizes[2:])
    number = float(count(inner))

    def inside(n: Any, g: Any, r: list[Any]) -> Any:
        return cast(kind, element(x, n, g * each + r[0], *r[1:]))

    def axes_inside() -> list[Any]:
        return list(reduce_axes(inner, range(len(inner))).values())

    def average(n: Any, g: Any) -> Any:
        r = axes_inside()
        return w.sum(inside(n, g, r), over=r) / number

    mean = compute((sizes[0], groups), average, name="Mu", dtype=kind)

    def spread(n: Any, g: Any) -> Any:
        r = axes_inside()
        off = inside(n, g, r) - mean[n, g]
        return w.sum(off * off, over=r)

    squares = compute((sizes[0], groups), spread, name="Q", dtype=kind)
    root = compute(
        (sizes[0], groups), lambda n, g: call("rsqrt", squares[n, g] / number + epsilon), name="Rstd", dtype=kind
    )

    def end(n: Any, c: Any, *place: Any) -> Any:
        g = c // each
        value = (cast(kind, element(x, n, c, *place)) - mean[n, g]) * root[n, g]
        value = value if gain is None else value * cast(kind, gain[c])
        return value if shift is None else value + cast(kind, shift[c])

    result = compute(sizes, end, name="O", dtype=x.dtype)
    return result, compute((sizes[0], groups), lambda n, g: mean[n, g], name="Mean", dtype=kind), root
