"""Copies of a tensor's elements in the matrix that a read of it makes, as Duplo counts them for lowered convolutions.

An element's id is its place in the tensor, row after row; -1 where padding is read. Closed forms serve subscripts that
are sums of loops; for others the matrix is written out and looked at.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Literal

import numpy as np

from weft.analysis.enumerated import count_listed_sections, ids
from weft.analysis.matrix_read import Dimension, MatrixRead
from weft.analysis.reuse import Reuse, reuse_of_read
from weft.analysis.sections import PADDED, Sections, count_sections
from weft.ir.errors import ArgumentError

#: Bytes of an element as tensor cores read it, which section widths are counted in.
ELEMENT = 2
#: Widths of sections that reports show, in bytes.
WIDTHS = (2, 4, 16)


class Duplication:
    """How often the elements of a tensor are in the matrix of one read.

    >>> d = weft.analyze(weft.ops.conv2d, (1, 3, 227, 227), (96, 3, 11, 11)).duplication
    >>> d.expansion, d.copies, d.by_section[16]
    """

    def __init__(self, name: str, read: MatrixRead) -> None:
        self.name, self.read = name, read

    @property
    def method(self) -> Literal["closed form", "enumeration"]:
        return "enumeration" if self.read.dimensions is None else "closed form"

    @cached_property
    def _listed(self) -> np.ndarray[Any, Any]:
        return ids(self.read)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the matrix."""
        return self.read.row_count, self.read.column_count

    @property
    def places(self) -> int:
        """Places in the matrix, those of padding included."""
        return math.prod(self.shape)

    @property
    def elements(self) -> int:
        """Elements of the tensor."""
        return math.prod(self.read.shape)

    @property
    def expansion(self) -> float:
        """Places in the matrix for each element of the tensor."""
        return self.places / self.elements if self.elements else 0.0

    @cached_property
    def sections(self) -> Mapping[int, Sections]:
        """By width in bytes of 2-byte elements: how many sections of rows there are and how many differ."""
        return {width: self.sections_of(width // ELEMENT) for width in WIDTHS}

    def sections_of(self, elements: int) -> Sections:
        """Sections of so many elements."""
        if elements < 1 or PADDED % elements:
            widths = ", ".join(str(n) for n in range(1, PADDED + 1) if PADDED % n == 0)
            raise ArgumentError(f"rows have no sections of {elements} elements", help=f"use one of {widths}")
        if self.read.dimensions is None:
            return count_listed_sections(self._listed, elements)
        if elements == 1:
            return self._counted
        return count_sections(self.read, elements)

    @property
    def by_section(self) -> Mapping[int, float]:
        """By width in bytes of 2-byte elements: copies of a section, on average."""
        return {width: found.copies for width, found in self.sections.items()}

    @cached_property
    def _counted(self) -> Sections:
        if self.read.dimensions is None:
            return count_listed_sections(self._listed, 1)
        counts = [_counts(self.read, *pair) for pair in zip(self.read.dimensions, self.read.shape)]
        return Sections(math.prod(int(n.sum()) for n in counts), math.prod(int(np.count_nonzero(n)) for n in counts))

    @property
    def accesses(self) -> int:
        """Places that hold an element."""
        return self._counted.total

    @property
    def unique(self) -> int:
        """Elements that are read at all."""
        return self._counted.distinct

    @property
    def copies(self) -> float:
        """Of an element that is read, on average."""
        return self._counted.copies

    def copies_of(self, element: int | Sequence[int]) -> int:
        """Of one element, given by its id or its subscripts."""
        at = self._subscripts(element)
        if self.read.dimensions is None:
            return int(np.count_nonzero(self._listed == np.ravel_multi_index(at, self.read.shape)))
        counts = (_counts(self.read, *pair) for pair in zip(self.read.dimensions, self.read.shape))
        return math.prod(int(n[y]) for n, y in zip(counts, at))

    def inverse(self, element: int | Sequence[int]) -> list[tuple[int, int]]:
        """All places, (row, column) in ascending order, of an element given by its id or its subscripts."""
        at = self._subscripts(element)
        if self.read.dimensions is None:
            found = np.argwhere(self._listed == np.ravel_multi_index(at, self.read.shape))
            return [(int(row), int(column)) for row, column in found]
        if any(not d.lo <= y < d.hi for d, y in zip(self.read.dimensions, at)):
            return []
        parts = [list(_solutions(self.read, d.terms, y - d.constant)) for d, y in zip(self.read.dimensions, at)]
        free = [a for a in self.read.axes if all(a != name for d in self.read.dimensions for name, _ in d.terms)]
        parts += [[{a: value} for value in range(self.read.axes[a].lo, self.read.axes[a].hi)] for a in free]
        merged = ({k: v for part in choice for k, v in part.items()} for choice in itertools.product(*parts))
        return sorted((_position(self.read.rows, v), _position(self.read.columns, v)) for v in merged)

    @cached_property
    def reuse(self) -> Reuse:
        """Distances between loads of the same element, the matrix read row after row; padding is not loaded."""
        return reuse_of_read(self.read)

    def history(self, entries: int) -> float:
        """The share of loads that a load history buffer of the ``entries`` ids used last answers."""
        if entries < 0:
            raise ArgumentError(f"a load history buffer cannot have {entries} entries", help="use 0 or more")
        return 1 - self.reuse.miss_ratio(entries) if self.reuse.accesses else 0.0

    def _subscripts(self, element: int | Sequence[int]) -> tuple[int, ...]:
        shape = self.read.shape
        if isinstance(element, (int, np.integer)):
            if not 0 <= element < self.elements:
                raise ArgumentError(
                    f"{self.read.buffer.name} has no element {element}", why=f"it has {self.elements} elements"
                )
            return tuple(int(i) for i in np.unravel_index(element, shape)) if shape else ()
        at = tuple(element)
        if len(at) != len(shape) or any(not 0 <= i < n for i, n in zip(at, shape)):
            raise ArgumentError(f"{self.read.buffer.name} has no element {at}", why=f"its shape is {shape}")
        return at

    def json(self) -> dict[str, Any]:
        return {
            "tensor": self.name,
            "matrix": list(self.shape),
            "expansion": self.expansion,
            "copies": self.copies,
            "by_section": {str(width): copies for width, copies in self.by_section.items()},
            "accesses": self.accesses,
            "unique": self.unique,
            "method": self.method,
        }

    def __repr__(self) -> str:
        return f"<duplication of {self.name}: expansion {self.expansion:.2f}, copies {self.copies:.2f}>"


def _counts(read: MatrixRead, d: Dimension, size: int) -> np.ndarray[Any, Any]:
    """For each value of a subscript below ``size``, how many values of its loops give it; 0 outside ``lo:hi``."""
    counts, least = np.ones(1, np.int64), d.constant
    for name, factor in d.terms:
        axis = read.axes[name]
        steps = np.zeros(abs(factor) * max(axis.extent - 1, 0) + 1, np.int64)
        steps[:: abs(factor)] = axis.extent > 0
        counts = np.convolve(counts, steps)
        least += min(factor * axis.lo, factor * (axis.hi - 1))
    found = np.zeros(size, np.int64)
    lo, hi = max(d.lo, least, 0), min(d.hi, least + len(counts), size)
    if lo < hi:
        found[lo:hi] = counts[lo - least : hi - least]
    return found


def _solutions(read: MatrixRead, terms: Sequence[tuple[str, int]], rest: int) -> Iterator[dict[str, int]]:
    """All values of the loops whose multiples add up to ``rest``: each loop runs where those after it can reach."""
    if not terms:
        yield from ({},) if rest == 0 else ()
        return
    (name, factor), others = terms[0], terms[1:]
    reach = [sorted(f * at for at in (read.axes[n].lo, read.axes[n].hi - 1)) for n, f in others]
    ends = sorted(((rest - sum(hi for _, hi in reach)) / factor, (rest - sum(lo for lo, _ in reach)) / factor))
    axis = read.axes[name]
    for value in range(max(axis.lo, math.ceil(ends[0])), min(axis.hi - 1, math.floor(ends[1])) + 1):
        for values in _solutions(read, others, rest - factor * value):
            yield {name: value, **values}


def _position(axes: Sequence[Any], values: Mapping[str, int]) -> int:
    at = 0
    for axis in axes:
        at = at * axis.extent + values[axis.name] - axis.lo
    return at
