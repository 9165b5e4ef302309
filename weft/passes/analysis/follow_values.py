"""Phases of threads run with values in place of numbers: what a thread has in the end is a tree over what threads had.

Thread numbers, and all that follows from them, are numbers: which threads take part in a round and which elements of
shared arrays they read is known. All threads of a phase go at once, as rows of numpy arrays. What comes from elsewhere
(memory of the kernel, functions, tests of data) is a value of its own for each thread.

Statements are numbered in program order, parents first. Each is noted with what it reads (`Piece`), and which
statements made that, so that a reader knows what is still needed when some of it is computed in another way.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from weft.ir.buffer import Buffer
from weft.ir.expr import AddressOf, Binary, Cast, Compare, Const, Expr, Load, Select, Unary, Var
from weft.ir.nesting import statements
from weft.ir.simplify import assigned_names
from weft.ir.stmt import JUMPS, Alloc, Assign, Barrier, For, If, Let, Return, Seq, Stmt, Store
from weft.ir.visit import children, free_vars, loads, mentions
from weft.passes.analysis.combined_values import UNKNOWN, Values, as_extreme, operator_of
from weft.passes.analysis.followed import ENTRY, Array, Held, Home, Ints, Note, Piece, Threads
from weft.passes.analysis.known_numbers import compute

#: Threads that are followed at once at most, elements of an array, and values of a block.
MOST_THREADS, MOST_ELEMENTS, MOST_VALUES = 2048, 1 << 16, 60_000


class CannotFollow(Exception):
    """A statement whose effect on threads is not followed."""


class Follower:
    """Runs a block's statements; ``arrays`` are allocated around it, and hold anything at first.

    Memory and variables that are not ``changing`` are the same each time they are read.
    """

    def __init__(self, arrays: Iterable[Buffer], changing: frozenset[str]) -> None:
        self.changing = changing
        self.read_before: dict[tuple[Expr, bytes], Ints] = {}
        self.values = Values()
        self.notes: dict[int, Note] = {}
        self.homes: dict[int, Home] = {}
        self.held: dict[str, Held] = {}
        self.arrays: dict[str, Array] = {}
        for buffer in arrays:
            self.follow(buffer, None)
        self.exposed: set[str] = set()
        self.number = 0
        self.item = 0

    def run(self, s: Stmt) -> None:
        self.visit(s, Threads({}, np.ones(1, np.bool_)), top=True)

    def last_writers(self, name: str) -> frozenset[int]:
        return _numbers(self.arrays[name].writers)

    def follow(self, buffer: Buffer, base: Ints | None, copies: int = 1) -> None:
        """Follows what is in ``buffer`` from here on, unless it is too large: then it is memory like any other."""
        count = buffer.element_count()
        self.arrays.pop(buffer.name, None)
        if count and count * copies <= MOST_ELEMENTS:
            size = count * copies
            values, writers = np.full(size, UNKNOWN, np.int64), np.full(size, ENTRY, np.int64)
            self.arrays[buffer.name] = Array(buffer, values, writers, None if base is None else base * count)

    # Statements

    def visit(self, s: Stmt, threads: Threads, top: bool = False) -> None:
        number, self.number = self.number, self.number + 1
        if len(self.values.all) > MOST_VALUES:
            raise CannotFollow
        if top and not isinstance(s, (Seq, Alloc)):
            self.item += 1
        match s:
            case Seq():
                for inner in s.body:
                    self.visit(inner, threads, top)
            case Alloc():
                self.follow(s.buffer, None if top else np.arange(threads.count), threads.count)
                self.visit(s.body, threads, top)
            case Let():
                note = self.note(number, threads)
                held = self.as_values(s.value, self.read(s.value, note, threads), threads)
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

    def note(self, number: int, threads: Threads) -> Note:
        self.notes[number] = Note(threads.parent, self.item)
        return self.notes[number]

    def assign(self, s: Assign, number: int, threads: Threads) -> None:
        note = self.note(number, threads)
        new = self.as_values(s.value, self.read(s.value, note, threads), threads)
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

    def store(self, s: Store, number: int, threads: Threads) -> None:
        note = self.note(number, threads)
        note.store = s
        array = self.arrays.get(s.buffer.name)
        value = self.as_values(s.value, self.read(s.value, note, threads), threads)
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

    def blur(self, array: Array, number: int, note: Note) -> None:
        """Any element may have been written: what it was is needed still."""
        note.needs |= _numbers(array.writers)
        if (array.writers == ENTRY).any():
            self.exposed.add(array.buffer.name)
        array.values[:] = UNKNOWN
        array.writers[:] = number

    def branch(self, s: If, number: int, threads: Threads) -> None:
        note = self.note(number, threads)
        test = self.read(s.condition, note, threads).numbers
        if test is None:
            self.visit(s.then, Threads(threads.places, threads.on, False, number))
            if s.otherwise is not None:
                self.visit(s.otherwise, Threads(threads.places, threads.on, False, number))
            return
        holds = test.astype(np.bool_)
        self.visit(s.then, Threads(threads.places, threads.on & holds, threads.sure, number))
        if s.otherwise is not None:
            self.visit(s.otherwise, Threads(threads.places, threads.on & ~holds, threads.sure, number))

    def enter(self, s: For, number: int, threads: Threads) -> bool:
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

        outer, self.held = (
            self.held,
            {
                name: Held(
                    None if h.numbers is None else repeat(h.numbers),
                    None if h.values is None else repeat(h.values),
                    h.by,
                )
                for name, h in self.held.items()
            },
        )
        based = {name: a.base for name, a in self.arrays.items() if a.base is not None}
        for name, base in based.items():
            self.arrays[name].base = repeat(base)
        own = first + np.tile(np.arange(extent), threads.count)
        places = {**{name: repeat(p) for name, p in threads.places.items()}, s.var.name: own}
        self.held[s.var.name] = Held(own)
        assigned = assigned_names(s.body) & outer.keys()
        if assigned:
            raise CannotFollow  # a variable of the threads outside is one for all inside
        self.visit(s.body, Threads(places, np.repeat(threads.on, extent), threads.sure, number))
        self.held = outer
        for name, base in based.items():
            self.arrays[name].base = base
        return True

    def pass_by(self, s: Stmt, number: int, threads: Threads) -> None:
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

    def read(self, e: Expr, note: Note, threads: Threads) -> Held:
        """What ``e`` is, noted as read by a statement."""
        held = self.evaluate(e, threads)
        by, pieces = self.whole(e, held, threads)
        note.needs |= by
        note.pieces += pieces
        return held

    def whole(self, e: Expr, held: Held, threads: Threads) -> tuple[frozenset[int], tuple[Piece, ...]]:
        """What a reader of ``e`` needs: where it is a value, all of it is one piece."""
        if held.values is None:
            return held.by, held.pieces
        on = threads.on
        places = {name: p[on] for name, p in threads.places.items()}
        return frozenset(), (Piece(e, held.values[on], places, held.by, held.pieces),)

    def evaluate(self, e: Expr, threads: Threads) -> Held:
        match e:
            case Var():
                return self.held.get(e.name, Held())
            case Const():
                if e.type.is_float or int(e.value) > np.iinfo(np.int64).max:  # the greatest uint64, of a minimum
                    return Held(values=np.full(threads.count, self.values.constant(e), np.int64))
                return Held(np.full(threads.count, int(e.value), np.int64))
            case Load() if e.buffer.name in self.arrays:
                return self.load(e, threads)
        e = as_extreme(e)
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

    def load(self, e: Load, threads: Threads) -> Held:
        array = self.arrays[e.buffer.name]
        note = Note(threads.parent, self.item)
        places = self.element(e.indices, array, note, threads)
        pieces = tuple(note.pieces)
        if places is None:
            if (array.writers == ENTRY).any():
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
        self, e: Select, heard: list[Held], threads: Threads, by: frozenset[int], pieces: tuple[Piece, ...]
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

    def element(self, indices: tuple[Expr, ...], array: Array | None, note: Note, threads: Threads) -> Ints | None:
        """Which element of ``array`` each thread means, where that is known."""
        numbers = [self.read(index, note, threads).numbers for index in indices]
        if array is None:
            return None
        total: Ints = np.zeros(threads.count, np.int64) if array.base is None else array.base.copy()
        for number, stride in zip(numbers, array.buffer.element_strides()):
            if number is None or not isinstance(stride, Const):
                return None
            total += number * int(stride.value)
        return total

    def as_values(self, e: Expr, held: Held, threads: Threads) -> Held:
        """What a variable or an element holds: a value of its own for each thread where nothing is known."""
        if not held.is_open:
            return held
        variables = free_vars(e)
        in_loops = all(name in threads.places or name not in self.held for name in variables)
        if not in_loops or not self.changing.isdisjoint((*variables, *(load.buffer.name for load in loads(e)))):
            return Held(values=self.atoms(threads))
        seen = [threads.on, *(threads.places[name] for name in variables if name in threads.places)]
        key = e, b"".join(a.tobytes() for a in seen)
        if key not in self.read_before:
            self.read_before[key] = self.atoms(threads)
        return Held(values=self.read_before[key])

    def in_values(self, held: Held, like: Expr, threads: Threads) -> Ints:
        if held.values is not None:
            return held.values
        if held.numbers is None:
            return self.atoms(threads)
        numbers, which = np.unique(held.numbers, return_inverse=True)
        if len(numbers) > 64 or not (like.dtype.is_integer or like.dtype.is_bool):
            return np.full(threads.count, UNKNOWN, np.int64)
        known = [self.values.constant(_constant(int(n), like)) for n in numbers]
        return np.array(known, np.int64)[np.ravel(which)]

    def atoms(self, threads: Threads) -> Ints:
        made = np.full(threads.count, UNKNOWN, np.int64)
        made[threads.on] = [self.values.atom() for _ in range(int(threads.on.sum()))]
        return made


def _constant(value: int, like: Expr) -> Const:
    return Const(bool(value) if like.dtype.is_bool else value, like.dtype)


def _numbers(writers: Ints) -> frozenset[int]:
    return frozenset(np.unique(writers).tolist()) - {ENTRY}
