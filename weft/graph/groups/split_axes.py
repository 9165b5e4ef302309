"""Dimensions that one formula of a program walks by one axis and another by two, as two for all.

A product has the pixels of an image as rows, ``T(p, c)``, and a norm after it reads rows and columns,
``T(14 * y + x, c)``. With ``T(y, x, c)`` for both all subscripts are plain, and schedules see one nest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from weft.graph.graph import shape_of
from weft.ir.buffer import Buffer
from weft.ir.expr import Axis, Binary, Const, Expr, Load, Var, idx
from weft.ir.visit import Node, rewrite, walk
from weft.tensor.access import accesses
from weft.tensor.program import Statement, TensorProgram

#: A dimension of a buffer; an axis of a statement, by its number.
_Place = tuple[str, int]
_Named = tuple[int, str]
#: What dividing and the rest of it are called.
_DIGITS = ("//", "%")


def split_axes(program: TensorProgram) -> TensorProgram:
    """``program`` with such dimensions split, as long as there is one that all formulas can do with."""
    refused: set[_Place] = set()
    while (found := _find(program, refused)) is not None:
        place, size = found
        cut = _Cut(program, {place: size})
        if cut.spread():
            program = cut.applied()
        else:
            refused.add(place)
    return program


def _find(program: TensorProgram, refused: set[_Place]) -> tuple[_Place, int] | None:
    """A dimension that is read by two axes, and how long the inner one is."""
    if any(s.recurrences for s in program.statements):
        return None
    for s in program.statements:
        for buffer, indices in accesses(s):
            for d, i in enumerate(indices):
                pair = _digits(i, s)
                whole = pair is not None and _values(pair[0], s) * pair[2] == shape_of(buffer.shape)[d]
                if pair is not None and whole and (buffer.name, d) not in refused:
                    return (buffer.name, d), pair[2]
    return None


def _digits(e: Expr, s: Statement) -> tuple[Expr, Var, int] | None:
    """``outer`` and ``inner`` of ``n * outer + inner``, and ``n``, which inner does not reach."""
    match e:
        case (
            Binary(op="+", left=Binary(op="*", left=outer, right=Const(value=n)), right=Var() as inner)
            | Binary(op="+", left=Binary(op="*", left=Const(value=n), right=outer), right=Var() as inner)
        ):
            sizes = _values(outer, s), _count(s, inner.name)
            return (outer, inner, int(n)) if min(sizes) > 0 and sizes[1] <= int(n) else None
    return None


def _values(e: Expr, s: Statement) -> int:
    """How many values an axis has, or digits of several, from zero on; zero where that is not known."""
    if isinstance(e, Var):
        return _count(s, e.name)
    pair = _digits(e, s)
    return 0 if pair is None else _values(pair[0], s) * pair[2]


def _count(s: Statement, name: str) -> int:
    """How many values an axis has, from zero on; zero where that is not known."""
    axis = next((a for a in s.axes if a.var.name == name), None)
    is_known = axis is not None and axis.lo == idx(0) and isinstance(axis.hi, Const)
    return int(axis.hi.value) if axis is not None and is_known and isinstance(axis.hi, Const) else 0


@dataclass
class _Cut:
    """Dimensions, by the size of their inner part, and the axes that walk them."""

    program: TensorProgram
    places: dict[_Place, int]
    axes: dict[_Named, int] = field(default_factory=dict)

    def spread(self) -> bool:
        """Finds all that must be split with what is; whether that can be."""
        before = -1
        while len(self.places) + len(self.axes) != before:
            before = len(self.places) + len(self.axes)
            if not all(self._follow(n, s) for n, s in enumerate(self.program.statements)):
                return False
        return all(self._is_everywhere(n, name, size) for (n, name), size in self.axes.items())

    def _follow(self, number: int, s: Statement) -> bool:
        for buffer, indices in accesses(s):
            for d, i in enumerate(indices):
                size, place = shape_of(buffer.shape)[d], (buffer.name, d)
                if isinstance(i, Var) and (number, i.name) in self.axes:
                    if (
                        size != _count(s, i.name)
                        or self.places.setdefault(place, self.axes[number, i.name]) != (self.axes[number, i.name])
                    ):
                        return False
                elif place in self.places and isinstance(i, Var):
                    if size != _count(s, i.name):
                        return False
                    self.axes[number, i.name] = self.places[place]
                elif place in self.places:
                    pair = _digits(i, s)
                    if pair is None or pair[2] != self.places[place]:
                        return False
        return True

    def _is_everywhere(self, number: int, name: str, size: int) -> bool:
        """Whether a statement has the axis as a subscript of what is split, and else in quotients and rests alone."""
        s = self.program.statements[number]
        nodes = [n for e in (*s.indices, s.value) for n in walk(e)]
        seen = Counter(n.name for n in nodes if isinstance(n, Var))[name]
        plain = sum(isinstance(i, Var) and i.name == name for _, indices in accesses(s) for i in indices)
        digits = sum(_is_digit(n, name, size) for n in nodes)
        return seen == plain + digits

    def applied(self) -> TensorProgram:
        every = (*self.program.inputs, *self.program.outputs, *self.program.temporaries)
        buffers = {b.name: replace(b, shape=self._shape(b)) for b in every}
        statements = (self._statement(n, s, buffers) for n, s in enumerate(self.program.statements))
        return self.program.with_buffers(buffers, statements)

    def _shape(self, buffer: Buffer) -> tuple[Expr, ...]:
        shape: list[Expr] = []
        for d, size in enumerate(shape_of(buffer.shape)):
            inner = self.places.get((buffer.name, d))
            shape += [idx(size)] if inner is None else [idx(size // inner), idx(inner)]
        return tuple(shape)

    def _statement(self, number: int, s: Statement, buffers: dict[str, Buffer]) -> Statement:
        own = {name: size for (n, name), size in self.axes.items() if n == number}

        def split(name: str, indices: Sequence[Expr]) -> tuple[Expr, ...]:
            made: list[Expr] = []
            for d, i in enumerate(indices):
                made += _parts(i, s) if (name, d) in self.places else [i]
            return tuple(made)

        def put(n: Node) -> Node | None:
            if isinstance(n, Load):
                return replace(n, buffer=buffers[n.buffer.name], indices=split(n.buffer.name, n.indices))
            digit = next((name for name, size in own.items() if _is_digit(n, name, size)), None)
            return None if digit is None or not isinstance(n, Binary) else _halves(digit)[_DIGITS.index(n.op)]

        axes: list[Axis] = []
        for a in s.axes:
            axes += _split_axis(a, own[a.var.name]) if a.var.name in own else [a]
        indices = split(s.target.name, [rewrite(i, put) for i in s.indices])
        return replace(
            s, target=buffers[s.target.name], indices=indices, value=rewrite(s.value, put), axes=tuple(axes), span=None
        )


def _is_digit(n: Node, name: str, size: int) -> bool:
    """Whether it is the quotient or the rest of an axis by ``size``."""
    is_binary = isinstance(n, Binary) and n.op in _DIGITS and n.right == idx(size)
    return is_binary and isinstance(n.left, Var) and n.left.name == name  # type: ignore[union-attr]


def _halves(name: str) -> tuple[Var, Var]:
    return Var(f"{name}_outer"), Var(f"{name}_inner")


def _parts(i: Expr, s: Statement) -> list[Expr]:
    if isinstance(i, Var):
        return list(_halves(i.name))
    pair = _digits(i, s)
    assert pair is not None
    return [pair[0], pair[1]]


def _split_axis(axis: Axis, size: int) -> list[Axis]:
    assert isinstance(axis.hi, Const)
    outer, inner = _halves(axis.var.name)
    return [Axis(outer, idx(0), idx(int(axis.hi.value) // size)), Axis(inner, idx(0), idx(size))]
