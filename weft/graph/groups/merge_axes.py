"""Axes of a sum that all of a program walks together, one inside the other, as one: the pixels of an image, not its
rows and columns. Schedules share out the longest axis of a sum; this makes it as long as it can be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, starmap

from weft.graph.graph import Shape, dense_strides, shape_of
from weft.ir.buffer import Buffer
from weft.ir.expr import Axis, Const, Expr, Load, Var, idx
from weft.ir.visit import Node, rewrite, walk
from weft.tensor.access import accesses
from weft.tensor.program import Statement, TensorProgram

#: Two axes of a statement, by its number; the first of two dimensions of a buffer.
_Pair = tuple[int, str, str]
_Place = tuple[str, int]


def merge_axes(program: TensorProgram, strides: Mapping[str, Shape]) -> TensorProgram:
    """``program`` with axes merged; ``strides`` are those of its parameters and outputs."""
    while (found := _Search(program, strides).find()) is not None:
        program = _merged(program, *found)
    return program


@dataclass(frozen=True)
class _Access:
    """An element that a statement reads or writes, and the pairs of axes that are its subscripts, by dimension."""

    statement: int
    buffer: Buffer
    pairs: Mapping[int, _Pair]


class _Search:
    """Which axes can be merged: those that are next to each other wherever one of them is."""

    def __init__(self, program: TensorProgram, strides: Mapping[str, Shape]) -> None:
        self.program, self.strides = program, strides
        self.accesses = [a for n, s in enumerate(program.statements) for a in _accesses(n, s)]

    def find(self) -> tuple[set[_Pair], set[_Place]] | None:
        """Pairs that only make sense together, one of them of a sum, and where they are."""
        if any(s.recurrences for s in self.program.statements):
            return None
        pairs, places = self._possible()
        for seed in sorted(p for p in pairs if self._is_sum(p)):
            found = self._connected(seed, pairs, places)
            if not any((name, d + 1) in found[1] for name, d in found[1]):
                return found
        return None

    def _is_sum(self, pair: _Pair) -> bool:
        number, *names = pair
        summed = {a.var.name for a in self.program.statements[number].reduce_axes}
        return summed.issuperset(names)

    def _possible(self) -> tuple[set[_Pair], set[_Place]]:
        pairs = {p for a in self.accesses for p in a.pairs.values()}
        places = {(a.buffer.name, d) for a in self.accesses for d in a.pairs if self._is_dense(a.buffer, d)}
        before = -1
        while len(pairs) + len(places) != before:
            before = len(pairs) + len(places)
            for a in self.accesses:
                places -= {(a.buffer.name, d) for d in range(len(a.buffer.shape)) if a.pairs.get(d) not in pairs}
            pairs = {p for p in pairs if self._is_everywhere(p, places)}
        return pairs, places

    def _is_dense(self, buffer: Buffer, d: int) -> bool:
        shape = shape_of(buffer.shape)
        own = self.strides.get(buffer.name, dense_strides(shape))
        return own[d] == own[d + 1] * shape[d + 1]

    def _is_everywhere(self, pair: _Pair, places: set[_Place]) -> bool:
        """Whether a statement has these axes nowhere but in ``places``, together."""
        number, *names = pair
        together = sum(
            (a.buffer.name, d) in places and found == pair
            for a in self.accesses
            if a.statement == number
            for d, found in a.pairs.items()
        )
        s = self.program.statements[number]
        seen = Counter(n.name for e in (*s.indices, s.value) for n in walk(e) if isinstance(n, Var))
        return all(seen[name] == together for name in names)

    def _connected(self, seed: _Pair, pairs: set[_Pair], places: set[_Place]) -> tuple[set[_Pair], set[_Place]]:
        chosen, at = {seed}, set[_Place]()
        while True:
            more = {(a.buffer.name, d) for a in self.accesses for d, p in a.pairs.items() if p in chosen} & places
            if more == at:
                return chosen, at
            at = more
            chosen |= {p for a in self.accesses for d, p in a.pairs.items() if (a.buffer.name, d) in at} & pairs


def _accesses(number: int, s: Statement) -> Iterator[_Access]:
    axes = {a.var.name: a for a in s.axes}
    order = [a.var.name for a in s.axes]
    follows = set(pairwise(order))
    for buffer, indices in accesses(s):
        pairs: dict[int, _Pair] = {}
        for d, (first, second) in enumerate(pairwise(indices)):
            if not isinstance(first, Var) or not isinstance(second, Var) or (first.name, second.name) not in follows:
                continue
            if all(_is_whole(axes[v.name], size) for v, size in zip((first, second), buffer.shape[d:])):
                pairs[d] = number, first.name, second.name
        yield _Access(number, buffer, pairs)


def _is_whole(axis: Axis, size: Expr) -> bool:
    return isinstance(axis.hi, Const) and axis.lo == idx(0) and axis.hi == size


def _merged(program: TensorProgram, pairs: set[_Pair], places: set[_Place]) -> TensorProgram:
    buffers = {
        b.name: replace(b, shape=_shape(b, {d for name, d in places if name == b.name}))
        for b in (*program.inputs, *program.outputs, *program.temporaries)
    }
    cut = {name: {d + 1 for other, d in places if other == name} for name in buffers}

    def kept(name: str, indices: Sequence[Expr]) -> tuple[Expr, ...]:
        return tuple(i for d, i in enumerate(indices) if d not in cut[name])

    def put(n: Node) -> Node | None:
        if not isinstance(n, Load):
            return None
        return replace(n, buffer=buffers[n.buffer.name], indices=kept(n.buffer.name, n.indices))

    def changed(number: int, s: Statement) -> Statement:
        sizes = {a.var.name: a.hi for a in s.axes}
        longer = {a: idx(_number(sizes[a]) * _number(sizes[b])) for n, a, b in pairs if n == number}
        gone = {b for n, _, b in pairs if n == number}
        axes = tuple(replace(a, hi=longer.get(a.var.name, a.hi)) for a in s.axes if a.var.name not in gone)
        indices = kept(s.target.name, [rewrite(i, put) for i in s.indices])
        return replace(s, target=buffers[s.target.name], indices=indices, value=rewrite(s.value, put), axes=axes)

    return program.with_buffers(buffers, starmap(changed, enumerate(program.statements)))


def _shape(buffer: Buffer, joined: set[int]) -> tuple[Expr, ...]:
    shape: list[Expr] = []
    for d, size in enumerate(buffer.shape):
        if d - 1 in joined:
            shape[-1] = idx(_number(shape[-1]) * _number(size))
        else:
            shape.append(size)
    return tuple(shape)


def _number(e: Expr) -> int:
    assert isinstance(e, Const)
    return int(e.value)


def reshaped_layout(shape: Shape, strides: Shape, target: Shape) -> tuple[Shape, Shape]:
    """A layout with axes next to each other merged, and others split, so that its shape is ``target``."""
    if shape == target:
        return shape, strides
    given, steps, wanted = list(shape), list(strides), list(target)
    made: list[int] = []
    while wanted:
        size = wanted.pop()  # from the innermost on
        while given and given[-1] % size and len(given) > 1:
            inner, step = given.pop(), steps.pop()
            given[-1], steps[-1] = given[-1] * inner, step if inner > 1 else steps[-1]
        made.append(steps[-1] if steps else 1)
        if given and given[-1] > size and given[-1] % size == 0:
            given[-1], steps[-1] = given[-1] // size, steps[-1] * size
        elif given:
            given.pop(), steps.pop()
    return target, tuple(reversed(made))
