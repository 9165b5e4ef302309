"""The same elements under other subscripts: one read each, so that readers can take them from where they are."""

from __future__ import annotations

from typing import Any

from weft.graph.formulas.common import Indices, affine, at, element, shape
from weft.graph.graph import Shape, dense_strides
from weft.tensor.python_api import Tensor, compute


def permute(x: Tensor, order: tuple[int, ...]) -> Tensor:
    """Axis ``d`` of the result is axis ``order[d]`` of ``x``."""
    sizes = shape(x)
    back = {old: new for new, old in enumerate(order)}
    return compute(tuple(sizes[d] for d in order), lambda *i: x[tuple(i[back[d]] for d in range(len(sizes)))], name="O")


def expand(x: Tensor, sizes: Shape) -> Tensor:
    """Repeated along axes of one element, and along new ones in front."""
    return compute(sizes, lambda *i: at(x, i), name="O")


def cut(x: Tensor, starts: tuple[int, ...], steps: tuple[int, ...], sizes: Shape) -> Tensor:
    """Every ``steps``-th element of each axis from ``starts`` on, ``sizes`` of them; steps may be negative."""
    return compute(sizes, lambda *i: x[tuple(map(affine, i, steps, starts))], name="O")


def strided(x: Tensor, sizes: Shape, strides: tuple[int, ...], start: int) -> Tensor:
    """Elements of a row by ``strides`` from ``start`` on."""

    def read(*i: Any) -> Any:
        place: Any = start
        for k, step, n in zip(i, strides, sizes):
            if n > 1 and step:
                place = place + affine(k, step)
        return x[(place,)]

    return compute(sizes, read, name="O")


def select(x: Tensor, dim: int, place: int) -> Tensor:
    """One place along an axis, which goes."""
    sizes = shape(x)
    left = sizes[:dim] + sizes[dim + 1 :]
    return compute(left, lambda *i: element(x, *i[:dim], place, *i[dim:]), name="O")


def reshape(x: Tensor, sizes: Shape) -> Tensor:
    """The same elements in row-major order; only runs of axes that really change are renumbered."""
    parts = _matching_runs(shape(x), sizes)

    def read(*i: Any) -> Any:
        indices: list[Any] = []
        for (old_from, old_to), (new_from, new_to) in parts:
            indices += _renumber(i[new_from:new_to], sizes[new_from:new_to], shape(x)[old_from:old_to])
        return x[tuple(indices)]

    return compute(sizes, read, name="O")


def diagonal(x: Tensor, offset: int, first: int, second: int) -> Tensor:
    """The diagonal of two axes, as a last one."""
    sizes = shape(x)
    row, column = max(-offset, 0), max(offset, 0)
    length = max(0, min(sizes[first] - row, sizes[second] - column))
    others = [d for d in range(len(sizes)) if d not in (first, second)]

    def read(*i: Any) -> Any:
        at_axis: dict[int, Any] = dict(zip(others, i))
        at_axis |= {first: affine(i[-1], 1, row), second: affine(i[-1], 1, column)}
        return x[tuple(at_axis[d] for d in range(len(sizes)))]

    return compute((*(sizes[d] for d in others), length), read, name="O")


def windows(x: Tensor, dim: int, size: int, step: int) -> Tensor:
    """All windows of ``size`` along an axis, ``step`` apart; places in a window are a new last axis."""
    sizes = shape(x)
    number = (sizes[dim] - size) // step + 1
    result = (*sizes[:dim], number, *sizes[dim + 1 :], size)
    return compute(result, lambda *i: element(x, *i[:dim], affine(i[dim], step) + i[-1], *i[dim + 1 : -1]), name="O")


def _matching_runs(old: Shape, new: Shape) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Runs of axes of both shapes with the same number of elements, as short as can be."""
    runs = []
    a = b = 0
    while a < len(old) or b < len(new):
        first_a, first_b = a, b
        left, right = 1, 1
        while (a == first_a and b == first_b) or left != right:
            if a < len(old) and (left <= right or b == len(new)):
                left, a = left * old[a], a + 1
            else:
                right, b = right * new[b], b + 1
        runs.append(((first_a, a), (first_b, b)))
    return runs


def _renumber(i: Indices, new: Shape, old: Shape) -> list[Any]:
    if len(old) == 1 and len(new) == 1:
        return [i[0]]
    place: Any = 0
    for k, stride, n in zip(i, dense_strides(new), new):
        if n > 1:
            place = place + k * stride
    result = []
    for d, (n, stride) in enumerate(zip(old, dense_strides(old))):
        part = place // stride if stride > 1 else place
        is_first = all(m == 1 for m in old[:d])
        result.append(0 if n == 1 else part if is_first else part % n)
    return result
