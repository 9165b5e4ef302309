"""Sums, products, extremes and their places along axes, and running sums."""

from __future__ import annotations

from typing import Any, Literal

from weft.graph.formulas.common import count, element, reduce_axes, shape, whole, working_type
from weft.graph.graph import Shape
from weft.ir import dtype as dt
from weft.ir.dtype import DType
from weft.tensor import python_api as w
from weft.tensor.python_api import Tensor, Value, cast, compute
from weft.tensor.value import ReduceAxis, as_position, call, index_value

Kept = dict[int, ReduceAxis]


def _left(sizes: Shape, over: tuple[int, ...], keep: bool) -> Shape:
    if keep:
        return tuple(1 if d in over else n for d, n in enumerate(sizes))
    return tuple(n for d, n in enumerate(sizes) if d not in over)


def reduced(x: Tensor, fn: Any, over: tuple[int, ...], keep: bool, dtype: DType) -> Tensor:
    """``fn(element, axes)`` along the axes ``over``, which go or, with ``keep``, have one element."""
    sizes = shape(x)

    def body(*i: Any) -> Any:
        r = reduce_axes(sizes, over)
        kept = tuple(k for d, k in enumerate(i) if d not in over) if keep else i
        return fn(x[whole(kept, r, len(sizes))], list(r.values()))

    return compute(_left(sizes, over, keep), body, name="O", dtype=dtype)


def total(x: Tensor, over: tuple[int, ...], keep: bool, dtype: DType) -> Tensor:
    return reduced(x, lambda v, r: _sum(cast(working_type(dtype), v), r), over, keep, dtype)


def _sum(v: Value, r: list[ReduceAxis]) -> Value:
    return w.sum(v, over=r) if r else v


def mean(x: Tensor, over: tuple[int, ...], keep: bool, dtype: DType) -> Tensor:
    number = count(tuple(shape(x)[d] for d in over))
    return reduced(x, lambda v, r: _sum(cast(working_type(dtype), v), r) / float(number), over, keep, dtype)


def product(x: Tensor, over: tuple[int, ...], keep: bool, dtype: DType) -> Tensor:
    return reduced(x, lambda v, r: w.prod(cast(working_type(dtype), v), over=r) if r else v, over, keep, dtype)


def extreme(x: Tensor, which: Literal["max", "min"], over: tuple[int, ...], keep: bool) -> Tensor:
    fn = w.max if which == "max" else w.min
    return reduced(x, lambda v, r: fn(v, over=r) if r else v, over, keep, x.dtype)


def any_of(x: Tensor, over: tuple[int, ...], keep: bool, dtype: DType = dt.bool_) -> Tensor:
    return reduced(x, lambda v, r: w.any(v, over=r) if r else v != 0, over, keep, dtype)


def all_of(x: Tensor, over: tuple[int, ...], keep: bool, dtype: DType = dt.bool_) -> Tensor:
    return reduced(x, lambda v, r: w.all(v, over=r) if r else v != 0, over, keep, dtype)


def place_of_extreme(x: Tensor, which: Literal["max", "min"], dim: int, keep: bool) -> Tensor:
    """The first place of the greatest or least element along an axis, as int64."""
    fn = w.argmax if which == "max" else w.argmin
    return reduced(x, lambda v, r: fn(v, over=r[0]), (dim,), keep, dt.int64)


def moments(x: Tensor, over: tuple[int, ...], keep: bool, correction: float) -> tuple[Tensor, Tensor]:
    """Variance and mean along axes; the sum of squares is divided by ``correction`` less than their number."""
    sizes, kind = shape(x), working_type(x.dtype)
    number = count(tuple(sizes[d] for d in over))
    average = reduced(x, lambda v, r: w.sum(cast(kind, v), over=r) / float(number), over, False, kind)

    def spread(*i: Any) -> Any:
        r = reduce_axes(sizes, over)
        kept = tuple(k for d, k in enumerate(i) if d not in over) if keep else i
        off = cast(kind, x[whole(kept, r, len(sizes))]) - average[kept]
        return w.sum(off * off, over=list(r.values())) / max(float(number) - correction, 0.0)

    left = _left(sizes, over, keep)
    variance = compute(left, spread, name="O", dtype=x.dtype)

    def again(*i: Any) -> Any:
        return average[tuple(k for d, k in enumerate(i) if d not in over) if keep else i]

    return variance, compute(left, again, name="Mean", dtype=x.dtype)


def norm(x: Tensor, order: float, over: tuple[int, ...], keep: bool, dtype: DType) -> Tensor:
    """The vector norm of an order along axes."""
    return reduced(x, lambda v, r: norm_of(cast(working_type(dtype), v), order, r), over, keep, dtype)


def norm_of(v: Value, order: float, r: list[ReduceAxis]) -> Value:
    """The vector norm of an order of ``v`` along the axes ``r``."""
    if order == 2:
        return call("sqrt", _sum(v * v, r))
    if order in (float("inf"), float("-inf")):
        return (w.max if order > 0 else w.min)(abs(v), over=r) if r else abs(v)
    if order == 0:
        return _sum(cast(v.dtype, v != 0), r)
    powers = abs(v) if order == 1 else call("pow", abs(v), order)
    return _sum(powers, r) if order == 1 else call("pow", _sum(powers, r), 1.0 / order)


def running(x: Tensor, dim: int, which: Literal["sum", "prod"], dtype: DType) -> Tensor:
    """Sums (or products) of all elements up to each along an axis."""
    kind, sizes = working_type(dtype), shape(x)
    order = (dim, *(d for d in range(len(sizes)) if d != dim))

    def place(t: Any, i: Any) -> tuple[Any, ...]:
        at = dict(zip(order, (t, *i)))
        return tuple(at[d] for d in range(len(sizes)))

    rest = tuple(sizes[d] for d in order[1:])
    start = compute(rest, lambda *i: cast(kind, 0 if which == "sum" else 1), name="Start", dtype=kind)

    def step(t: Any, state: Tensor) -> list[Tensor]:
        def next_one(*i: Any) -> Any:
            value = cast(kind, x[place(t, i)])
            return state[i] + value if which == "sum" else state[i] * value

        return [compute(rest, next_one, name="Next", dtype=kind)]

    (rows,) = w.scan(sizes[dim], [start], step)
    return compute(
        sizes, lambda *i: element(rows, i[dim] + 1, *(k for d, k in enumerate(i) if d != dim)), name="O", dtype=dtype
    )


def filled_in_order(x: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """``x`` with the elements of ``source`` one after another where ``mask`` is true; all have one axis."""
    true = running(mask, 0, "sum", dt.int64)

    def body(i: Any) -> Any:
        place = index_value(as_position(w.maximum(true[i] - 1, cast("int64", 0)), "a place"))
        return w.select(mask[i], source[place], x[i])

    return compute(shape(x), body, name="O")


def counted_below(x: Tensor, bounds: Tensor, or_equal: bool, dtype: DType) -> Tensor:
    """How many of ``bounds``, which are in order, are below each element; what is not a number is above all."""

    def body(*i: Any) -> Any:
        r = reduce_axes(shape(bounds), (0,))[0]
        bound, value = bounds[r], x[i]
        above = bound > value if or_equal else bound >= value
        return w.sum(cast(dtype, w.logical_not(above)), over=r)

    return compute(shape(x), body, name="O", dtype=dtype)


def log_sum_exp(x: Tensor, over: tuple[int, ...], keep: bool) -> Tensor:
    """The logarithm of the sum of exponentials along axes, without overflow."""
    kind = working_type(x.dtype)
    top = extreme(x, "max", over, False)
    finite = compute(shape(top), lambda *i: _finite(cast(kind, top[i])), name="Top", dtype=kind)
    sizes = shape(x)

    def add_up(*i: Any) -> Any:
        r = reduce_axes(sizes, over)
        return _sum(call("exp", cast(kind, x[whole(i, r, len(sizes))]) - finite[i]), list(r.values()))

    sums = compute(shape(top), add_up, name="Sum", dtype=kind)

    def end(*i: Any) -> Any:
        kept = tuple(k for d, k in enumerate(i) if d not in over) if keep else i
        return finite[kept] + call("log", sums[kept])

    return compute(_left(sizes, over, keep), end, name="O", dtype=x.dtype)


def _finite(v: Value) -> Value:
    return w.select(call("isinf", v), cast(v.dtype, 0), v)


def ranked(x: Tensor, dim: int, number: int, largest: bool) -> tuple[Tensor, Tensor]:
    """The first elements along an axis by their order, and their places; of equals the first comes first.

    The rank of an element is how many come before it, so this is for axes of few elements. What is not a number is
    greater than all numbers.
    """
    sizes, n = shape(x), shape(x)[dim]

    def with_place(i: tuple[Any, ...], k: Any) -> tuple[Any, ...]:
        return tuple(k if d == dim else j for d, j in enumerate(i))

    def count_before(*i: Any) -> Any:
        r = reduce_axes((n,), (0,))[0]
        other, own = x[with_place(i, r)], x[i]
        ahead = _is_greater(other, own) if largest else _is_greater(own, other)
        behind = _is_greater(own, other) if largest else _is_greater(other, own)
        tie = w.logical_and(w.logical_not(w.logical_or(ahead, behind)), r < i[dim])
        return w.sum(cast("int64", w.logical_or(ahead, tie)), over=r)

    rank = compute(sizes, count_before, name="Rank", dtype=dt.int64)
    left = (*sizes[:dim], number, *sizes[dim + 1 :])

    def find_place(*i: Any) -> Any:
        r = reduce_axes((n,), (0,))[0]
        here = rank[with_place(i, r)] == cast("int64", i[dim] + 0)
        return w.sum(w.select(here, cast("int64", r + 0), cast("int64", 0)), over=r)

    places = compute(left, find_place, name="Places", dtype=dt.int64)

    def value(*i: Any) -> Any:
        return x[with_place(i, index_value(as_position(places[i], "a place")))]

    return compute(left, value, name="O"), places


def _is_greater(a: Value, b: Value) -> Value:
    if not a.dtype.is_float:
        return a > b
    return w.logical_or(a > b, w.logical_and(call("isnan", a), w.logical_not(call("isnan", b))))
