"""Sums of products: matrices, batches of them, linear layers, general contractions."""

from __future__ import annotations

from typing import Any

from weft.graph.formulas.common import at, broadcast, element, shape, working_type
from weft.graph.formulas.reductions import norm_of
from weft.ir.dtype import DType
from weft.ir.errors import UnsupportedError
from weft.tensor import python_api as w
from weft.tensor.python_api import Tensor, Value, cast, compute, reduce_axis


def _times(a: Value, b: Value, dtype: DType) -> Value:
    kind = working_type(dtype)
    return cast(kind, a) * cast(kind, b)


def matmul(a: Tensor, b: Tensor) -> Tensor:
    """Products of matrices, with batches in front that broadcast; vectors as rows on the left, columns on the right."""
    left = shape(a) if a.ndim > 1 else (1, *shape(a))
    right = shape(b) if b.ndim > 1 else (*shape(b), 1)
    if left[-1] != right[-2]:
        raise UnsupportedError(f"matrices of shapes {shape(a)} and {shape(b)} do not fit")
    batch = broadcast(left[:-2], right[:-2])
    rows, columns = left[-2:-1] if a.ndim > 1 else (), right[-1:] if b.ndim > 1 else ()

    def body(*i: Any) -> Any:
        k = reduce_axis(left[-1], "k")
        own, ends = i[: len(batch)], list(i[len(batch) :])
        row = (ends.pop(0),) if rows else ()
        x = _batched(a, own, (*row, k))
        return w.sum(_times(x, _batched(b, own, (k, *ends)), a.dtype), over=k)

    return compute((*batch, *rows, *columns), body, name="O", dtype=a.dtype)


def _batched(x: Tensor, own: tuple[Any, ...], last: tuple[Any, ...]) -> Value:
    """An element of a matrix or vector, whose batch broadcasts."""
    front = own[len(own) - (x.ndim - len(last)) :]
    return element(x, *(i if n > 1 else 0 for i, n in zip(front, shape(x))), *last)


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``x`` times transposed weights, and a bias."""
    sizes, kind = shape(x), working_type(x.dtype)

    def body(*i: Any) -> Any:
        k = reduce_axis(sizes[-1], "k")
        return w.sum(_times(element(x, *i[:-1], k), weight[i[-1], k], x.dtype), over=k)

    result = (*sizes[:-1], shape(weight)[0])
    if bias is None:
        return compute(result, body, name="O", dtype=x.dtype)
    product = compute(result, body, name="T", dtype=kind)
    return compute(result, lambda *i: product[i] + cast(kind, bias[i[-1]]), name="O", dtype=x.dtype)


def add_product(c: Tensor, a: Tensor, b: Tensor, beta: Any, alpha: Any) -> Tensor:
    """``beta * c + alpha * (a b)`` of matrices or batches of them; ``c`` broadcasts."""
    kind = working_type(a.dtype)
    sizes = (*shape(a)[:-1], shape(b)[-1])

    def body(*i: Any) -> Any:
        k = reduce_axis(shape(a)[-1], "k")
        return w.sum(_times(element(a, *i[:-1], k), element(b, *i[:-2], k, i[-1]), a.dtype), over=k)

    product = compute(sizes, body, name="T", dtype=kind)

    def end(*i: Any) -> Any:
        value = product[i] if alpha == 1 else product[i] * cast(kind, alpha)
        if beta == 0:
            return value
        addend = cast(kind, at(c, i))
        return value + (addend if beta == 1 else addend * cast(kind, beta))

    return compute(sizes, end, name="O", dtype=a.dtype)


def distances(a: Tensor, b: Tensor, order: float) -> Tensor:
    """Between rows of two matrices, or of batches of them: the norm of an order of each difference."""
    kind, batch = working_type(a.dtype), broadcast(shape(a)[:-2], shape(b)[:-2])

    def body(*i: Any) -> Any:
        k = reduce_axis(shape(a)[-1], "k")
        x, y = _batched(a, i[:-2], (i[-2], k)), _batched(b, i[:-2], (i[-1], k))
        return norm_of(cast(kind, x) - cast(kind, y), order, [k])

    return compute((*batch, shape(a)[-2], shape(b)[-2]), body, name="O", dtype=a.dtype)


def outer(a: Tensor, b: Tensor) -> Tensor:
    return compute((*shape(a), *shape(b)), lambda i, j: a[i] * b[j], name="O")


def einsum(*rest: Any) -> Tensor:
    """A sum of products by letters for subscripts: the tensors, then the letters of each and those of the result.

    Axes of one element broadcast; a letter twice in one tensor is its diagonal.
    """
    *tensors, letters, result = rest
    sizes: dict[str, int] = {}
    for x, names in zip(tensors, letters):
        for name, n in zip(names, shape(x)):
            if n != sizes.get(name, n) and 1 not in (n, sizes[name]):
                raise UnsupportedError(f"{name} is {sizes[name]} and {n}")
            sizes[name] = max(n, sizes.get(name, 1))
    kind = working_type(tensors[0].dtype)

    def body(*i: Any) -> Any:
        places: dict[str, Any] = dict(zip(result, i))
        over = {name: reduce_axis(n, f"r{name}") for name, n in sizes.items() if name not in places}
        places |= over
        product: Any = None
        for x, names in zip(tensors, letters):
            value = cast(kind, x[tuple(places[c] if n > 1 else 0 for c, n in zip(names, shape(x)))])
            product = value if product is None else product * value
        return w.sum(product, over=list(over.values())) if over else product

    return compute(tuple(sizes[name] for name in result), body, name="O", dtype=tensors[0].dtype)
