"""What the formulas share: shapes as numbers, types to compute in, subscripts that broadcast."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from weft.graph.graph import Shape, shape_of
from weft.ir import dtype as dt
from weft.ir.dtype import DType, promote
from weft.ir.errors import UnsupportedError
from weft.tensor.python_api import Tensor, Value, compute, reduce_axis
from weft.tensor.python_api import sum as add_up
from weft.tensor.value import Operand, ReduceAxis

Indices = tuple[Any, ...]


def shape(x: Tensor) -> Shape:
    return shape_of(x.buffer.shape)


def working_type(*types: DType) -> DType:
    """What to compute in for operands of these ``types``: floats of at least 32 bits, else what they promote to."""
    common = types[0]
    for t in types[1:]:
        common = promote(common, t)
    return dt.float32 if common.is_narrow_float else common


def axis(number: int, rank: int) -> int:
    """An axis counted from the front."""
    if not -max(rank, 1) <= number < max(rank, 1):
        raise UnsupportedError(f"axis {number} of a tensor of {rank} dimensions")
    return number % max(rank, 1)


def axes(numbers: Sequence[int] | None, rank: int) -> tuple[int, ...]:
    """Axes counted from the front, in order; all where none are given."""
    return tuple(range(rank)) if not numbers else tuple(sorted(axis(n, rank) for n in numbers))


def broadcast(*shapes: Shape) -> Shape:
    """The shape of tensors that are repeated along axes of one element to fit each other."""
    rank = max(map(len, shapes), default=0)
    padded = [(1,) * (rank - len(s)) + s for s in shapes]
    result = tuple(max(sizes) if 0 not in sizes else 0 for sizes in zip(*padded))
    if any(n not in (1, r) for s in padded for n, r in zip(s, result)):
        raise UnsupportedError(f"shapes {', '.join(map(str, shapes))} do not broadcast")
    return result


def at(x: Tensor, indices: Indices) -> Value:
    """The element of ``x`` that broadcasting puts at ``indices``."""
    own = indices[len(indices) - x.ndim :]
    return x[tuple(i if n > 1 else 0 for i, n in zip(own, shape(x)))]


def element(x: Tensor, *indices: Any) -> Value:
    """``x[indices]``."""
    return x[indices]


def elementwise(fn: Callable[..., Operand], *tensors: Tensor, dtype: DType, name: str = "O") -> Tensor:
    """``fn`` of the elements that broadcasting brings together, rounded to ``dtype``."""
    sizes = broadcast(*(shape(t) for t in tensors))
    # One of the whole shape is read under the subscripts of the result, also along axes of one element: in place.
    return compute(
        sizes, lambda *i: fn(*(t[i] if shape(t) == sizes else at(t, i) for t in tensors)), name=name, dtype=dtype
    )


def reduce_axes(sizes: Shape, over: Sequence[int]) -> dict[int, ReduceAxis]:
    return {d: reduce_axis(sizes[d], f"r{d}") for d in over}


def whole(kept: Indices, reduced: dict[int, ReduceAxis], rank: int) -> Indices:
    """Subscripts of a tensor some of whose axes are reduced over, from those of what is left."""
    rest = iter(kept)
    return tuple(reduced[d] if d in reduced else next(rest) for d in range(rank))


def affine(i: Any, step: int, start: int = 0) -> Any:
    """``i * step + start``, written as shortly as it can be."""
    scaled = i if step == 1 else i * step
    return scaled if start == 0 else scaled + start


def count(sizes: Shape) -> int:
    return prod(sizes)


def row_moments(read: Callable[[Indices, list[Any]], Value], outer: Shape, inner: Shape, kind: DType) -> list[Tensor]:
    """Mean and sum of squared distances from it of each row; ``read(i, r)`` is element ``r`` of row ``i``."""
    number = float(count(inner))

    def average(*i: Any) -> Value:
        r = list(reduce_axes(inner, range(len(inner))).values())
        return add_up(read(i, r), over=r) / number

    mean = compute(outer, average, name="Mu", dtype=kind)

    def spread(*i: Any) -> Value:
        r = list(reduce_axes(inner, range(len(inner))).values())
        off = read(i, r) - mean[i]
        return add_up(off * off, over=r)

    return [mean, compute(outer, spread, name="Q", dtype=kind)]
