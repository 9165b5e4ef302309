"""Tensors put side by side, padded and picked from: piecewise definitions, so that they fuse; and lookups."""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import Any

from weft.graph.formulas.common import affine, at, broadcast, element, shape
from weft.graph.graph import Shape
from weft.ir.dtype import DType
from weft.ir.errors import UnsupportedError
from weft.tensor import python_api as w
from weft.tensor.python_api import Tensor, Value, cast, compute
from weft.tensor.value import as_position, index_value, lift

#: Cases that are asked for one after another; more are halved, so that formulas are not nested deep.
_MOST_IN_A_ROW = 16


def join(*rest: Any) -> Tensor:
    """Tensors one after another along an axis: the tensors, then the axis and the type of the result."""
    *tensors, dim, dtype = rest
    sizes = shape(tensors[0])
    lengths = [shape(t)[dim] for t in tensors]
    ends = list(accumulate(lengths))

    def body(*i: Any) -> Any:
        def piece(n: int) -> Value:
            start = ends[n] - lengths[n]
            return cast(dtype, element(tensors[n], *i[:dim], affine(i[dim], 1, -start), *i[dim + 1 :]))

        def pieces(first: int, last: int) -> Value:
            if first == last:
                return piece(first)
            middle = first if len(tensors) <= _MOST_IN_A_ROW else (first + last) // 2
            return w.select(i[dim] < ends[middle], pieces(first, middle), pieces(middle + 1, last))

        return pieces(0, len(tensors) - 1)

    return compute((*sizes[:dim], ends[-1], *sizes[dim + 1 :]), body, name="O", dtype=dtype)


def copied(x: Tensor, dtype: DType) -> Tensor:
    """The same elements, in another type where that is one."""
    return compute(shape(x), lambda *i: cast(dtype, x[i]), name="O")


def pad(x: Tensor, before: tuple[int, ...], after: tuple[int, ...], mode: Any) -> Tensor:
    """``mode`` is a number, or how the outside follows from the inside: ``edge``, ``wrap``, ``reflect``."""
    sizes = tuple(n + b + a for n, b, a in zip(shape(x), before, after))
    padded = x.outside(mode)
    return compute(sizes, lambda *i: padded[tuple(affine(k, 1, -b) for k, b in zip(i, before))], name="O")


def flip(x: Tensor, over: tuple[int, ...]) -> Tensor:
    sizes = shape(x)
    return compute(
        sizes, lambda *i: x[tuple(affine(k, -1, n - 1) if d in over else k for d, (k, n) in enumerate(zip(i, sizes)))],
        name="O",
    )  # fmt: skip


def roll(x: Tensor, shifts: tuple[int, ...], dims: tuple[int, ...]) -> Tensor:
    sizes = shape(x)
    by = dict(zip(dims, shifts))
    return compute(
        sizes,
        lambda *i: x[
            tuple((k + (-by.get(d, 0)) % n) % n if by.get(d) else k for d, (k, n) in enumerate(zip(i, sizes)))
        ],
        name="O",
    )


def repeat(x: Tensor, times: tuple[int, ...]) -> Tensor:
    """The whole tensor so many times along each axis, new ones in front."""
    old = (1,) * (len(times) - x.ndim) + shape(x)
    sizes = tuple(n * t for n, t in zip(old, times))
    new = len(times) - x.ndim
    return compute(sizes, lambda *i: x[tuple(k % n if n > 1 else 0 for k, n in zip(i[new:], shape(x)))], name="O")


def replaced(x: Tensor, source: Tensor, dim: int, start: int, step: int) -> Tensor:
    """``x`` with ``source`` in place of every ``step``-th slice from ``start`` on."""
    last = start + (shape(source)[dim] - 1) * step

    def body(*i: Any) -> Any:
        k = i[dim]
        inside: Any = w.logical_and(k >= start, k <= last)
        if step > 1:
            inside = w.logical_and(inside, (k - start) % step == 0)
        taken = element(
            source, *i[:dim], affine(k, 1, -start) // step if step > 1 else affine(k, 1, -start), *i[dim + 1 :]
        )
        return w.select(inside, cast(x.dtype, taken), x[i])

    return compute(shape(x), body, name="O")


def _place(index: Value, size: int, counts_back: bool) -> Value:
    """A position that data give; negative ones count from the end where that is asked for."""
    place = index_value(as_position(index, "an index"))
    return w.select(place < 0, place + size, place) if counts_back else place


def rows(table: Tensor, index: Tensor) -> Tensor:
    """Rows of a table that ``index`` names."""
    return compute(
        (*shape(index), *shape(table)[1:]),
        lambda *i: element(table, _place(index[i[: index.ndim]], 0, False), *i[index.ndim :]),
        name="O",
    )


def pick(x: Tensor, index: Tensor, dim: int, counts_back: bool) -> Tensor:
    """Elements along an axis: ``x(i, index(i, j), …)``."""
    size = shape(x)[dim]

    def body(*i: Any) -> Any:
        return x[tuple(_place(index[i], size, counts_back) if d == dim else k for d, k in enumerate(i))]

    return compute(shape(index), body, name="O")


def take(x: Tensor, index: Tensor, dim: int, counts_back: bool) -> Tensor:
    """Slices along an axis, which the axes of ``index`` take the place of."""
    size, rank = shape(x)[dim], index.ndim

    def body(*i: Any) -> Any:
        spot = _place(index[i[dim : dim + rank]], size, counts_back)
        return element(x, *i[:dim], spot, *i[dim + rank :])

    return compute((*shape(x)[:dim], *shape(index), *shape(x)[dim + 1 :]), body, name="O")


def pick_many(x: Tensor, *rest: Any) -> Tensor:
    """``x`` at index tensors, which broadcast, for some axes: the tensors, then the axes they are for.

    Their axes come where the first of them stands, or in front where axes without one stand between.
    """
    *indices, dims = rest
    sizes = shape(x)
    together = broadcast(*(shape(t) for t in indices))
    is_run = all(b == a + 1 for a, b in pairwise(dims))
    front = dims[0] if is_run else 0
    others = [d for d in range(len(sizes)) if d not in dims]
    before = others[:front]
    after = others[front:]

    def body(*i: Any) -> Any:
        picked = i[front : front + len(together)]
        spots: dict[int, Any] = dict(zip(before, i[:front])) | dict(zip(after, i[front + len(together) :]))
        for d, t in zip(dims, indices):
            spots[d] = _place(at(t, picked), sizes[d], True)
        return x[tuple(spots[d] for d in range(len(sizes)))]

    result: Shape = (*(sizes[d] for d in before), *together, *(sizes[d] for d in after))
    return compute(result, body, name="O")


def one_hot(index: Tensor, size: int, dtype: DType) -> Tensor:
    if not index.dtype.is_integer:
        raise UnsupportedError("positions that are not integers")
    return compute(
        (*shape(index), size), lambda *i: cast(dtype, index[i[:-1]] == cast(index.dtype, lift(0) + i[-1])), name="O"
    )


def one_hot_of(index: Tensor, values: Tensor, size: int) -> Tensor:
    """``values[1]`` where ``index`` is the place along a new last axis, ``values[0]`` elsewhere."""

    def body(*i: Any) -> Any:
        place = index[i[:-1]]
        here = w.select(place < 0, place + size, place) == cast(index.dtype, lift(0) + i[-1])
        return w.select(here, values[1], values[0])

    return compute((*shape(index), size), body, name="O")


def pick_slices(x: Tensor, index: Tensor, batch: int) -> Tensor:
    """Slices of ``x`` whose first subscripts are the rows of ``index``; both begin with ``batch`` common axes."""
    sizes, rows = shape(x), shape(index)
    depth = rows[-1]

    def body(*i: Any) -> Any:
        row = i[: len(rows) - 1]
        spots = [_place(element(index, *row, n), sizes[batch + n], True) for n in range(depth)]
        return element(x, *i[:batch], *spots, *i[len(rows) - 1 :])

    return compute((*rows[:-1], *sizes[batch + depth :]), body, name="O")


def reversed_rows(x: Tensor, lengths: Tensor, time: int, batch: int) -> Tensor:
    """The first elements along ``time`` in reverse order, as many as ``lengths`` says for each of ``batch``."""

    def body(*i: Any) -> Any:
        length = _place(lengths[i[batch]], 0, False)
        spot = w.select(i[time] < length, length - 1 - i[time], i[time])
        return x[tuple(spot if d == time else k for d, k in enumerate(i))]

    return compute(shape(x), body, name="O")
