"""Sections of a lowered matrix's rows, and how many of them differ, without a look at every row.

Rows are padded to a multiple of ``PADDED`` elements. Two sections are the same where the same of their places hold
elements and those are the same elements; sections without any element do not count.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from weft.analysis.matrix_read import Dimension, MatrixRead

PADDED = 16
Array: TypeAlias = "np.ndarray[Any, Any]"
#: By subscript, the values at which rows have the first element of a section.
Box: TypeAlias = "tuple[Array, ...]"


class Sections(NamedTuple):
    """How many there are, and how many of them differ."""

    total: int
    distinct: int

    def __add__(self, other: Any) -> Sections:
        return Sections(self.total + other.total, self.distinct + other.distinct)

    @property
    def copies(self) -> float:
        """Of each, on average."""
        return self.total / self.distinct if self.distinct else 0.0


def count_sections(read: MatrixRead, width: int) -> Sections:
    """Of ``width`` elements, for a read with ``dimensions``; ``width`` divides `PADDED`."""
    assert read.dimensions is not None
    offsets = np.stack([_offsets(read, d) for d in read.dimensions], axis=1)
    counter = _Counter(read, width)
    period = _period(read, width)
    whole = len(offsets) // period if period else 0
    if whole < 2:
        return counter.count(offsets)
    # Each period reads elements that no other does, at the same places of the other subscripts.
    one = counter.count(offsets[:period])
    return Sections(whole * one.total, whole * one.distinct) + counter.count(offsets[whole * period :])


def _offsets(read: MatrixRead, d: Dimension) -> Array:
    """What each column adds to the subscript."""
    offsets = np.zeros(1, np.int64)
    factors = dict(d.terms)
    for axis in read.columns:
        steps = factors.get(axis.name, 0) * np.arange(axis.lo, axis.hi, dtype=np.int64)
        offsets = (offsets[:, None] + steps).reshape(-1)
    return offsets


def _period(read: MatrixRead, width: int) -> int:
    """Columns after which sections begin anew at other elements, always inside the tensor; 0 where none are known."""
    assert read.dimensions is not None
    if not read.columns:
        return 0
    first = read.columns[0]
    for d in read.dimensions:
        if [name for name, _ in d.terms] == [first.name]:
            ends = [d.constant + d.terms[0][1] * at for at in (first.lo, first.hi - 1)]
            if d.lo <= min(ends) and max(ends) < d.hi:
                each = read.column_count // max(first.extent, 1)
                return math.lcm(each, width) if each else 0
    return 0


class _Counter:
    def __init__(self, read: MatrixRead, width: int) -> None:
        assert read.dimensions is not None
        self.dimensions, self.width = read.dimensions, width
        self.rows = [_row_values(read, d) for d in read.dimensions]
        self.groups: dict[tuple[int, bytes], list[tuple[int, int, Array]]] = {}

    def count(self, offsets: Array) -> Sections:
        """The sections of rows with these columns."""
        total, boxes = 0, defaultdict[tuple[int, bytes], list[Box]](list)
        for start in range(0, len(offsets), self.width):
            part = offsets[start : start + self.width]
            for seen, count, values in self._parts(part):
                total += count
                places = [j for j in range(len(part)) if seen >> j & 1]
                first = part[places[0]]
                shape = (part[places] - first).tobytes()
                boxes[seen, shape].append(tuple(v + f for v, f in zip(values, first)))
        return Sections(total, sum(_union(same) for same in boxes.values()))

    def _parts(self, part: Array) -> Iterator[tuple[int, int, Box]]:
        """The rows sorted by which places of the section hold elements (bits), how many, and their subscripts."""
        parts: list[tuple[int, int, Box]] = [((1 << len(part)) - 1, 1, ())]
        for d in range(len(self.dimensions)):
            parts = [
                (seen & bits, count * times, (*values, some))
                for seen, count, values in parts
                for bits, times, some in self._grouped(d, part[:, d])
                if seen & bits
            ]
        yield from parts

    def _grouped(self, number: int, offsets: Array) -> list[tuple[int, int, Array]]:
        """Values that rows give a subscript, by which of the places are then inside the tensor."""
        key = number, offsets.tobytes()
        if key not in self.groups:
            (values, counts), d = self.rows[number], self.dimensions[number]
            at = values[:, None] + offsets
            bits = ((at >= d.lo) & (at < d.hi)) @ (1 << np.arange(len(offsets), dtype=np.int64))
            found = [(int(b), bits == b) for b in np.unique(bits)]
            self.groups[key] = [(b, int(counts[where].sum()), values[where]) for b, where in found]
        return self.groups[key]


def _row_values(read: MatrixRead, d: Dimension) -> tuple[Array, Array]:
    """What rows add to a subscript, its constant included, and how often."""
    values = np.full(1, d.constant, np.int64)
    factors = dict(d.terms)
    for axis in read.rows:
        if axis.name in factors:
            steps = factors[axis.name] * np.arange(axis.lo, axis.hi, dtype=np.int64)
            values = (values[:, None] + steps).reshape(-1)
    return np.unique(values, return_counts=True)


def _union(boxes: Sequence[Box]) -> int:
    """Points in at least one of the boxes: values that the same boxes have count as one cell."""
    if len(boxes) == 1:
        return math.prod(len(values) for values in boxes[0])
    cells = [_cells([box[d] for box in boxes]) for d in range(len(boxes[0]))]
    covered = np.zeros([len(sizes) for _, sizes in cells], bool)
    for number in range(len(boxes)):
        covered[np.ix_(*(member[number] for member, _ in cells))] = True
    total: Any = covered
    for _, sizes in cells:
        total = np.tensordot(sizes, total, axes=(0, 0))
    return int(total)


def _cells(sets: Sequence[Array]) -> tuple[Array, Array]:
    """For each set and cell whether it has the cell, and the cells' sizes."""
    first = dict[bytes, int]()  # most sets are there several times
    numbers = [first.setdefault(s.tobytes(), len(first)) for s in sets]
    different = [np.frombuffer(s, np.int64) for s in first]
    if len(different) == 1:
        return np.ones((len(sets), 1), bool), np.array([len(different[0])])
    values, where = np.unique(np.concatenate(different), return_inverse=True)
    member = np.zeros((len(values), len(different)), bool)
    member[where, np.repeat(np.arange(len(different)), [len(s) for s in different])] = True
    packed = np.packbits(member, axis=1)
    rows = packed.view(np.dtype((np.void, packed.shape[1]))).reshape(-1)
    _, one, sizes = np.unique(rows, return_index=True, return_counts=True)
    return member[one].T[numbers], sizes
