"""Entries of the table of ONNX's operators: shapes, views, joints, lookups, and tensors made from nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from weft.graph.formulas import joints, pointwise, views
from weft.graph.formulas import updates as update_formulas
from weft.graph.formulas.common import axis, broadcast
from weft.graph.from_onnx.edge import type_of
from weft.graph.from_onnx.table import Site, Term, attributes_or, facts_of, known_term, lowers
from weft.ir import dtype as dt
from weft.ir.errors import UnsupportedError


@lowers("Shape")
def _shape(t: Site, x: Term) -> Term:
    start, end = t.get("start", 0), t.get("end", x.rank)
    return known_term(np.array(x.shape[_near(start, x.rank) : _near(end, x.rank)], np.int64))


def _near(place: int, size: int) -> int:
    """A place counted from the front, moved inside."""
    return max(0, min(place + size if place < 0 else place, size))


@lowers("Size")
def _size(t: Site, x: Term) -> Term:
    return known_term(np.array(prod(x.shape), np.int64))


@lowers("Constant")
def _constant(t: Site) -> Term:
    kinds: dict[str, Any] = {
        "value": None, "value_int": np.int64, "value_ints": np.int64, "value_float": np.float32,
        "value_floats": np.float32,
    }  # fmt: skip
    for name, kind in kinds.items():
        if (value := t.get(name)) is not None:
            return known_term(value if kind is None else np.array(value, kind))
    raise UnsupportedError("a constant that is no tensor of numbers")


@lowers("ConstantOfShape")
def _constant_of_shape(t: Site, sizes: Term) -> Term:
    value = t.get("value")
    value = np.zeros(1, np.float32) if value is None else value
    wanted = t.ints(sizes)
    if min(wanted, default=0) < 0:
        raise UnsupportedError(f"a shape of {wanted}")
    return t.make([], pointwise.filled, wanted, value.reshape(-1)[0].item(), known_term(value).dtype)


@lowers("Range")
def _range(t: Site, start: Term, limit: Term, delta: Term) -> Term:
    first, end, step = (t.known(x).item() for x in (start, limit, delta))
    if not step or not all(map(math.isfinite, (first, end, step))):
        raise UnsupportedError(f"a range of steps of {step} from {first} to {end}")
    length = max(0, math.ceil((end - first) / step))
    return t.make([], pointwise.counted, length, first, step, start.dtype)


@lowers("EyeLike")
def _eye(t: Site, x: Term) -> Term:
    dtype = x.dtype if t.get("dtype") is None else type_of(t.get("dtype"))
    if x.rank != 2:
        raise UnsupportedError(f"a diagonal in {x.rank} dimensions")
    return t.make([], pointwise.eye, x.shape, t.get("k", 0), dtype)


def reshape(t: Site, x: Term, sizes: tuple[int, ...]) -> Term:
    """The same elements in another shape."""
    if prod(sizes) != prod(x.shape):
        raise UnsupportedError(f"{x.shape} does not have the elements of {sizes}")
    if x.array is not None:
        return Term(x.dtype, sizes, x.array.reshape(sizes), None, x.sources)
    return x if sizes == x.shape else t.make([x], views.reshape, sizes)


@lowers("Reshape")
def _reshape(t: Site, x: Term, sizes: Term) -> Term:
    wanted = list(t.ints(sizes))
    if not t.get("allowzero", 0):
        if any(n == 0 and d >= x.rank for d, n in enumerate(wanted)):
            raise UnsupportedError(f"{x.shape} as {tuple(wanted)}")
        wanted = [x.shape[d] if n == 0 else n for d, n in enumerate(wanted)]
    if wanted.count(-1) > 1 or min(wanted, default=0) < -1:
        raise UnsupportedError(f"a shape of {tuple(wanted)}")
    if -1 in wanted:
        rest = prod(n for n in wanted if n != -1)
        wanted[wanted.index(-1)] = prod(x.shape) // rest if rest else 0
    return reshape(t, x, tuple(wanted))


@lowers("Flatten")
def _flatten(t: Site, x: Term) -> Term:
    place = t.get("axis", 1)
    place = place + x.rank if place < 0 else place
    return reshape(t, x, (prod(x.shape[:place]), prod(x.shape[place:])))


@lowers("Squeeze")
def _squeeze(t: Site, x: Term, over: Term | None = None) -> Term:
    given = attributes_or(t, "axes", over)
    gone = {d for d, n in enumerate(x.shape) if n == 1} if given is None else {axis(d, x.rank) for d in given}
    if any(x.shape[d] != 1 for d in gone):
        raise UnsupportedError(f"axes {sorted(gone)} of {x.shape} have more than one element")
    return reshape(t, x, tuple(n for d, n in enumerate(x.shape) if d not in gone))


@lowers("Unsqueeze")
def _unsqueeze(t: Site, x: Term, over: Term | None = None) -> Term:
    given = attributes_or(t, "axes", over) or ()
    rank = x.rank + len(given)
    new = {axis(d, rank) for d in given}
    rest = iter(x.shape)
    return reshape(t, x, tuple(1 if d in new else next(rest) for d in range(rank)))


@lowers("Transpose")
def transpose(t: Site, x: Term) -> Term:
    order = t.get("perm", tuple(reversed(range(x.rank))))
    return permute(t, x, tuple(axis(d, x.rank) for d in order))


def permute(t: Site, x: Term, order: tuple[int, ...]) -> Term:
    if sorted(order) != list(range(x.rank)):
        raise UnsupportedError(f"{order} is no order of {x.rank} axes")
    return x if order == tuple(range(x.rank)) else t.make([x], views.permute, order)


@lowers("Expand")
def _expand(t: Site, x: Term, sizes: Term) -> Term:
    wanted = broadcast(x.shape, t.ints(sizes))
    return x if wanted == x.shape else t.make([x], views.expand, wanted)


@lowers("Tile")
def _tile(t: Site, x: Term, times: Term) -> Term:
    return t.make([x], joints.repeat, t.ints(times))


@lowers("Slice")
def _slice(
    t: Site, x: Term, starts: Term | None = None, ends: Term | None = None, over: Term | None = None,
    steps: Term | None = None,
) -> Term:  # fmt: skip
    first, last = attributes_or(t, "starts", starts) or (), attributes_or(t, "ends", ends) or ()
    dims = attributes_or(t, "axes", over)
    dims = tuple(range(len(first))) if dims is None else tuple(axis(d, x.rank) for d in dims)
    by = (1,) * len(first) if steps is None else t.ints(steps)
    begin, step, sizes = [0] * x.rank, [1] * x.rank, list(x.shape)
    for d, a, b, s in zip(dims, first, last, by):
        begin[d], step[d], sizes[d] = _cut_axis(a, b, s, x.shape[d])
    if tuple(sizes) == x.shape and all(s == 1 for s in step):
        return x
    return t.make([x], views.cut, tuple(begin), tuple(step), tuple(sizes))


def _cut_axis(start: int, end: int, step: int, size: int) -> tuple[int, int, int]:
    """Where a slice begins, its step, and how many elements it has."""
    if not step:
        raise UnsupportedError("a slice of steps of 0")
    if step < 0 and start < -size:  # ONNX begins at the first element, Python before it
        start = 0
    first, last, by = slice(start, end, step).indices(size)
    return first, by, len(range(first, last, by))


@lowers("Split")
def _split(t: Site, x: Term, parts: Term | None = None) -> list[Term]:
    d = axis(t.get("axis", 0), x.rank)
    sizes, number = attributes_or(t, "split", parts), len(t.node.outputs)
    if sizes is None:
        each = -(-x.shape[d] // number)
        sizes = tuple(min(each, x.shape[d] - n * each) for n in range(number))
    if len(sizes) != number or sum(sizes) != x.shape[d] or min(sizes) < 0:
        raise UnsupportedError(f"{x.shape[d]} elements in parts of {sizes}")
    made, start = [], 0
    for size in sizes:
        begin, whole = [0] * x.rank, list(x.shape)
        begin[d], whole[d] = start, size
        made.append(t.make([x], views.cut, tuple(begin), (1,) * x.rank, tuple(whole)))
        start += size
    return made


@lowers("Concat")
def concat(t: Site, *terms: Term) -> Term:
    d = axis(t.get("axis", 1), terms[0].rank)
    return joined(t, terms, d)


#: Tensors that one formula puts together, as each is a case in it.
_MOST_JOINED = 256


def joined(t: Site, terms: Sequence[Term], d: int) -> Term:
    """Tensors one after another along an axis."""
    shapes = {(x.shape[:d], x.shape[d + 1 :]) for x in terms}
    if len(shapes) > 1 or len({x.rank for x in terms}) > 1:
        raise UnsupportedError(f"shapes {', '.join(str(x.shape) for x in terms)} along axis {d}")
    parts = [x for x in terms if 0 not in x.shape]
    if len(parts) < 2:
        return parts[0] if parts else terms[0]
    if len(parts) > _MOST_JOINED:
        runs = [parts[n : n + _MOST_JOINED] for n in range(0, len(parts), _MOST_JOINED)]
        return joined(t, [joined(t, run, d) for run in runs], d)
    return t.make(parts, joints.join, d, terms[0].dtype)


_MODES = {"constant": None, "reflect": "reflect", "edge": "edge", "wrap": "wrap"}


@lowers("Pad")
def _pad(t: Site, x: Term, amounts: Term | None = None, value: Term | None = None, over: Term | None = None) -> Term:
    given = attributes_or(t, "pads", amounts) or ()
    dims = range(x.rank) if over is None else [axis(d, x.rank) for d in t.ints(over)]
    if len(given) != 2 * len(dims):
        raise UnsupportedError(f"{len(given)} amounts for {len(dims)} axes")
    before, after = [0] * x.rank, [0] * x.rank
    for n, d in enumerate(dims):
        before[d], after[d] = given[n], given[n + len(dims)]
    x = _cropped(t, x, before, after)
    around = tuple(max(0, n) for n in before), tuple(max(0, n) for n in after)
    mode = _MODES.get(t.get("mode", "constant"), "none")
    if mode is None:
        fill = t.get("value", 0.0) if t.opset < 11 else 0 if value is None else t.known(value).item()
        return t.make([x], joints.pad, *around, fill if x.dtype.is_float else int(fill))
    room = [n - (mode == "reflect") for n in x.shape]
    if mode == "none" or (mode != "edge" and any(p > r for side in around for p, r in zip(side, room))):
        raise UnsupportedError(f"padding of {given} by {t.get('mode')} around {x.shape}")
    return t.make([x], joints.pad, *around, mode)


def _cropped(t: Site, x: Term, before: list[int], after: list[int]) -> Term:
    """Negative padding takes elements away."""
    starts = tuple(max(0, -n) for n in before)
    sizes = tuple(n - s - max(0, -a) for n, s, a in zip(x.shape, starts, after))
    return x if sizes == x.shape else t.make([x], views.cut, starts, (1,) * x.rank, sizes)


@lowers("Gather")
def gather(t: Site, x: Term, index: Term) -> Term:
    d, place = axis(t.get("axis", 0), x.rank), t.number(index)
    _check_places(index, x.shape[d])
    if place is not None and not index.shape and -x.shape[d] <= place < x.shape[d]:
        return t.make([x], views.select, d, place % x.shape[d])
    return t.make([x, index], joints.take, d, True)


@lowers("GatherElements")
def _gather_elements(t: Site, x: Term, index: Term) -> Term:
    d = axis(t.get("axis", 0), x.rank)
    _check_places(index, x.shape[d])
    return t.make([x, index], joints.pick, d, True)


def _check_places(index: Term, size: int) -> None:
    """Refuses places that are known to be outside; others are looked at when they are used."""
    if index.array is not None and index.array.size and not -size <= index.array.min() <= index.array.max() < size:
        raise UnsupportedError(f"places {index.array.min()} to {index.array.max()} of {size} elements")


@lowers("GatherND")
def _gather_many(t: Site, x: Term, index: Term) -> Term:
    return t.make([x, index], joints.pick_slices, t.get("batch_dims", 0))


#: Comparisons that each element looking for the updates that are for it may take, all together.
_MOST_COMPARED = 1 << 26


@lowers("ScatterElements", "Scatter")
def _scatter_elements(t: Site, x: Term, index: Term, updates: Term) -> Term:
    d = axis(t.get("axis", 0), x.rank)
    fits = index.rank == x.rank and all(n <= m or k == d for k, (n, m) in enumerate(zip(index.shape, x.shape)))
    if not fits or updates.shape != index.shape:
        raise UnsupportedError(f"updates of shape {updates.shape} at places of shape {index.shape} of {x.shape}")
    if index.array is None and prod(index.shape) * x.shape[d] <= _MOST_COMPARED:
        return _scattered_along(t, x, index, updates, d)
    places = t.known(index)
    t.reserve(places.size, 3 * x.rank)
    grid = list(np.indices(places.shape))
    grid[d] = np.where(places < 0, places + x.shape[d], places)
    return _scattered(t, x, updates, np.stack(grid, -1).reshape(-1, x.rank))


@lowers("ScatterND")
def _scatter_many(t: Site, x: Term, index: Term, updates: Term) -> Term:
    depth = index.shape[-1]
    if depth > x.rank or updates.shape != (*index.shape[:-1], *x.shape[depth:]):
        raise UnsupportedError(f"updates of shape {updates.shape} at places of shape {index.shape} of {x.shape}")
    each = prod(x.shape[depth:]) if t.get("reduction", "none") != "none" else 1
    if index.array is None and prod(x.shape[:depth]) * prod(index.shape[:-1]) * each <= _MOST_COMPARED:
        return _scattered_rows(t, x, index, updates)
    places = t.known(index)
    rows = places.reshape(-1, depth)
    t.reserve(len(rows) * prod(x.shape[depth:]) + prod(x.shape[depth:]), 3 * x.rank)
    rows = np.where(rows < 0, rows + np.array(x.shape[:depth]), rows)
    inner = np.indices(x.shape[depth:]).reshape(x.rank - depth, prod(x.shape[depth:])).T
    every = np.concatenate([np.repeat(rows, len(inner), 0), np.tile(inner, (len(rows), 1))], 1)
    return _scattered(t, x, updates, every)


_UPDATES = {"none": None, "add": "add", "mul": "mul", "max": "maximum", "min": "minimum"}


def _scattered_along(t: Site, x: Term, index: Term, updates: Term, d: int) -> Term:
    """Updates at computed places along an axis: each element looks for those that are for it."""
    how = facts_of(_UPDATES, t, "reduction", "none")
    sizes = (*index.shape[:d], x.shape[d], *index.shape[d + 1 :])
    inner = x if sizes == x.shape else t.make([x], views.cut, (0,) * x.rank, (1,) * x.rank, sizes)
    made = t.make([inner, index, updates], update_formulas.updated, d, how)
    after = tuple(n - m for n, m in zip(x.shape, sizes))
    if not any(after):
        return made
    t.reserve(prod(x.shape), 1)
    there = np.pad(np.ones(sizes, bool), [(0, n) for n in after])
    wide = t.make([made], joints.pad, (0,) * x.rank, after, 0)
    return t.make([known_term(there), wide, x], pointwise.where, x.dtype)


def _scattered_rows(t: Site, x: Term, index: Term, updates: Term) -> Term:
    """Updates of slices whose first subscripts are computed: as places along one axis of all such slices."""
    how, depth = facts_of(_UPDATES, t, "reduction", "none"), index.shape[-1]
    rows, number, inner = prod(x.shape[:depth]), prod(index.shape[:-1]), prod(x.shape[depth:])
    places = reshape(t, index, (number, depth))
    flat = t.make([], pointwise.filled, (number,), 0, index.dtype)
    for n, size in enumerate(x.shape[:depth]):
        place = t.make([places], views.select, 1, n)
        beyond = t.make([place], pointwise.with_number, size, "add", index.dtype)
        is_negative = t.make([place], pointwise.compare_number, 0, "lt", index.dtype)
        place = t.make([is_negative, beyond, place], pointwise.where, index.dtype)
        before = t.make([flat], pointwise.with_number, size, "mul", index.dtype)
        flat = t.make([before, place], pointwise.binary, "add", index.dtype)
    given = [reshape(t, x, (rows, inner)), flat, reshape(t, updates, (number, inner))]
    return reshape(t, t.make(given, update_formulas.updated, 0, how), x.shape)


def _scattered(t: Site, x: Term, updates: Term, places: Any) -> Term:
    """``x`` with the elements of ``updates`` at known places: which element each place takes is a table.

    Where places come again and updates are combined, there is a table for the first time, the second, and so on.
    """
    how = facts_of(_UPDATES, t, "reduction", "none")
    if prod(x.shape) > 1 << 24:
        raise UnsupportedError(f"updates in {x.shape}")
    if not len(places):
        return x
    if (places < 0).any() or (places >= np.array(x.shape)).any():
        raise UnsupportedError(f"updates outside of {x.shape}")
    t.reserve(len(places), 6)
    flat = np.ravel_multi_index(tuple(places.T), x.shape, mode="raise")
    values = reshape(t, updates, (prod(updates.shape),))
    for turn in _turns(flat) if how else [np.arange(len(flat))]:
        t.reserve(prod(x.shape), 4)
        source = np.full(prod(x.shape), -1, np.int64)
        source[flat[turn]] = turn
        picked = known_term(np.maximum(source, 0).reshape(x.shape))
        new = t.make([values, picked], joints.take, 0, False)
        new = t.make([x, new], pointwise.binary, how, x.dtype) if how else new
        x = t.make([known_term((source >= 0).reshape(x.shape)), new, x], pointwise.where, x.dtype)
    return x


def _turns(flat: Any) -> list[Any]:
    """Numbers of updates: those that come first at their place, those that come second, …"""
    order = np.argsort(flat, kind="stable")
    places = flat[order]
    starts = np.maximum.accumulate(np.where(np.r_[True, places[1:] != places[:-1]], np.arange(len(flat)), 0))
    turn = np.arange(len(flat)) - starts
    if turn.max() >= 64:
        raise UnsupportedError("more than 64 updates of one element")
    return [np.sort(order[turn == n]) for n in range(turn.max() + 1)]


@lowers("Compress")
def _compress(t: Site, x: Term, test: Term) -> Term:
    t.reserve(prod(test.shape), 1)
    kept = np.flatnonzero(t.known(test))
    if t.get("axis") is None:
        return t.make([reshape(t, x, (prod(x.shape),)), known_term(kept)], joints.take, 0, False)
    return t.make([x, known_term(kept)], joints.take, axis(t.get("axis"), x.rank), False)


@lowers("NonZero")
def _non_zero(t: Site, x: Term) -> Term:
    t.reserve(prod(x.shape), 2 * x.rank)
    return known_term(np.array(np.nonzero(t.known(x)), np.int64), x.sources)


@lowers("OneHot")
def _one_hot(t: Site, index: Term, depth: Term, values: Term) -> Term:
    size = int(t.known(depth).item())
    place = axis(t.get("axis", -1), index.rank + 1)
    whole = index if index.dtype == dt.int64 else t.make([index], pointwise.converted, dt.int64)
    hot = t.make([whole, values], joints.one_hot_of, size)
    order = [*range(place), index.rank, *range(place, index.rank)]
    return permute(t, hot, tuple(order))


@lowers("Trilu")
def _triangle(t: Site, x: Term, diagonal: Term | None = None) -> Term:
    k = 0 if diagonal is None else int(t.known(diagonal).item())
    return t.make([x], pointwise.triangle, k, not t.get("upper", 1))


@lowers("DepthToSpace")
def _depth_to_space(t: Site, x: Term) -> Term:
    b, (n, c, h, w) = t.get("blocksize"), x.shape
    if t.get("mode", "DCR") == "DCR":
        apart = permute(t, reshape(t, x, (n, b, b, c // (b * b), h, w)), (0, 3, 4, 1, 5, 2))
    else:
        apart = permute(t, reshape(t, x, (n, c // (b * b), b, b, h, w)), (0, 1, 4, 2, 5, 3))
    return reshape(t, apart, (n, c // (b * b), h * b, w * b))


@lowers("SpaceToDepth")
def _space_to_depth(t: Site, x: Term) -> Term:
    b, (n, c, h, w) = t.get("blocksize"), x.shape
    order = (0, 3, 5, 1, 2, 4) if t.get("mode", "DCR") == "DCR" else (0, 1, 3, 5, 2, 4)
    apart = permute(t, reshape(t, x, (n, c, h // b, b, w // b, b)), order)
    return reshape(t, apart, (n, c * b * b, h // b, w // b))


@lowers("ReverseSequence")
def _reverse_sequence(t: Site, x: Term, lengths: Term) -> Term:
    return t.make([x, lengths], joints.reversed_rows, t.get("time_axis", 0), t.get("batch_axis", 1))
