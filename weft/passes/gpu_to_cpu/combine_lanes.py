"""Elements of an array combined in pairs, as vectors, in an order that is given: each step halves their number.

The number of an element is taken apart into bits. A step combines elements that differ in one bit: ``x[j] + x[j + 8]``
for all ``j`` without that bit. Bits of whole vectors take one addition of two vectors; for a bit of the lanes, two
vectors are shuffled so that all lanes are used: ``x0 + x1, x2 + x3, y0 + y1, y2 + y3`` is the sum of their even and odd
lanes. In what order bits go decides how floats are rounded, so it is not changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from weft.ir.buffer import Buffer
from weft.ir.expr import Broadcast, Expr, Load, Ramp, Shuffle, idx
from weft.ir.stmt import Alloc, Seq, Stmt, Store
from weft.ir.visit import fresh_name, replace_buffers
from weft.passes.analysis.combined_values import apply_operator, neutral

#: Bits within which shuffles are cheapest.
_NEAR = 128


@dataclass(frozen=True, slots=True)
class Cube:
    """Elements ``first`` plus any sum of ``bits``; those of ``order`` are combined, the last one first."""

    first: int
    order: tuple[int, ...]
    kept: tuple[int, ...] = ()

    @property
    def offsets(self) -> list[int]:
        """What the results are numbered by, beside ``first``."""
        found = [0]
        for bit in self.kept:
            found += [offset + bit for offset in found]
        return found


@dataclass(frozen=True, slots=True)
class _Layout:
    """Which bits tell vectors apart, and which stand for the positions in one, from the lowest on."""

    vectors: tuple[int, ...]
    lanes: tuple[int, ...]


@dataclass(slots=True)
class LaneWriter:
    """Writes down how the elements of ``source`` are combined by ``op``.

    What is used twice is stored in ``parts``, at places of its own: variables would stand inside one another by the
    hundred, and LLVM makes registers of such elements.
    """

    source: Buffer
    op: str
    most_lanes: int
    taken: set[str]
    steps: list[tuple[int, Expr]] = field(default_factory=list)
    parts: Buffer = field(init=False)
    size: int = 0

    def __post_init__(self) -> None:
        name = fresh_name(f"{self.source.name}_parts", self.taken)
        self.parts = Buffer(name, self.source.dtype, (idx(0),), scope="local")

    def around(self, body: Sequence[Stmt]) -> Stmt:
        """``body`` after all that it uses."""
        if not self.steps:
            return Seq(tuple(body))
        whole = replace(self.parts, shape=(idx(self.size),))
        stores = [Store(self.parts, (_row(at, value.dtype.lanes),), value) for at, value in self.steps]
        return Alloc(whole, replace_buffers(Seq((*stores, *body)), {self.parts: whole}))

    def keep(self, value: Expr) -> Expr:
        """``value``, for more than one use."""
        if isinstance(value, Load):
            return value
        at, lanes = self.size, value.dtype.lanes
        self.steps.append((at, value))
        self.size += lanes
        return Load(self.parts, (_row(at, lanes),))

    def with_neutral(self, value: Expr) -> Expr:
        zero: Expr = neutral(self.op, self.source.dtype)
        lanes = value.dtype.lanes
        return apply_operator(self.op, value, Broadcast(zero, lanes) if lanes > 1 else zero)

    def single(self, cube: Cube) -> Expr:
        """The one result of a cube that keeps no bits."""
        ((_, value),) = self.combined(cube)
        return value

    def store(self, cube: Cube, into: Buffer, slots: Mapping[int, int], with_neutral: bool) -> list[Stmt]:
        """All results stored; ``slots`` tells where those of each offset belong."""
        done: list[Stmt] = []
        for offsets, value in self.combined(cube):
            value = self.with_neutral(value) if with_neutral else value
            order = sorted(range(len(offsets)), key=lambda n: slots[offsets[n]])
            places = [slots[offsets[n]] for n in order]
            if len(order) > 1 and places == list(range(places[0], places[0] + len(places))):
                turned = value if order == sorted(order) else Shuffle((value,), tuple(order))
                done.append(Store(into, (_row(places[0], len(places)),), turned))
            else:
                value = self.keep(value) if len(order) > 1 else value
                for n, slot in zip(order, places):
                    one = Shuffle((value,), (n,)) if len(order) > 1 else value
                    done.append(Store(into, (idx(slot),), one))
        return done

    def combined(self, cube: Cube) -> list[tuple[list[int], Expr]]:
        """The results: vectors, with the offset that each lane has."""
        bits = {*cube.order, *cube.kept}
        lanes: list[int] = []
        while 1 << len(lanes) in bits and 2 << len(lanes) <= self.most_lanes:
            lanes.append(1 << len(lanes))
        steps = cube.order[::-1]
        layouts = [_Layout(tuple(sorted(bits - set(lanes))), tuple(lanes))]
        partners: list[int | None] = []
        last = {bit: len(steps) - n for n, bit in enumerate(cube.order)}
        for bit in steps:
            layout, partner = self.next_layout(layouts[-1], bit, last)
            layouts.append(layout)
            partners.append(partner)
        vectors = _Vectors(self, cube.first, steps, layouts, partners)
        end = layouts[-1]
        return [(sums(end.lanes, offset), vectors.after(len(steps), offset)) for offset in sums(end.vectors)]

    def next_layout(self, layout: _Layout, bit: int, last: Mapping[int, int]) -> tuple[_Layout, int | None]:
        """The layout once ``bit`` is gone, and the bit of vectors that takes its place among the lanes."""
        if bit in layout.vectors:
            return _Layout(tuple(b for b in layout.vectors if b != bit), layout.lanes), None
        at = layout.lanes.index(bit)
        lanes = [b for b in layout.lanes if b != bit]
        if not layout.vectors:
            return _Layout((), tuple(lanes)), None
        partner = max(layout.vectors, key=lambda b: last.get(b, len(last) + 1))  # it is gone last, or never
        near = (_NEAR // self.source.dtype.bits).bit_length() - 1
        lanes.insert(min(near - 1, len(lanes)) if at < near else at, partner)
        return _Layout(tuple(b for b in layout.vectors if b != partner), tuple(lanes)), partner


@dataclass(frozen=True, slots=True)
class _Vectors:
    """The vectors that elements are in after each step."""

    writer: LaneWriter
    first: int
    steps: Sequence[int]
    layouts: Sequence[_Layout]
    partners: Sequence[int | None]

    def after(self, step: int, offset: int) -> Expr:
        """The vector at ``offset`` after so many steps; depth first, so that few are alive."""
        if step == 0:
            return Load(self.writer.source, (_row(self.first + offset, 1 << len(self.layouts[0].lanes)),))
        bit, partner, old, new = self.steps[step - 1], self.partners[step - 1], *self.layouts[step - 1 : step + 1]
        one = self.after(step - 1, offset)
        if bit in old.vectors:
            return apply_operator(self.writer.op, one, self.after(step - 1, offset + bit))
        pair = [self.writer.keep(one)]
        if partner is not None:
            pair.append(self.writer.keep(self.after(step - 1, offset + partner)))
        where = {o: n for n, o in enumerate(sums((*old.lanes, *(() if partner is None else (partner,)))))}
        low, high = (Shuffle(tuple(pair), tuple(where[o + more] for o in sums(new.lanes))) for more in (0, bit))
        return apply_operator(self.writer.op, low, high)


def _row(at: int, lanes: int) -> Expr:
    return Ramp(idx(at), idx(1), lanes) if lanes > 1 else idx(at)


def sums(bits: Sequence[int], start: int = 0) -> list[int]:
    """``start`` plus each sum of some of ``bits``, the first of them changing fastest."""
    found = [start]
    for bit in bits:
        found += [other + bit for other in found]
    return found
