"""Convolutions and pools: what a window of an image gives, in any number of dimensions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from weft.graph.formulas.common import Indices, affine, count, element, shape, working_type
from weft.graph.graph import Shape
from weft.ir import dtype as dt
from weft.ir.errors import UnsupportedError
from weft.tensor import python_api as w
from weft.tensor.python_api import Tensor, Value, cast, compute, reduce_axis
from weft.tensor.value import as_position, index_value

Ints = tuple[int, ...]


def window_count(facts: Sequence[int], ceil: bool) -> int:
    """How many windows an axis has, by its size and the kernel, stride, padding before and after, and dilation.

    With ``ceil``, one more where the last would begin inside.
    """
    size, kernel, stride, before, after, dilation = facts
    room = size + before + after - dilation * (kernel - 1) - 1
    number = (room + (stride - 1 if ceil else 0)) // stride + 1
    if ceil and (number - 1) * stride >= size + before:
        number -= 1
    return number


def useful_taps(image: Ints, kernel: Ints, facts: Sequence[Ints]) -> tuple[Ints, Ints]:
    """The first of the taps of a window that ever meet the image, along each axis, and how many there are to the last.

    The others, of windows spread further than a small image reaches, multiply zeros. ``facts`` are strides, padding
    before and after, and dilations.
    """
    first, counts = [], []
    for size, taps, stride, before, after, wide in zip(image, kernel, *facts):
        spots = window_count((size, taps, stride, before, after, wide), False)
        starts = [n * stride - before for n in range(spots)]
        met = [k for k in range(taps) if any(0 <= at + k * wide < size for at in starts)] or [0]
        first.append(met[0])
        counts.append(met[-1] - met[0] + 1)
    return tuple(first), tuple(counts)


def convolution(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    strides: Ints,
    before: Ints,
    after: Ints,
    dilations: Ints,
    groups: int,
) -> Tensor:
    """Without flipping, as in neural networks: (N, C, ...) with (F, C / groups, ...)."""
    sizes, taps = shape(x), shape(weight)
    spots = tuple(window_count(facts, False) for facts in zip(sizes[2:], taps[2:], strides, before, after, dilations))
    kind, filters = working_type(x.dtype), taps[0] // groups
    padded = x.outside("zero") if any(before) or any(after) else x

    def body(n: Any, f: Any, *place: Any) -> Any:
        c = reduce_axis(taps[1], "c")
        r = [reduce_axis(k, f"k{d}") for d, k in enumerate(taps[2:])]
        spots_read = _places(place, r, strides, before, dilations)
        channel = c if groups == 1 else f if taps[1] == 1 and filters == 1 else (f // filters) * taps[1] + c
        value = cast(kind, element(padded, n, channel, *spots_read)) * cast(kind, element(weight, f, c, *r))
        return w.sum(value, over=[c, *r])

    result = (sizes[0], taps[0], *spots)
    return _with_bias(result, body, bias, x.dtype)


def convolution_without_bias(x: Tensor, weight: Tensor, *facts: Any) -> Tensor:
    return convolution(x, weight, None, *facts)


def _places(place: tuple[Any, ...], taps: list[Any], strides: Ints, before: Ints, dilations: Ints) -> list[Any]:
    return [affine(p, s) + affine(k, d, -b) for p, k, s, b, d in zip(place, taps, strides, before, dilations)]


def _pooled(
    x: Tensor, fn: Callable[[Tensor, list[Any], tuple[Any, ...], list[Any]], Any], kernel: Ints, *facts: Any
) -> Callable[..., Any]:
    strides, before, dilations = facts

    def body(*i: Any) -> Any:
        front, place = i[: len(i) - len(kernel)], i[len(i) - len(kernel) :]
        r = [reduce_axis(k, f"k{d}") for d, k in enumerate(kernel)]
        return fn(x, _places(place, r, strides, before, dilations), front, r)

    return body


def pool_shape(x: Tensor, kernel: Ints, strides: Ints, before: Ints, after: Ints, dilations: Ints, ceil: bool) -> Shape:
    sizes = shape(x)
    axes = zip(sizes[len(sizes) - len(kernel) :], kernel, strides, before, after, dilations)
    return (*sizes[: len(sizes) - len(kernel)], *(window_count(facts, ceil) for facts in axes))


def max_pool(x: Tensor, kernel: Ints, strides: Ints, before: Ints, after: Ints, dilations: Ints, ceil: bool) -> Tensor:
    """The greatest element of each window; what is outside is less than all."""
    result = pool_shape(x, kernel, strides, before, after, dilations, ceil)
    least = float("-inf") if x.dtype.is_float else x.dtype.min_value
    is_inside = result == pool_shape(x, kernel, strides, (0,) * len(kernel), (0,) * len(kernel), dilations, False)
    source = x if is_inside and not any(before) else x.outside(least)
    body = _pooled(
        source, lambda t, at, front, r: w.max(element(t, *front, *at), over=r), kernel, strides, before, dilations
    )
    return compute(result, body, name="O")


def max_pool_places(
    x: Tensor, kernel: Ints, strides: Ints, before: Ints, after: Ints, dilations: Ints, ceil: bool
) -> tuple[Tensor, Tensor]:
    """As `max_pool`, and where in its image each greatest element first is, counted in rows."""
    top = max_pool(x, kernel, strides, before, after, dilations, ceil)
    image = shape(x)[x.ndim - len(kernel) :]
    least = float("-inf") if x.dtype.is_float else x.dtype.min_value

    def body(*i: Any) -> Any:
        front, place = i[: len(i) - len(kernel)], i[len(i) - len(kernel) :]
        r = [reduce_axis(k, f"k{d}") for d, k in enumerate(kernel)]
        at = _places(place, r, strides, before, dilations)
        inside = [w.logical_and(p >= 0, p < n) for p, n in zip(at, image)]
        return w.min(_spot(element(x.outside(least), *front, *at), top[i], at, image, inside), over=r)

    return top, compute(shape(top), body, name="Places", dtype=dt.int64)


def _all(tests: list[Value]) -> Value:
    together = tests[0]
    for t in tests[1:]:
        together = w.logical_and(together, t)
    return together


def average_pool(
    x: Tensor,
    kernel: Ints,
    strides: Ints,
    before: Ints,
    after: Ints,
    ceil: bool,
    counts_padding: bool,
    divisor: int | None = None,
) -> Tensor:
    """The mean of each window, of its elements inside unless ``counts_padding``."""
    ones = (1,) * len(kernel)
    result = pool_shape(x, kernel, strides, before, after, ones, ceil)
    kind, image = working_type(x.dtype), shape(x)[x.ndim - len(kernel) :]
    spills = any(
        (n - 1) * s - b + k > size + (a if counts_padding else 0)
        for n, k, s, b, a, size in zip(result[x.ndim - len(kernel) :], kernel, strides, before, after, image)
    )
    padded = x.outside("zero") if any(before) or any(after) or spills else x
    body = _pooled(
        padded,
        lambda t, at, front, r: w.sum(cast(kind, element(t, *front, *at)), over=r),
        kernel,
        strides,
        before,
        ones,
    )
    is_whole = divisor is not None or not (spills or (not counts_padding and (any(before) or any(after))))
    total = compute(result, body, name="T", dtype=kind)

    def end(*i: Any) -> Any:
        if is_whole:
            return total[i] / float(divisor or count(kernel))
        number: Any = 1
        for p, k, s, b, a, n in zip(i[len(i) - len(kernel) :], kernel, strides, before, after, image):
            first, limit = affine(p, s, -b), n + a if counts_padding else n
            last = w.minimum(first + k, limit)
            number = number * (last - (first if counts_padding else w.maximum(first, 0)))
        return total[i] / cast(kind, number)

    return compute(result, end, name="O", dtype=x.dtype)


def adaptive_average_pool(x: Tensor, sizes: Ints) -> Tensor:
    """Windows as even as they can be, ``sizes`` of them."""
    image = shape(x)[x.ndim - len(sizes) :]
    if all(n % m == 0 for n, m in zip(image, sizes)):
        kernel = tuple(n // m for n, m in zip(image, sizes))
        zeros = (0,) * len(sizes)
        return average_pool(x, kernel, kernel, zeros, zeros, False, True)
    front, kind = shape(x)[: x.ndim - len(sizes)], working_type(x.dtype)
    padded = x.outside("zero")

    def total(*i: Any) -> Any:
        r, at, inside = _uneven(i[len(front) :], image, sizes)
        value = cast(kind, element(padded, *i[: len(front)], *at))
        return w.sum(w.select(_all(inside), value, cast(kind, 0)), over=r)

    sums = compute((*front, *sizes), total, name="T", dtype=kind)

    def end(*i: Any) -> Any:
        number: Any = 1
        for p, n, m in zip(i[len(front) :], image, sizes):
            number = number * (_ends(p, n, m)[1] - _ends(p, n, m)[0])
        return sums[i] / cast(kind, number)

    return compute((*front, *sizes), end, name="O", dtype=x.dtype)


def adaptive_max_pool(x: Tensor, sizes: Ints) -> tuple[Tensor, Tensor]:
    """The greatest element of each of ``sizes`` windows as even as they can be, and where in the image it first is."""
    image, front = shape(x)[x.ndim - len(sizes) :], shape(x)[: x.ndim - len(sizes)]
    least = float("-inf") if x.dtype.is_float else x.dtype.min_value
    padded = x.outside(least)

    def greatest(*i: Any) -> Any:
        r, at, inside = _uneven(i[len(front) :], image, sizes)
        return w.max(w.select(_all(inside), element(padded, *i[: len(front)], *at), cast(x.dtype, least)), over=r)

    top = compute((*front, *sizes), greatest, name="O", dtype=x.dtype)

    def place(*i: Any) -> Any:
        r, at, inside = _uneven(i[len(front) :], image, sizes)
        return w.min(_spot(element(padded, *i[: len(front)], *at), top[i], at, image, inside), over=r)

    return top, compute((*front, *sizes), place, name="Places", dtype=dt.int64)


def _ends(p: Any, n: int, m: int) -> tuple[Any, Any]:
    """Where window ``p`` of ``m`` in ``n`` elements begins, and where it ends."""
    return (p * n) // m, ((p + 1) * n + m - 1) // m


def _uneven(place: Indices, image: Shape, sizes: Ints) -> tuple[list[Any], list[Any], list[Any]]:
    """Axes over the longest windows, the places they read, and whether each is inside its own window."""
    longest = [max(-(-(p + 1) * n // m) - p * n // m for p in range(m)) for n, m in zip(image, sizes)]
    r = [reduce_axis(k, f"k{d}") for d, k in enumerate(longest)]
    at = [_ends(p, n, m)[0] + k for p, n, m, k in zip(place, image, sizes, r)]
    return r, at, [a < _ends(p, n, m)[1] for a, p, n, m in zip(at, place, image, sizes)]


def _spot(value: Any, top: Any, at: Sequence[Any], image: Shape, inside: list[Any]) -> Value:
    """The place of an element in its image, counted in rows, if it is the greatest; else more than any."""
    spot: Any = 0
    for p, n in zip(at, image):
        spot = spot * n + p
    is_top: Any = value == top
    if value.dtype.is_float:
        is_top = w.logical_or(is_top, w.isnan(value))
    return w.select(w.logical_and(_all(inside), is_top), cast("int64", spot), cast("int64", dt.int64.max_value))


def nearest(x: Tensor, sizes: Ints, scales: tuple[float, ...]) -> Tensor:
    """Each element of a larger or smaller image from the nearest one before it, ``scales`` of whose steps it is."""
    front = shape(x)[: x.ndim - len(sizes)]
    image = shape(x)[x.ndim - len(sizes) :]

    def body(*i: Any) -> Any:
        at = []
        for p, n, m, s in zip(i[len(front) :], image, sizes, scales):
            if m % n == 0 and s == n / m:
                at.append(p // (m // n) if m > n else p)
            elif n % m == 0 and s == n / m:
                at.append(p * (n // m))
            else:
                raise UnsupportedError(f"{n} elements spread over {m}")
        return element(x, *i[: len(front)], *at)

    return compute((*front, *sizes), body, name="O")


def sum_pool(x: Tensor, kernel: Ints, strides: Ints, before: Ints, after: Ints, dilations: Ints, ceil: bool) -> Tensor:
    """The sum of each window; what is outside is zero."""
    result, kind = pool_shape(x, kernel, strides, before, after, dilations, ceil), working_type(x.dtype)
    body = _pooled(
        x.outside("zero"),
        lambda t, at, front, r: w.sum(cast(kind, element(t, *front, *at)), over=r),
        kernel,
        strides,
        before,
        dilations,
    )
    return compute(result, body, name="O", dtype=x.dtype)


def spreads_evenly(image: Ints, kernel: Ints, facts: Sequence[Ints]) -> bool:
    """Whether `spread` can say a transposed convolution of these strides, paddings, dilations and additional rows."""
    steps, around, wide, extra = facts
    sizes = spread_sizes(image, kernel, steps, around, extra)
    even = all(not (k % s or p % s or n % s) for k, s, p, n in zip(kernel, steps, around, sizes))
    return even and all(d == 1 for d in wide)


def spread_sizes(image: Ints, kernel: Ints, steps: Ints, around: Ints, extra: Ints) -> Ints:
    """The sizes of what a transposed convolution makes."""
    return tuple((n - 1) * s + k - 2 * p + e for n, s, k, p, e in zip(image, steps, kernel, around, extra))


def spread(x: Tensor, weight: Tensor, bias: Tensor | None, steps: Ints, around: Ints, sizes: Ints) -> Tensor:
    """A transposed convolution, (N, C, ...) with (C, F, ...): each place is the sum of the taps that reach it.

    A place is a multiple of the stride and what is left of it, so the axes of the result are these two for each of the
    image's: as a reshape of it they are the places themselves. No element is multiplied by a zero between elements.
    """
    taps = [k // s for k, s in zip(shape(weight)[2:], steps)]
    kind, n = working_type(x.dtype), len(steps)
    padded = x if all(t == 1 for t in taps) and not any(around) and _covers(x, steps, sizes) else x.outside("zero")
    result = (shape(x)[0], shape(weight)[1], *(m for size, s in zip(sizes, steps) for m in (size // s, s)))

    def body(b: Any, f: Any, *place: Any) -> Any:
        c = reduce_axis(shape(x)[1], "c")
        r = [reduce_axis(k, f"k{d}") for d, k in enumerate(taps)]
        read = [affine(place[2 * d], 1, around[d] // steps[d]) - r[d] for d in range(n)]
        tap = [place[2 * d + 1] + affine(r[d], steps[d]) for d in range(n)]
        value = cast(kind, element(padded, b, c, *read)) * cast(kind, element(weight, c, f, *tap))
        return w.sum(value, over=[c, *r])

    return _with_bias(result, body, bias, x.dtype)


def gathers_evenly(sizes: Ints, facts: Sequence[Ints]) -> bool:
    """Whether results of `gathered` are groups that the same taps reach, for these strides and dilations."""
    steps, wide = facts
    return all(d == 1 for d in wide) and all(n > 0 and n % s == 0 for n, s in zip(sizes, steps))


def gathered(x: Tensor, weight: Tensor, bias: Tensor | None, steps: Ints, around: Ints, sizes: Ints) -> Tensor:
    """A transposed convolution, (N, C, ...) with (C, F, ...): each place is the sum of the taps that reach it, which
    are those that are a multiple of the stride away from an element."""
    kind, padded = working_type(x.dtype), x.outside("zero")
    result = (shape(x)[0], shape(weight)[1], *sizes)

    def body(b: Any, f: Any, *place: Any) -> Any:
        c = reduce_axis(shape(x)[1], "c")
        r = [reduce_axis(k, f"k{d}") for d, k in enumerate(shape(weight)[2:])]
        at = [affine(p, 1, before) - tap for p, tap, before in zip(place, r, around)]
        read = [a // s if s > 1 else a for a, s in zip(at, steps)]
        value = cast(kind, element(padded, b, c, *read)) * cast(kind, element(weight, c, f, *r))
        tests = [a % s == 0 for a, s in zip(at, steps) if s > 1]
        return w.sum(w.select(_all(tests), value, cast(kind, 0)) if tests else value, over=[c, *r])

    return _with_bias(result, body, bias, x.dtype)


def gathered_without_bias(x: Tensor, weight: Tensor, *facts: Any) -> Tensor:
    return gathered(x, weight, None, *facts)


def _with_bias(result: Shape, body: Callable[..., Any], bias: Tensor | None, dtype: dt.DType) -> Tensor:
    """The sums of ``body``, and what is added to those of each channel."""
    if bias is None:
        return compute(result, body, name="O", dtype=dtype)
    kind = working_type(dtype)
    product = compute(result, body, name="T", dtype=kind)
    return compute(result, lambda *i: product[i] + cast(kind, bias[i[1]]), name="O", dtype=dtype)


def _covers(x: Tensor, steps: Ints, sizes: Ints) -> bool:
    return all(n * s == size for n, s, size in zip(shape(x)[2:], steps, sizes))


def stretched(x: Tensor, steps: Ints, before: Ints, after: Ints) -> Tensor:
    """The image with zeros between its elements, which are ``steps`` apart, and around it (less where negative)."""
    front, image = shape(x)[:2], shape(x)[2:]
    sizes = tuple((n - 1) * s + 1 + b + a for n, s, b, a in zip(image, steps, before, after))
    is_plain = all(s == 1 for s in steps)
    source = x if is_plain and not any(before) and not any(after) else x.outside("zero")

    def body(*i: Any) -> Any:
        places = [affine(p, 1, -b) for p, b in zip(i[2:], before)]
        value = element(source, *i[:2], *(p // s if s > 1 else p for p, s in zip(places, steps)))
        tests = [p % s == 0 for p, s in zip(places, steps) if s > 1]
        return w.select(_all(tests), value, cast(x.dtype, 0)) if tests else value

    return compute((*front, *sizes), body, name="O")


#: Taps up to which a sum of them is written out.
_FEW_TAPS = 32


def resampled(x: Tensor, places: Tensor, weights: Tensor, dim: int) -> Tensor:
    """Along an axis, sums of the elements at ``places``, each (taps, length), with ``weights``."""
    taps, length = shape(places)
    kind = working_type(x.dtype)

    def term(tap: Any, i: Indices) -> Any:
        spot = index_value(as_position(places[tap, i[dim]], "an index"))
        return cast(kind, element(x, *i[:dim], spot, *i[dim + 1 :])) * cast(kind, weights[tap, i[dim]])

    def body(*i: Any) -> Any:
        if taps > _FEW_TAPS:
            return w.sum(term(tap := reduce_axis(taps, "tap"), i), over=[tap])
        total: Any = None
        for n in range(taps):
            value = term(n, i)
            total = value if total is None else total + value
        return total

    return compute((*shape(x)[:dim], length, *shape(x)[dim + 1 :]), body, name="O", dtype=x.dtype)
