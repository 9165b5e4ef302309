"""Nests as a plan would make them, drawn without any rewrite, so that plans are compared before one is applied.

>>> sketch = Sketch()
>>> sketch.draw_stage(sketch.top, stage, [Loop("m", 4, 128), Loop("k", 1, 512), Loop("m", 1, 4, "unroll")])
>>> sketch.seconds(draft)

The time model reads a sketch as it reads the nests of a scheduled kernel: one model, two sources. A sketch is right
about loops, accesses, registers and lanes; it has no tests at the edges of tiles: those count for what
is in them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil

from weft.auto.draft import Draft
from weft.auto.estimate import estimate_program
from weft.auto.stages import Stage, StageAccess, Stages
from weft.ir.buffer import Buffer
from weft.ir.expr import Binary, Expr, Load, idx
from weft.ir.stmt import Block, LoopKind
from weft.ir.visit import stores
from weft.schedules.index_forms import NOTHING, Form, Forms, Term, add_forms, index_form
from weft.schedules.layouts import Word, parse_layout
from weft.schedules.nests import Access, Leaf, Nest, NestReader, Place, Program


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop of a nest to be: each of its ``trips`` iterations moves iterator ``of`` on by ``step``."""

    of: str
    step: int
    trips: float
    kind: LoopKind = "serial"


@dataclass(frozen=True, slots=True)
class Copy:
    """What is read through ``access`` comes from a copy with this ``layout``, in tiles ``along`` a dimension.

    It is made inside the first ``depth`` loops of a nest, ``extents`` elements of each dimension at a time. With none
    of its loops it is made inside ``home`` of those that the nest shares with others. One that ``is_free`` is there.
    """

    access: StageAccess
    along: int
    layout: str
    depth: int
    extents: tuple[int, ...]
    home: int = 0
    is_free: bool = False

    @property
    def words(self) -> tuple[Word, ...]:
        return parse_layout(self.layout, self.access.buffer.rank).words

    def _trips(self, word: Word) -> float:
        """How many values ``word`` has; the last of them may be for a part of a tile."""
        return (self.extents[word.dimension] if word.high is None else word.high) / word.low

    def buffer(self) -> Buffer:
        source = self.access.buffer
        return Buffer(f"{source.name}_pack", source.dtype, tuple(idx(ceil(self._trips(w))) for w in self.words))

    def loops(self) -> list[Loop]:
        """What goes through the copy in its order."""
        name = self.access.buffer.name
        return [Loop(f"{name}.{w.dimension}", w.low, n) for w in self.words if (n := self._trips(w)) > 1]

    def forms(self, forms: Sequence[Form]) -> tuple[Form, ...]:
        """Subscripts of the copy for those of what is copied."""
        return tuple(_part(forms[w.dimension], w) for w in self.words)


def _part(form: Form, word: Word) -> Form:
    """The part of a subscript that ``word`` has: of what moves it, that which moves it by so much."""
    if (word.low, word.high) == (1, None):
        return form
    moves = {t: c for t, c in form.coefficients.items() if word.high is None or c % word.high}
    return Form({t: c // word.low for t, c in moves.items() if c % word.low == 0}, 0)


@dataclass(frozen=True, slots=True)
class TileNest:
    """The loops around a tile of results, those in which the results stay in registers, those through the tile."""

    outer: tuple[Loop, ...]
    inner: tuple[Loop, ...]
    tile: tuple[Loop, ...]


class Sketch:
    """Loops and statements under way."""

    def __init__(self) -> None:
        self.root = Nest("", "serial", 1, 0)
        self.top = Place(self.root, (), {})
        self._reader = NestReader({})
        self._outer: dict[tuple[str, ...], list[Place]] = {}

    @property
    def program(self) -> Program:
        return Program(self.root, self._reader.nests, self._reader.streamed, ())

    def seconds(self, draft: Draft) -> float:
        """What the time model expects. The sketch is gone then: what knows one another would wait for the collector."""
        found = estimate_program(self.program, draft.model, draft.threads, fast=draft.is_fast).seconds
        for nest in (self.root, *self._reader.nests.values()):
            nest.parts.clear()
        return found

    def enter(self, at: Place, loops: Sequence[Loop], forms: Forms, whose: str) -> tuple[Place, dict[str, Form]]:
        """Inside ``loops``, and what the iterators are there; ``whose`` tells loops of different nests apart."""
        found = dict(forms)
        for loop in loops:
            name = f"{loop.of}/{loop.step} of {whose}"
            while name in self._reader.nests:
                name += "'"
            at = self._reader.enter(at, name, loop.kind, loop.trips)
            found[loop.of] = add_forms(found.get(loop.of, NOTHING), Form({Term(name): loop.step}, 0))
        return at, found

    def enter_outer(self, stage: Stage, stages: Stages) -> tuple[list[Place], dict[str, Form]]:
        """Inside no, one, ... all loops that ``stage`` shares with others, and its iterators in terms of those."""
        places = self._outer.setdefault(stage.outer, [self.top])
        for name, count in zip(stage.outer[len(places) - 1 :], stage.outer_counts[len(places) - 1 :]):
            places.append(self._reader.enter(places[-1], name, "serial", count))
        loops = {name: Form({Term(name): 1}, 0) for name in stage.outer}
        self.keep_inside(places[-1], stages.kept_inside(stage))
        return places, {i.var.name: index_form(i.binding, loops, {}) for i in stage.block.iters}

    def keep_inside(self, at: Place, buffers: Iterable[str]) -> None:
        """Each iteration of the loops around ``at`` has ``buffers`` for its own."""
        around = frozenset(n.name for n in at.around)
        self._reader.outside.update(dict.fromkeys(buffers, around))

    def draw_stage(self, at: Place, stage: Stage, loops: Sequence[Loop], forms: Forms | None = None) -> None:
        """The block of ``stage`` in ``loops``; ``forms`` says what loops further out have made of its iterators."""
        place, inside = self.enter(at, loops, forms or {}, stage.name)
        self._reader.read_block(stage.block, place, _complete(stage.block, inside))

    def draw_tiles(
        self,
        places: Sequence[Place],
        stage: Stage,
        nest: TileNest,
        forms: Forms | None = None,
        copies: Sequence[Copy] = (),
    ) -> None:
        """The block of ``stage`` in the loops of ``nest``, its results in registers over the inner ones."""
        place, around = places[-1], dict(forms or {})
        made: list[tuple[Copy, Buffer, set[str]]] = []
        for depth in range(len(nest.outer) + 1):
            for copy in (c for c in copies if c.depth == depth):
                home = place if depth else places[min(copy.home, len(places) - 1)]
                made.append((copy, copy.buffer(), {n.name for n in home.around}))
                if not copy.is_free:
                    self._copy(home, stage, copy, made[-1][1], around)
            if depth < len(nest.outer):
                place, around = self.enter(place, [nest.outer[depth]], around, stage.name)
        body, inside = self.enter(place, [*nest.inner, *nest.tile], around, stage.name)
        self._reader.read_block(replace(stage.block, init=None), body, _complete(stage.block, inside))
        leaf = body.nest.parts[-1]
        assert isinstance(leaf, Leaf)
        own = [n.name for n in body.around[len(place.around) :]]
        leaf.accesses = tuple(_in_register(a, stage.write.buffer, own) for a in leaf.accesses)
        for copy, buffer, outside in made:
            leaf.accesses = tuple(self._from_copy(a, copy, buffer, outside) for a in leaf.accesses)
        end, stored = self.enter(place, nest.tile, around, f"{stage.name}_store")
        adds = any(stage.by_name[loop.of].is_reduction for loop in nest.outer)
        own = [n.name for n in end.around[len(place.around) :]]
        self._store(end, stage, _complete(stage.block, stored), own, adds=adds)

    def _copy(self, at: Place, stage: Stage, copy: Copy, made: Buffer, forms: Forms) -> None:
        """A nest that makes ``copy`` in buffer ``made``, in the order of it."""
        source = copy.access.buffer
        place, inside = self.enter(at, copy.loops(), {}, f"{stage.name}_pack")
        own = [inside.get(f"{source.name}.{d}", NOTHING) for d in range(source.rank)]
        outer = [_bound(row, offset, forms) for row, offset in zip(copy.access.rows or (), copy.access.offsets)]
        value = Load(source, tuple(idx(0) for _ in source.shape))
        read = Access(source, tuple(map(add_forms, own, outer)), False, self._reader.strides(source), value.indices)
        written = Access(made, copy.forms(own), True, self._reader.strides(made), is_temporary=True)
        leaf = Leaf(value, (read, written), place.around, 1.0, (), {}, made.name)
        place.nest.parts.append(leaf)

    def _from_copy(self, access: Access, copy: Copy, made: Buffer, outside: Collection[str]) -> Access:
        if access.buffer.name != copy.access.buffer.name or not access.forms[copy.along].coefficients:
            return access
        forms = copy.forms([_without(f, outside) for f in access.forms])
        return Access(
            made, forms, access.is_store, self._reader.strides(made), access.indices, access.private, True,
            access.buffer.name,
        )  # fmt: skip

    def _store(self, at: Place, stage: Stage, forms: Forms, own: Sequence[str], *, adds: bool) -> None:
        """The results of a tile stored, or, where they are those of a piece of a reduction, added to what is there."""
        (first, *_) = stores(stage.block.body)
        written = self._reader.access(first.buffer, first.indices, {**at.forms, **forms}, True)
        kept = _in_register(written, first.buffer, own)
        kept.is_store = False
        value: Expr = Load(first.buffer, first.indices)
        accesses: tuple[Access, ...] = (kept, written)
        if adds:
            before = self._reader.access(first.buffer, first.indices, {**at.forms, **forms}, False)
            value, accesses = Binary("+", value, value), (kept, before, written)
        leaf = Leaf(value, accesses, at.around, 1.0, (), {**at.forms, **forms}, f"{stage.name}_store")
        at.nest.parts.append(leaf)


def _bound(row: Mapping[str, int], offset: int | None, forms: Forms) -> Form:
    """A subscript in terms of the loops that are there already."""
    found = Form({}, offset or 0)
    for name, times in row.items():
        found = add_forms(found, forms.get(name, NOTHING), times)
    return found


def _without(form: Form, loops: Collection[str]) -> Form:
    kept = {t: c for t, c in form.coefficients.items() if t.variable not in loops}
    return Form(kept, form.constant, form.scattered)


def _complete(block: Block, forms: Mapping[str, Form]) -> dict[str, Form]:
    return {i.var.name: forms.get(i.var.name, NOTHING) for i in block.iters}


def _in_register(access: Access, buffer: Buffer, own: Sequence[str]) -> Access:
    """``access``, where it is of ``buffer``, to registers that only loops ``own`` choose among, lanes side by side."""
    if access.buffer.name != buffer.name:
        return access
    moving = [name for name in own if name in access.moving]
    kept = Buffer(f"{buffer.name}_cache", buffer.dtype, tuple(idx(1) for _ in moving), None, "register")
    forms = tuple(Form({Term(name): 1}, 0) for name in moving)
    strides = (1,) * len(moving)
    return Access(kept, forms, access.is_store, strides, access.indices, access.private, True, buffer.name)
