"""Rounds in which threads combine values in pairs, as one reduction: trees in shared memory, shuffles of warps.

``if t < 128 { s[t] = s[t] + s[t + 128] }; barrier; if t < 64 ...; out = s[0]`` is a sum of ``s[0:256]``. A block is
followed with values in place of numbers (`weft.passes.analysis.follow_values`): what reaches ``out`` is a tree over
what 256 threads stored. Where such a tree combines elements that differ in one bit of their number, bit after bit, as
all usual ones do whatever they look like, vectors combine them in the same order (`combine_lanes`): the result is the
same to the last bit. What nothing needs any more goes: rounds, exchanges, copies of what threads keep between them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from weft.ir import dtype as dt
from weft.ir.buffer import Buffer
from weft.ir.dtype import DType
from weft.ir.expr import AddressOf, Binary, Expr, Load, Var, idx
from weft.ir.nesting import sequence, statements
from weft.ir.simplify import assigned_names, simplify
from weft.ir.stmt import Alloc, Atomic, For, If, Kernel, Let, Seq, Stmt, Store, While
from weft.ir.visit import N, fact, fresh_name, map_statements, mentions, rewrite, used_names, walk
from weft.passes.analysis.follow_values import CannotFollow, Follower
from weft.passes.analysis.followed import Ints, Note, Piece
from weft.passes.gpu_to_cpu.combine_lanes import LaneWriter
from weft.passes.gpu_to_cpu.reduction_trees import Family, Forest
from weft.passes.gpu_to_cpu.split_phases import split_phases

#: Values that are combined at least, in as many thread loops at least; fewer are no rounds.
FEWEST, FEWEST_PHASES = 4, 3


def fold_rounds(kernel: Kernel, *, vector_bits: int) -> Kernel:
    """``kernel`` with rounds of threads as vectors where their outcome is a reduction."""
    return replace(kernel, body=_Folder(kernel, vector_bits).visit(kernel.body, ()))


@dataclass(slots=True)
class _Folder:
    kernel: Kernel
    vector_bits: int
    taken: set[str] = field(init=False)

    def __post_init__(self) -> None:
        self.taken = used_names(self.kernel)

    def visit(self, s: Stmt, made: tuple[Buffer, ...]) -> Stmt:
        """``s`` with the bodies of blocks, and of loops around phases, folded, innermost first."""
        if isinstance(s, Alloc):
            made = (*made, s.buffer)
        inside = map_statements(s, lambda n: self.visit(n, made))
        if isinstance(s, (For, While)) and not (isinstance(s, For) and s.kind == "thread"):
            assert isinstance(inside, (For, While))
            folded = self.region(s.body, inside.body, made)
            return inside if folded is None else replace(inside, body=folded)
        return inside

    def region(self, before: Stmt, body: Stmt, made: tuple[Buffer, ...]) -> Stmt | None:
        """``body``, which was ``before`` until loops in it were folded, with its rounds folded; None without any."""
        if sum(isinstance(n, For) and n.kind == "thread" for n in statements(body)) < FEWEST_PHASES:
            return None
        body = split_phases(body, self.taken)
        whole = self.kernel.body
        follower = Follower(made, mentions(whole).stored | assigned_names(whole))
        try:
            follower.run(body)
        except CannotFollow:
            return None
        inside = {name for name in follower.arrays if name not in {b.name for b in made}}
        lasting = {name for name in follower.arrays if name not in inside and self.is_read(name, before, follower)}
        needed = _Needed(follower, Forest(follower.values, follower.homes), self.taken, self.vector_bits)
        needed.run(lasting)
        return _Writer(needed).written(body) if needed.families else None

    def is_read(self, name: str, body: Stmt, follower: Follower) -> bool:
        """Whether what ``body`` leaves in an array that was made outside may be read after it."""
        return name in follower.exposed or _reads(self.kernel.body)[name] > _reads(body)[name]


@fact
def _reads(s: Stmt) -> Counter[str]:
    """How often each buffer is read in ``s``."""
    return Counter(n.buffer.name for n in walk(s) if isinstance(n, (Load, Atomic, AddressOf)))


@dataclass(frozen=True, slots=True)
class _Result:
    """A family of reductions, the array its results are in, and the statement that stores what it combines."""

    family: Family
    results: Buffer
    code: Stmt


class _Needed:
    """What of a block is needed once reductions are computed in another way, from what others see backwards."""

    def __init__(self, follower: Follower, forest: Forest, taken: set[str], vector_bits: int) -> None:
        self.notes: dict[int, Note] = follower.notes
        self.follower = follower
        self.forest = forest
        self.taken = taken
        self.vector_bits = vector_bits
        self.kept: set[int] = set()
        self.looked: set[int] = set()
        self.homes: dict[int, Buffer] = {}
        self.families: dict[tuple[int, ...], _Result] = {}
        self.refused: set[tuple[int, ...]] = set()
        self.replaced: dict[int, dict[Expr, Expr]] = {}
        self.waiting: list[int] = []

    def run(self, lasting: set[str]) -> None:
        self.waiting = [n for n, note in self.notes.items() if note.has_effect]
        for name in lasting:
            self.waiting += self.follower.last_writers(name)
        while self.waiting:
            number = self.waiting.pop()
            if number not in self.kept:
                self.kept.add(number)
                self.look_at(number)

    def look_at(self, number: int) -> None:
        """All that a statement reads is needed, and the tests and loops around it."""
        if number in self.looked:
            return
        self.looked.add(number)
        note = self.notes[number]
        self.waiting += note.needs
        if note.parent in self.notes:
            self.waiting.append(note.parent)
        for piece in note.pieces:
            self.need(piece, number)

    def need(self, piece: Piece, number: int) -> None:
        if self.is_folded(piece, number):
            return
        self.waiting += piece.by
        for part in piece.pieces:
            self.need(part, number)

    def is_folded(self, piece: Piece, number: int) -> bool:
        family = self.forest.family(piece.values)
        if family is None or family.size < FEWEST:
            return False
        home = self.notes[family.statement]
        slot = _slot(piece, family)
        if home.item >= self.notes[number].item or home.store is None or slot is None:
            return False
        key = (family.statement, *family.roots)
        if key in self.refused:
            return False
        if key not in self.families:
            made = self.made(family)
            if made is None:
                self.refused.add(key)
                return False
            self.families[key] = made
            self.look_at(family.statement)
        self.replaced.setdefault(number, {})[piece.expr] = Load(self.families[key].results, (slot,))
        return True

    def made(self, family: Family) -> _Result | None:
        stored = self.notes[family.statement].store
        assert stored is not None
        if not _has_vectors(stored.buffer.dtype):
            return None
        source = self.homes.get(family.statement)
        if source is None:
            count = stored.buffer.element_count()
            assert count is not None
            name = fresh_name(f"{stored.buffer.name}_given", self.taken)
            source = Buffer(name, stored.buffer.dtype, (idx(count),), scope="local")
        lanes = max(1, self.vector_bits // source.dtype.bits)
        results = Buffer(
            fresh_name(f"{stored.buffer.name}_result", self.taken),
            source.dtype,
            (idx(len(family.roots)),),
            scope="local",
        )
        writer = LaneWriter(source, family.op, lanes, self.taken)
        stores = family.write(writer, results)
        if stores is None:
            return None
        self.homes[family.statement] = source
        return _Result(family, results, writer.around(stores))


def _has_vectors(t: DType) -> bool:
    return (t.is_integer and t.bits >= 8) or t in (dt.float32, dt.float64)


def _slot(piece: Piece, family: Family) -> Expr | None:
    """Which result a thread reads, in terms of its place; the same for all, or one for each group of neighbours."""
    if len(family.roots) == 1:
        return idx(0)
    number = {root: n for n, root in enumerate(family.roots)}
    wanted = np.array([number[v] for v in piece.values.tolist()], np.int64)
    for place, flat in _places(piece):
        first = int(place.min())
        width = int(place[wanted == 1].min()) - first
        if width <= 0:
            continue
        if ((place - first) // width == wanted).all():
            return simplify(Binary("//", Binary("-", flat, idx(first)), idx(width)))
    return None


def _places(piece: Piece) -> Iterator[tuple[Ints, Expr]]:
    """Where threads stand, along each loop alone and counted through, as numbers and as an expression."""
    total, flat = np.zeros(len(piece.values), np.int64), idx(0)
    step = 1
    for name, place in reversed(piece.places.items()):
        var = Var(name)
        yield place, var
        total = total + place * step
        flat = Binary("+", Binary("*", var, idx(step)), flat)  # type: ignore[assignment]
        step *= int(place.max()) + 1
        yield total, flat


class _Writer:
    """Writes a block down again, without what is not needed."""

    def __init__(self, needed: _Needed) -> None:
        self.needed = needed
        self.number = 0
        self.pending = list(needed.families.values())
        self.item = 0

    def written(self, body: Stmt) -> Stmt:
        made = self.visit(body, top=True)
        assert made is not None
        assert not self.pending
        for buffer in (*self.needed.homes.values(), *(f.results for f in self.needed.families.values())):
            made = Alloc(buffer, made)
        return made

    def visit(self, s: Stmt, top: bool = False) -> Stmt | None:
        number, self.number = self.number, self.number + 1
        done = self.statement(s, number, top)
        return self.followed(done, top) if top and not isinstance(s, (Seq, Alloc, Let)) else done

    def followed(self, done: Stmt | None, top: bool) -> Stmt | None:
        """A statement of the block, and the reductions of what threads have stored by then."""
        ready = [f for f in self.pending if f.family.statement < self.number]
        self.pending = [f for f in self.pending if f not in ready]
        parts = [*(() if done is None else (done,)), *(f.code for f in ready)]
        return sequence(parts) if parts else None

    def statement(self, s: Stmt, number: int, top: bool) -> Stmt | None:
        is_kept = number in self.needed.kept
        match s:
            case Seq():
                parts = [part for inner in s.body if (part := self.visit(inner, top)) is not None]
                return sequence(parts) if parts else None
            case Alloc():
                body = self.visit(s.body, top)
                return None if body is None else replace(s, body=body)
            case Let():
                body = self.visit(s.body, top)
                if body is None or not is_kept:
                    return body
                return replace(s, value=self.read(s.value, number), body=body)
            case If():
                then = self.visit(s.then)
                other = None if s.otherwise is None else self.visit(s.otherwise)
                if then is None and other is None:
                    return None
                return replace(s, condition=self.read(s.condition, number), then=then or Seq(()), otherwise=other)
            case For(kind="thread") if self.needed.notes[number].is_entered:
                body = self.visit(s.body)
                return None if body is None else replace(s, body=body)
            case Store():
                return self.store(s, number, is_kept)
        self.number += sum(1 for _ in statements(s)) - 1
        return self.read(s, number) if is_kept else None

    def store(self, s: Store, number: int, is_kept: bool) -> Stmt | None:
        new = self.read(s, number)
        parts: list[Stmt] = []
        if number in self.needed.homes:
            at: Expr = idx(0)
            for index, stride in zip(s.indices, s.buffer.element_strides()):
                at = Binary("+", at, Binary("*", index, stride))
            parts.append(Store(self.needed.homes[number], (simplify(at),), new.value, span=s.span))
        if is_kept:
            parts.append(new)
        return sequence(parts) if parts else None

    def read(self, s: N, number: int) -> N:
        """``s`` with results of reductions in place of what they are."""
        instead = self.needed.replaced.get(number)
        return s if not instead else rewrite(s, lambda n: instead.get(n) if isinstance(n, Expr) else None)
