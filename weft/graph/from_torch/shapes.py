"""Entries of the table: views, joints, lookups, and tensors made from nothing."""

from __future__ import annotations

from typing import Any

from weft.graph.formulas import joints, pointwise, views
from weft.graph.formulas.common import axes, axis
from weft.graph.from_torch.table import Site, lowers, number
from weft.graph.graph import Edge
from weft.ir.errors import UnsupportedError


@lowers("view", "_unsafe_view", "reshape", "view.dtype")
def _reshape(t: Site, x: Edge, sizes: Any) -> str:
    if not isinstance(sizes, (tuple, list)):
        raise UnsupportedError("bits under another type")
    return t.make([x], views.reshape, t.shape)


@lowers("unsqueeze", "squeeze", "squeeze.dim", "squeeze.dims", "flatten.using_ints", "alias", "detach")
def _same_elements(t: Site, x: Edge, *_: Any) -> str:
    return t.make([x], views.reshape, t.shape)


@lowers("permute")
def _permute(t: Site, x: Edge, order: Any) -> str:
    return t.make([x], views.permute, tuple(axis(d, len(x.shape)) for d in order))


@lowers("transpose.int", "t")
def _transpose(t: Site, x: Edge, first: int = 0, second: int = 1) -> str:
    order = list(range(len(x.shape)))
    if len(order) > 1:
        a, b = axis(first, len(order)), axis(second, len(order))
        order[a], order[b] = order[b], order[a]
    return t.make([x], views.permute, tuple(order))


@lowers("expand")
def _expand(t: Site, x: Edge, _sizes: Any, *, implicit: bool = False) -> str:
    return t.make([x], views.expand, t.shape)


@lowers("slice.Tensor")
def _slice(t: Site, x: Edge, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> str:
    d = axis(dim, len(x.shape))
    begin = _clamped(0 if start is None else start, x.shape[d])
    rank = range(len(x.shape))
    starts, steps = tuple(begin if n == d else 0 for n in rank), tuple(step if n == d else 1 for n in rank)
    return t.make([x], views.cut, starts, steps, t.shape)


def _clamped(place: int, size: int) -> int:
    return max(0, min(place + size if place < 0 else place, size))


@lowers("select.int")
def _select(t: Site, x: Edge, dim: int, place: int) -> str:
    d = axis(dim, len(x.shape))
    return t.make([x], views.select, d, place % x.shape[d])


def _parts(t: Site, x: Edge, lengths: list[int], dim: int) -> list[str]:
    d, start, made = axis(dim, len(x.shape)), 0, []
    rank = range(len(x.shape))
    for length in lengths:
        starts, sizes = tuple(start if n == d else 0 for n in rank), (*x.shape[:d], length, *x.shape[d + 1 :])
        made.append(t.make([x], views.cut, starts, (1,) * len(x.shape), sizes, is_library=False))
        start += length
    return made


@lowers("split_with_sizes")
def _split(t: Site, x: Edge, sizes: Any, dim: int = 0) -> list[str]:
    return _parts(t, x, list(sizes), dim)


@lowers("split.Tensor")
def _split_evenly(t: Site, x: Edge, size: int, dim: int = 0) -> list[str]:
    return _parts(t, x, [int(part.shape[dim]) for part in t.result], dim)


@lowers("unbind.int")
def _unbind(t: Site, x: Edge, dim: int = 0) -> list[str]:
    d = axis(dim, len(x.shape))
    return [t.make([x], views.select, d, n, is_library=False) for n in range(x.shape[d])]


@lowers("diagonal")
def _diagonal(t: Site, x: Edge, offset: int = 0, first: int = 0, second: int = 1) -> str:
    return t.make([x], views.diagonal, offset, axis(first, len(x.shape)), axis(second, len(x.shape)))


@lowers("as_strided", "as_strided_copy")
def _as_strided(t: Site, x: Edge, sizes: Any, strides: Any, offset: Any = None) -> str:
    """Elements by their places in memory, which are told by a tensor without gaps there: its axes are put in the order
    that torch says they have in memory, as it may lie otherwise here."""
    order, first = t.memory_order(0), int(t.tensors[0].storage_offset())
    start = 0 if offset is None else offset - first
    reach = start + sum((n - 1) * s for n, s in zip(sizes, strides))
    if start < 0 or reach >= x.count:
        raise UnsupportedError("places outside of the tensor")
    rows = t.edge(t.make([x], views.permute, order, is_library=False))
    flat = t.edge(t.make([rows], views.reshape, (x.count,), is_library=False))
    return t.make([flat], views.strided, tuple(sizes), tuple(strides), start, is_library=False)


@lowers("unfold")
def _unfold(t: Site, x: Edge, dim: int, size: int, step: int) -> str:
    if not x.shape:
        return t.make([x], views.reshape, t.shape)
    return t.make([x], views.windows, axis(dim, len(x.shape)), size, step)


@lowers("cat")
def _join(t: Site, tensors: Any, dim: int = 0) -> str:
    parts = [x for x in tensors if 0 not in x.shape]
    return t.make(parts, joints.join, axis(dim, len(parts[0].shape)), t.dtype)


@lowers("stack")
def _stack(t: Site, tensors: Any, dim: int = 0) -> str:
    d = axis(dim, len(t.shape))
    sizes = (*t.shape[:d], 1, *t.shape[d + 1 :])
    rows = [t.edge(t.make([x], views.reshape, sizes, is_library=False)) for x in tensors]
    return t.make(rows, joints.join, d, t.dtype, is_library=False)


@lowers("constant_pad_nd")
def _pad(t: Site, x: Edge, amounts: Any, value: Any = 0) -> str:
    before, after = _padding(x, amounts)
    if min(*before, *after, 0) < 0:  # what is cut off
        sizes = tuple(n + min(b, 0) + min(a, 0) for n, b, a in zip(x.shape, before, after))
        starts = tuple(max(-b, 0) for b in before)
        x = t.edge(t.make([x], views.cut, starts, (1,) * len(sizes), sizes, is_library=False))
        before, after = (tuple(max(n, 0) for n in amounts) for amounts in (before, after))
    return t.make([x], joints.pad, before, after, number(value))


@lowers("reflection_pad1d", "reflection_pad2d", "reflection_pad3d")
def _pad_reflected(t: Site, x: Edge, amounts: Any) -> str:
    return t.make([x], joints.pad, *_padding(x, amounts), "reflect")


@lowers("replication_pad1d", "replication_pad2d", "replication_pad3d")
def _pad_repeated(t: Site, x: Edge, amounts: Any) -> str:
    return t.make([x], joints.pad, *_padding(x, amounts), "edge")


def _padding(x: Edge, amounts: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Amounts come in pairs from the last axis on."""
    before, after = [0] * len(x.shape), [0] * len(x.shape)
    for n in range(len(amounts) // 2):
        before[-1 - n], after[-1 - n] = amounts[2 * n], amounts[2 * n + 1]
    return tuple(before), tuple(after)


@lowers("flip")
def _flip(t: Site, x: Edge, dims: Any) -> str:
    return t.make([x], joints.flip, axes(dims, len(x.shape)) if dims else ())


@lowers("roll")
def _roll(t: Site, x: Edge, shifts: Any, dims: Any = ()) -> str:
    if not dims:
        raise UnsupportedError("a roll of all elements")
    return t.make([x], joints.roll, tuple(shifts), tuple(axis(d, len(x.shape)) for d in dims))


@lowers("repeat")
def _repeat(t: Site, x: Edge, times: Any) -> str:
    return t.make([x], joints.repeat, tuple(times))


@lowers("slice_scatter")
def _slice_scatter(
    t: Site, x: Edge, source: Edge, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> str:
    d = axis(dim, len(x.shape))
    begin = _clamped(0 if start is None else start, x.shape[d])
    if 0 in source.shape:
        return t.make([x], pointwise.converted, t.dtype, is_library=False)
    if source.shape == x.shape and step == 1:
        return t.make([source], pointwise.converted, t.dtype, is_library=False)
    return t.make([x, source], joints.replaced, d, begin, step)


@lowers("select_scatter")
def _select_scatter(t: Site, x: Edge, source: Edge, dim: int, place: int) -> str:
    d = axis(dim, len(x.shape))
    sizes = (*x.shape[:d], 1, *x.shape[d + 1 :])
    row = t.edge(t.make([source], views.reshape, sizes, is_library=False))
    return t.make([x, row], joints.replaced, d, place % x.shape[d], 1, is_library=False)


@lowers("embedding")
def _embedding(t: Site, table: Edge, index: Edge, *_: Any) -> str:
    return t.make([table, index], joints.rows)


@lowers("gather")
def _gather(t: Site, x: Edge, dim: int, index: Edge, *, sparse_grad: bool = False) -> str:
    if not x.shape or not index.shape:
        raise UnsupportedError("a lookup in a number")
    return t.make([x, index], joints.pick, axis(dim, len(x.shape)), False)


@lowers("index_select")
def _index_select(t: Site, x: Edge, dim: int, index: Edge) -> str:
    if not x.shape or len(index.shape) != 1:
        row = t.edge(t.make([x], views.reshape, x.shape or (1,), is_library=False))
        places = t.edge(t.make([index], views.reshape, index.shape or (1,), is_library=False))
        made = t.make([row, places], joints.take, axis(dim, len(row.shape)), False, is_library=False)
        return t.make([t.edge(made)], views.reshape, t.shape, is_library=False)
    return t.make([x, index], joints.take, axis(dim, len(x.shape)), False)


@lowers("index.Tensor")
def _index(t: Site, x: Edge, indices: Any) -> str:
    given = [(d, i) for d, i in enumerate(indices) if i is not None]
    if any(i.dtype.is_bool or i.dtype.name == "uint8" for _, i in given):
        raise UnsupportedError("a mask as an index: how many elements it picks depends on data")
    return t.make([x, *(i for _, i in given)], joints.pick_many, tuple(d for d, _ in given))


@lowers("full", "scalar_tensor")
def _full(t: Site, *args: Any, **_named: Any) -> str:
    return t.make([], pointwise.filled, t.shape, number(args[-1]), t.dtype)


@lowers("full_like", "new_full", "fill.Scalar")
def _full_like(t: Site, _x: Edge, *args: Any, **_named: Any) -> str:
    return t.make([], pointwise.filled, t.shape, number(args[-1]), t.dtype)


@lowers("zeros", "zeros_like", "new_zeros", "empty.memory_format", "empty_like", "new_empty", "empty_permuted")
def _zeros(t: Site, *_args: Any, **_named: Any) -> str:
    return t.make([], pointwise.filled, t.shape, 0, t.dtype)


@lowers("ones", "ones_like", "new_ones")
def _ones(t: Site, *_args: Any, **_named: Any) -> str:
    return t.make([], pointwise.filled, t.shape, 1, t.dtype)


@lowers("arange.start_step")
def _arange(t: Site, start: Any, _end: Any, step: Any = 1, **_named: Any) -> str:
    return t.make([], pointwise.counted, t.shape[0], number(start), number(step), t.dtype)


@lowers("arange.default")
def _arange_from_zero(t: Site, _end: Any, **_named: Any) -> str:
    return t.make([], pointwise.counted, t.shape[0], 0, 1, t.dtype)


@lowers("arange.start")
def _arange_from(t: Site, start: Any, _end: Any, **_named: Any) -> str:
    return t.make([], pointwise.counted, t.shape[0], number(start), 1, t.dtype)


@lowers("tril", "triu")
def _triangle(t: Site, x: Edge, diagonal: int = 0) -> str:
    return t.make([x], pointwise.triangle, diagonal, "tril" in t.call.target)
