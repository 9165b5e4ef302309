"""Tensors with other elements at places that data give, and images read between their elements."""

from __future__ import annotations

from itertools import product
from typing import Any

from weft.graph.formulas.common import element, reduce_axes, shape, working_type
from weft.graph.formulas.pointwise import BINARY
from weft.tensor import python_api as w
from weft.tensor.python_api import Tensor, Value, cast, compute
from weft.tensor.value import ReduceAxis, as_position, call, index_value, lift


def updated(x: Tensor, index: Tensor, updates: Tensor, dim: int, how: str | None) -> Tensor:
    """``x`` with ``updates`` at the places along ``dim`` that ``index`` says, for each place of the other axes or with
    one axis for all of them; as they are, the last of several, or put together by a function.

    Each element looks for the updates that are for it: places outside are passed over.
    """
    size, rank = shape(x)[dim], x.ndim
    row = index.ndim - 1 if index.ndim < rank else dim

    def is_here(i: tuple[Any, ...], r: ReduceAxis) -> Value:
        place = index[tuple(r if d == row else k for d, k in enumerate(i[: index.ndim]))]
        place = w.select(place < 0, place + size, place)
        return place == cast(index.dtype, lift(0) + i[row])

    def others(i: tuple[Any, ...], at: Any) -> Value:
        return updates[tuple(at if d == dim else k for d, k in enumerate(i))]

    if how is not None:
        return _combined(x, shape(index)[row], is_here, others, how)

    def last(*i: Any) -> Any:
        r = reduce_axes(shape(index), (row,))[row]
        return w.max(w.select(is_here(i, r), cast("int32", lift(0) + r), cast("int32", -1)), over=r)

    sizes = shape(x) if index.ndim == rank else (size,)
    source = compute(sizes, last, name="S", dtype="int32")

    def body(*i: Any) -> Value:
        n = source[i[: len(sizes)]]
        at = index_value(as_position(w.maximum(n, cast("int32", 0)), "a place"))
        return w.select(n >= 0, others(i, at), x[i])

    return compute(shape(x), body, name="O")


def _combined(x: Tensor, number: int, is_here: Any, others: Any, how: str) -> Tensor:
    kind = working_type(x.dtype)

    def gathered(*i: Any) -> Any:
        r = w.reduce_axis(number, "r")
        old, new = cast(kind, x[i]), cast(kind, others(i, r))
        if how in ("add", "mul"):
            none = cast(kind, 0 if how == "add" else 1)
            fold: Any = w.sum if how == "add" else w.prod
            return fold(w.select(is_here(i, r), new, none), over=r)
        fold = w.max if how == "maximum" else w.min
        return fold(w.select(is_here(i, r), new, old), over=r)

    found = compute(shape(x), gathered, name="T", dtype=kind)
    return compute(shape(x), lambda *i: BINARY[how](cast(kind, x[i]), found[i]), name="O", dtype=x.dtype)


def sampled(x: Tensor, grid: Tensor, mode: str, outside: str, to_corners: bool) -> Tensor:
    """An image (N, C, ...) at places (N, ..., axes) of -1 to 1 for each, the last axis first.

    ``mode`` is nearest, linear or cubic; ``outside`` is zeros, border or reflection.
    """
    image, spots = shape(x)[2:], shape(grid)[1:-1]
    kind, rank = working_type(grid.dtype), len(image)

    def body(n: Any, c: Any, *i: Any) -> Value:
        at = [_in_image(cast(kind, element(grid, n, *i, rank - 1 - d)), m, to_corners) for d, m in enumerate(image)]
        if mode != "cubic":
            at = [_moved_inside(v, m, outside, to_corners) for v, m in zip(at, image)]
        taps = [_taps(v, mode) for v in at]
        total: Value | None = None
        for corner in product(*taps):
            places = [p for p, _ in corner]
            if mode == "cubic":  # whose taps reach far enough to be outside even of a place that is inside
                places = [_moved_inside(p, m, outside, to_corners) for p, m in zip(places, image)]
            term = cast(kind, _read(x, n, c, places, image))
            for _, weight in corner:
                term = term if weight is None else term * weight
            total = term if total is None else total + term
        return total if total is not None else cast(kind, 0)

    return compute((*shape(x)[:2], *spots), body, name="O", dtype=x.dtype)


def _in_image(v: Value, size: int, to_corners: bool) -> Value:
    """From -1 to 1 to places in the image; 1 is the last element, or its far end."""
    return (v + 1) * ((size - 1) / 2) if to_corners else (v + 1) * (size / 2) - 0.5


def _moved_inside(v: Value, size: int, outside: str, to_corners: bool) -> Value:
    last = float(size - 1)
    if outside == "reflection":
        low, span = (0.0, last) if to_corners else (-0.5, float(size))
        if span == 0:
            return v * 0
        off = abs(v - low)
        turns = call("floor", off / span)
        rest = off - turns * span
        is_odd = turns - call("floor", turns / 2) * 2 == 1
        v = w.select(is_odd, span - rest, rest) + low
    if outside != "zeros":
        v = w.minimum(w.maximum(v, cast(v.dtype, 0)), cast(v.dtype, last))
    return v


def _taps(v: Value, mode: str) -> list[tuple[Value, Value | None]]:
    """Places, whole numbers in floats, and their weights."""
    if mode == "nearest":
        return [(call("rint", v), None)]
    first = call("floor", v)
    off = v - first
    if mode == "linear":
        return [(first, 1 - off), (first + 1, off)]
    return [(first + n, _cubic(abs(off - n), abs(n - 0.5) > 1)) for n in (-1, 0, 1, 2)]


def _cubic(off: Value, is_far: bool) -> Value:
    a = -0.75
    if is_far:
        return ((a * off - 5 * a) * off + 8 * a) * off - 4 * a
    return ((a + 2) * off - (a + 3)) * off * off + 1


def _read(x: Tensor, n: Any, c: Any, places: list[Value], image: tuple[int, ...]) -> Value:
    """The element at places in floats; zero outside."""
    inside: Value | None = None
    spots = []
    for place, size in zip(places, image):
        is_in = w.logical_and(place >= 0, place <= float(size - 1))
        inside = is_in if inside is None else w.logical_and(inside, is_in)
        near = w.select(is_in, place, place * 0)
        spots.append(index_value(as_position(cast("int32", near), "a place")))
    value = element(x, n, c, *spots)
    return value if inside is None else w.select(inside, value, cast(x.dtype, 0))
