"""Entries of the table: what is written or found where values say.

Writes to places that integers name (`scatter`, `index_put`) stay torch's own: it raises an error for a place outside,
and a formula that compares every place with every element would pass over it.
"""

from __future__ import annotations

from typing import Any

from weft.graph.formulas import pointwise, reductions, views
from weft.graph.formulas.common import axis, broadcast
from weft.graph.from_torch.table import MOST_COMPARED, Site, lowers
from weft.graph.graph import Edge
from weft.ir.errors import UnsupportedError


@lowers("index_put")
def _index_put(t: Site, x: Edge, indices: Any, values: Edge, accumulate: bool = False) -> str:
    """A mask as the only index, and as many values as one of the elements it picks has: a choice between two."""
    given = [(d, i) for d, i in enumerate(indices) if i is not None]
    if len(given) != 1 or not given[0][1].dtype.is_bool:
        raise UnsupportedError("writing to places that data give")
    start, mask = given[0]
    rest = x.shape[start + len(mask.shape) :]
    if len(values.shape) > len(rest) and any(n != 1 for n in values.shape[: len(values.shape) - len(rest)]):
        raise UnsupportedError("a value for each element that a mask picks")
    own = values.shape[max(0, len(values.shape) - len(rest)) :]
    value = t.edge(t.make([values], views.reshape, own, is_library=False)) if own != values.shape else values
    if accumulate:
        value = t.edge(t.make([x, value], pointwise.binary, "add", x.dtype, is_library=False))
    sizes = (*mask.shape, *(1 for _ in rest))
    test = t.edge(t.make([mask], views.reshape, sizes, is_library=False)) if sizes != mask.shape else mask
    return t.make([test, value, x], pointwise.where, t.dtype, is_library=False)


@lowers("masked_scatter")
def _masked_scatter(t: Site, x: Edge, mask: Edge, source: Edge) -> str:
    """The elements of ``source`` in order where the mask is true: how many were true so far says which."""
    if broadcast(x.shape, mask.shape) != x.shape or not source.count:
        raise UnsupportedError("a mask of more elements than the tensor")
    if mask.shape != x.shape:
        mask = t.edge(t.make([mask], views.expand, x.shape, is_library=False))
    flat = [t.edge(t.make([e], views.reshape, (e.count,), is_library=False)) for e in (x, mask, source)]
    made = t.edge(t.make(flat, reductions.filled_in_order, is_library=False))
    return t.make([made], views.reshape, x.shape, is_library=False)


@lowers("topk")
def _topk(t: Site, x: Edge, k: int, dim: int = -1, largest: bool = True, is_sorted: bool = True) -> tuple[Any, ...]:
    """The values alone: which of equal elements it takes is torch's own secret."""
    if not x.shape or x.shape[dim] > MOST_COMPARED or x.dtype.is_bool or not k:
        raise UnsupportedError("sorting a long axis")
    made = t.make_all([x], reductions.ranked, axis(dim, len(x.shape)), k, largest, is_library=False)
    return made[0], None


@lowers("bucketize.Tensor")
def _bucketize(t: Site, x: Edge, bounds: Edge, *, out_int32: bool = False, right: bool = False) -> str:
    if bounds.count > MOST_COMPARED:
        raise UnsupportedError("searching a long axis")
    return t.make([x, bounds], reductions.counted_below, right, t.dtype)
