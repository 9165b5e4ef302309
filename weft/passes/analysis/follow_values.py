"""Phases of threads run with values in place of numbers: what each thread has in the end is a tree over what threads had.

Thread numbers, and all that follows from them, are numbers: which threads take part in a round and which elements of
shared arrays they read is known. All threads of a phase go at once, as rows of numpy arrays. What comes from elsewhere
(memory of the kernel, functions, tests of data) is a value of its own for each thread.

Statements are numbered in program order, parents first. Each is noted with what it reads (`Piece`), and which
statements made that, so that a reader knows what is still needed when some of it is computed in another way.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from weft.ir.buffer import Buffer
from weft.ir.expr import AddressOf, Binary, Cast, Compare, Const, Expr, Load, Select, Unary, Var
from weft.ir.nesting import statements
from weft.ir.simplify import assigned_names
from weft.ir.stmt import JUMPS, Alloc, Assign, Barrier, For, If, Let, Return, Seq, Stmt, Store
from weft.ir.visit import children, free_vars, mentions
from weft.passes.analysis.combined_values import UNKNOWN, Values, operator_of
from weft.passes.analysis.known_numbers import compute

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
#: What was there before the first statement.
ENTRY = -1
#: Threads that are followed at once at most.
MOST_THREADS = 2048


class CannotFollow(Exception):
    """A statement whose effect on threads is not followed."""


@dataclass(frozen=True, slots=True)
class Held:
    """What an expression is for each thread: numbers, values, or neither.

    It needs what the statements ``by`` made and, apart from that, the ``pieces`` in it.
    """

    numbers: Ints | None = None
    values: Ints | None = None
    by: frozenset[int] = frozenset()
    pieces: tuple[Piece, ...] = ()

    @property
    def is_open(self) -> bool:
        return self.numbers is None and self.values is None


@dataclass(frozen=True, slots=True)
class Piece:
    """An expression in a statement that is a value in each thread that runs it, at its place in the loops around."""

    expr: Expr
    values: Ints
    places: dict[str, Ints]
    by: frozenset[int]
    pieces: tuple[Piece, ...]


@dataclass(slots=True)
class Note:
    """What is known of a statement: what it reads, what else it needs, and whether more than its readers see it."""

    parent: int
    item: int
    pieces: list[Piece] = field(default_factory=list)
    needs: frozenset[int] = frozenset()
    has_effect: bool = False
    store: Store | None = None
    is_entered: bool = False


@dataclass(slots=True)
class _Array:
    """An array of which every element is followed, for each thread that has one of its own."""

    buffer: Buffer
    values: Ints
    writers: Ints
    base: Ints | None = None


@dataclass(slots=True)
class _Threads:
    """The threads that run a statement: variables of the loops around, who takes part, and whether that is sure."""

    places: dict[str, Ints]
    on: Flags
    sure: bool = True
    parent: int = ENTRY

    @property
    def count(self) -> int:
        return len(self.on)


@dataclass(frozen=True, slots=True)
class Home:
    """Where a value of a thread is stored first: by which statement, and in which element."""

    statement: int
    element: int


class Follower:
    """Runs a block's statements; ``arrays`` are allocated around it, and hold anything at first."""

    def __init__(self, arrays: Iterable[Buffer]) -> None:
        self.values = Values()
        self.notes: dict[int, Note] = {}
        self.homes: dict[int, Home] = {}
        self.held: dict[str, Held] = {}
        self.arrays = {b.name: self._array(b, None) for b in arrays}
        self.exposed: set[str] = set()
        self.number = 0
        self.item = 0

    def run(self, s: Stmt) -> None:
        self.visit(s, _Threads({}, np.ones(1, np.bool_)), top=True)

    def last_writers(self, name: str) -> frozenset[int]:
        return _numbers(self.arrays[name].writers)

    def _array(self, buffer: Buffer, base: Ints | None, copies: int = 1) -> _Array:
        count = buffer.element_count()
        if count is None or count * copies > 1 << 16:
            count = 0
        size = count * copies
        own = None if base is None else base * count
        return _Array(buffer, np.full(size, UNKNOWN, np.int64), np.full(size, ENTRY, np.int64), own)

    # Statements

    def visit(self, s: Stmt, threads: _Threads, top: bool = False) -> None:
        number, self.number = self.number, self.number + 1
        if top and not isinstance(s, (Seq, Alloc)):
            self.item += 1
        match s:
            case Seq():
                for inner in s.body:
                    self.visit(inner, threads, top)
            case Alloc():
                copies = threads.count
                base = None if top else np.arange(copies)
                self.arrays[s.buffer.name] = self._array(s.buffer, base, copies)
                self.visit(s.body, threads, top)
            case Let():
                note = self.note(number, threads)
                held = self.as_values(self.read(s.value, note, threads), threads)
                around = self.held
                self.held = {**around, s.var.name: Held(held.numbers, held.values, frozenset((number,)))}
                self.visit(s.body, threads, top)
                self.held = {name: self.held[name] for name in around}
            case Assign():
                self.assign(s, number, threads)
            case Store():
                self.store(s, number, threads)
            case If():
                self.branch(s, number, threads)
            case For(kind="thread") if self.enter(s, number, threads):
                pass
            case _:
                self.pass_by(s, number, threads)

    def note(self, number: int, threads: _Threads) -> Note:
        self.notes[number] = Note(threads.parent, self.item)
        return self.notes[number]

    def assign(self, s: Assign, number: int, threads: _Threads) -> None:
        note = self.note(number, threads)
        new = self.as_values(self.read(s.value, note, threads), threads)
        old = self.held.get(s.var.name)
        if old is None:
            note.has_effect = True
            return
        by = old.by | {number}
        if not threads.sure:
            self.held[s.var.name] = Held(values=self.atoms(threads), by=by)
        elif threads.on.all():
            self.held[s.var.name] = Held(new.numbers, new.values, by)
        else:
            merged = np.where(threads.on, self.in_values(new, s.var, threads), self.in_values(old, s.var, threads))
            self.held[s.var.name] = Held(values=merged, by=by)

    def store(self, s: Store, number: int, threads: _Threads) -> None:
        note = self.note(number, threads)
        note.store = s
        array = self.arrays.get(s.buffer.name)
        value = self.as_values(self.read(s.value, note, threads), threads)
        places = self.element(s.indices, array, note, threads) if array is not None else None
        if array is None:
            for index in s.indices:
                self.read(index, note, threads)
            note.has_effect = True
            return
        if places is None or not threads.sure:
            self.blur(array, number, note)
            return
        at = places[threads.on]
        values = self.in_values(value, s.value, threads)[threads.on]
        if len(at) and (at.min() < 0 or at.max() >= len(array.values)):
            self.blur(array, number, note)
            return
        if len(np.unique(at)) < len(at):
            values = np.full_like(values, UNKNOWN) if len(np.unique(values)) > 1 else values
        elif array.base is None:
            for element, v in zip(at.tolist(), values.tolist()):
                if v != UNKNOWN and v not in self.homes:
                    self.homes[v] = Home(number, element)
        array.values[at] = values
        array.writers[at] = number

    def blur(self, array: _Array, number: int, note: Note) -> None:
        """Any element may have been written: what it was is needed still."""
        note.needs |= _numbers(array.writers)
        if (array.writers == ENTRY).any():
            self.exposed.add(array.buffer.name)
        array.values[:] = UNKNOWN
        array.writers[:] = number

    def branch(self, s: If, number: int, threads: _Threads) -> None:
        note = self.note(number, threads)
        test = self.read(s.condition, note, threads).numbers
        if test is None:
            self.visit(s.then, _Threads(threads.places, threads.on, False, number))
            if s.otherwise is not None:
                self.visit(s.otherwise, _Threads(threads.places, threads.on, False, number))
            return
        holds = test.astype(np.bool_)
        self.visit(s.then, _Threads(threads.places, threads.on & holds, threads.sure, number))
        if s.otherwise is not None:
            self.visit(s.otherwise, _Threads(threads.places, threads.on & ~holds, threads.sure, number))

    def enter(self, s: For, number: int, threads: _Threads) -> bool:
        """Each of ``threads`` as many as the loop has iterations; not where their number is not known."""
        note = Note(threads.parent, self.item, is_entered=True)
        lo, hi = (self.read(e, note, threads).numbers for e in (s.lo, s.hi))
        if lo is None or hi is None or len(np.unique(lo)) > 1 or len(np.unique(hi)) > 1:
            return False
        first, extent = int(lo.flat[0]), int(hi.flat[0]) - int(lo.flat[0])
        if extent <= 0 or extent * threads.count > MOST_THREADS:
            return False
        self.notes[number] = note

        def repeat(a: Ints) -> Ints:
            return np.repeat(a, extent)

        outer, self.held = self.held, {
            name: Held(
                None if h.numbers is None else repeat(h.numbers), None if h.values is None else repeat(h.values), h.by
            )
            for name, h in self.held.items()
        }
        based = {name: a.base for name, a in self.arrays.items() if a.base is not None}
        for name, base in based.items():
            self.arrays[name].base = repeat(base)
        own = first + np.tile(np.arange(extent), threads.count)
        places = {**{name: repeat(p) for name, p in threads.places.items()}, s.var.name: own}
        self.held[s.var.name] = Held(own)
        assigned = assigned_names(s.body) & outer.keys()
        if assigned:
            raise CannotFollow  # a variable of the threads outside is one for all inside
        self.visit(s.body, _Threads(places, np.repeat(threads.on, extent), threads.sure, number))
        self.held = outer
        for name, base in based.items():
            self.arrays[name].base = base
        return True

    def pass_by(self, s: Stmt, number: int, threads: _Threads) -> None:
        """A statement that is not looked into: a loop of one thread, an atomic update."""
        inside = list(statements(s))
        if isinstance(s, JUMPS) or any(isinstance(n, (Return, Barrier)) for n in inside):
            raise CannotFollow
        self.number += len(inside) - 1
        note = self.note(number, threads)
        seen, changed = mentions(s), assigned_names(s)
        for name in seen.stored | seen.loaded | seen.reached:
            if name in self.arrays:
                array = self.arrays[name]
                note.needs |= _numbers(array.writers)
                if (array.writers == ENTRY).any():
                    self.exposed.add(name)
        for name, var in free_vars(s).items():
            held = self.held.get(name)
            if held is None:
                note.has_effect |= name in changed
            elif name not in changed:
                by, pieces = self.whole(var, held, threads)
                note.needs |= by
                note.pieces += pieces
            else:
                note.needs |= held.by
        for name in changed & self.held.keys():
            self.held[name] = Held(values=self.atoms(threads), by=self.held[name].by | {number})
        for name in (seen.stored | seen.reached) & self.arrays.keys():
            self.blur(self.arrays[name], number, note)
        plain = (Seq, Let, Assign, Store, For, If)
        note.has_effect |= bool(seen.stored - self.arrays.keys() - seen.allocated) or bool(seen.reached)
        note.has_effect |= not all(isinstance(n, plain) for n in inside)

    # Expressions

    def read(self, e: Expr, note: Note, threads: _Threads) -> Held:
        """What ``e`` is, noted as read by a statement."""
        held = self.evaluate(e, threads)
        by, pieces = self.whole(e, held, threads)
        note.needs |= by
        note.pieces += pieces
        return held

    def whole(self, e: Expr, held: Held, threads: _Threads) -> tuple[frozenset[int], tuple[Piece, ...]]:
        """What a reader of ``e`` needs: where it is a value, all of it is one piece."""
        if held.values is None:
            return held.by, held.pieces
        on = threads.on
        places = {name: p[on] for name, p in threads.places.items()}
        return frozenset(), (Piece(e, held.values[on], places, held.by, held.pieces),)

    def evaluate(self, e: Expr, threads: _Threads) -> Held:
        match e:
            case Var():
                return self.held.get(e.name, Held())
            case Const():
                if e.type.is_float:
                    return Held(values=np.full(threads.count, self.values.constant(e), np.int64))
                return Held(np.full(threads.count, int(e.value), np.int64))
            case Load() if e.buffer.name in self.arrays:
                return self.load(e, threads)
        operands = [n for n in children(e) if isinstance(n, Expr)]
        if isinstance(e, AddressOf) or any(n.dtype.lanes > 1 for n in operands):
            raise CannotFollow
        heard = [self.evaluate(n, threads) for n in operands]
        read = [self.whole(n, h, threads) for n, h in zip(operands, heard)]
        by = frozenset[int]().union(*(by for by, _ in read))
        pieces = tuple(piece for _, below in read for piece in below)
        numbers = [h.numbers for h in heard if h.numbers is not None]
        if isinstance(e, (Binary, Compare, Unary, Cast)) and len(numbers) == len(heard):
            computed = compute(e, numbers)
            if computed is not None:
                return Held(computed, None, by, pieces)
        if isinstance(e, Select) and heard[0].numbers is not None:
            return self.select(e, heard, threads, by, pieces)
        op = operator_of(e)
        if op is not None and any(h.values is not None for h in heard) and not any(h.is_open for h in heard):
            left, right = (self.in_values(h, n, threads) for n, h in zip(operands, heard))
            return Held(None, self.combine(op, left, right), by, pieces)
        return Held(None, None, by, pieces)

    def load(self, e: Load, threads: _Threads) -> Held:
        array = self.arrays[e.buffer.name]
        note = Note(threads.parent, self.item)
        places = self.element(e.indices, array, note, threads)
        pieces = tuple(note.pieces)
        if places is None:
            if (array.writers == ENTRY).any() or not len(array.writers):
                self.exposed.add(e.buffer.name)
            return Held(None, None, _numbers(array.writers) | note.needs, pieces)
        inside = (places >= 0) & (places < len(array.values))
        at = np.where(inside, places, 0)
        writers = array.writers[at][inside & threads.on]
        if (writers == ENTRY).any():
            self.exposed.add(e.buffer.name)
        values = np.where(inside, array.values[at], UNKNOWN)
        return Held(None, values, _numbers(writers) | note.needs, pieces)

    def select(
        self, e: Select, heard: list[Held], threads: _Threads, by: frozenset[int], pieces: tuple[Piece, ...]
    ) -> Held:
        test, a, b = heard
        assert test.numbers is not None
        holds = test.numbers != 0
        if a.numbers is not None and b.numbers is not None:
            return Held(np.where(holds, a.numbers, b.numbers), None, by, pieces)
        one, other = (self.in_values(h, n, threads) for h, n in ((a, e.then), (b, e.otherwise)))
        return Held(None, np.where(holds, one, other), by, pieces)

    def combine(self, op: str, left: Ints, right: Ints) -> Ints:
        pairs, which = np.unique(np.stack([left, right]), axis=1, return_inverse=True)
        made = [self.values.combine(op, a, b) for a, b in pairs.T.tolist()]
        return np.array(made, np.int64)[np.ravel(which)]

    def element(self, indices: tuple[Expr, ...], array: _Array | None, note: Note, threads: _Threads) -> Ints | None:
        """Which element of ``array`` each thread means, where that is known."""
        numbers = [self.read(index, note, threads).numbers for index in indices]
        if array is None or not len(array.values):
            return None
        total: Ints = np.zeros(threads.count, np.int64) if array.base is None else array.base.copy()
        for number, stride in zip(numbers, array.buffer.element_strides()):
            if number is None or not isinstance(stride, Const):
                return None
            total += number * int(stride.value)
        return total

    def as_values(self, held: Held, threads: _Threads) -> Held:
        """What a variable or an element holds: a value of its own for each thread where nothing is known."""
        return Held(values=self.atoms(threads)) if held.is_open else held

    def in_values(self, held: Held, like: Expr, threads: _Threads) -> Ints:
        if held.values is not None:
            return held.values
        if held.numbers is None:
            return self.atoms(threads)
        numbers, which = np.unique(held.numbers, return_inverse=True)
        if len(numbers) > 64 or not (like.dtype.is_integer or like.dtype.is_bool):
            return np.full(threads.count, UNKNOWN, np.int64)
        known = [self.values.constant(_constant(int(n), like)) for n in numbers]
        return np.array(known, np.int64)[np.ravel(which)]

    def atoms(self, threads: _Threads) -> Ints:
        made = np.full(threads.count, UNKNOWN, np.int64)
        made[threads.on] = [self.values.atom() for _ in range(int(threads.on.sum()))]
        return made


def _constant(value: int, like: Expr) -> Const:
    return Const(bool(value) if like.dtype.is_bool else value, like.dtype)


def _numbers(writers: Ints) -> frozenset[int]:
    return frozenset(np.unique(writers).tolist()) - {ENTRY}


