"""How the elements of a box are laid out in memory, as text: ``"j/32 i j%32"``.

The letters ``i j k l m n`` stand for the dimensions of the box in order; the words say, slowest first, what the
dimensions of the storage are. ``j/32 i j%32`` stores a matrix in panels of 32 columns, each panel row by row;
``j i`` is the transpose. Between them the words of a letter have each digit once: ``j/32`` and ``j%32``, or
``j/32``, ``j/4%8`` and ``j%4``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from weft.ir.errors import ScheduleError
from weft.ir.expr import Binary, Expr, idx

LETTERS = "ijklmnopqrstuvwxyz"
_WORD = re.compile(r"([i-z])((?:[/%][0-9]+)*)\Z")


@dataclass(frozen=True, slots=True)
class Word:
    """The part of subscript ``dimension`` from unit ``low`` up to, not including, unit ``high`` (None: no end)."""

    dimension: int
    low: int
    high: int | None

    def of(self, subscript: Expr) -> Expr:
        if self.high is not None:
            subscript = Binary("%", subscript, idx(self.high))
        return subscript if self.low == 1 else Binary("//", subscript, idx(self.low))

    def extent(self, size: Expr) -> Expr:
        """How many values the part takes for subscripts below ``size``."""
        if self.high is not None:
            return idx(self.high // self.low)
        return size if self.low == 1 else Binary("//", size + (self.low - 1), idx(self.low))


@dataclass(frozen=True, slots=True)
class Layout:
    """The dimensions of the storage, slowest first."""

    words: tuple[Word, ...]

    def indices(self, subscripts: Sequence[Expr]) -> tuple[Expr, ...]:
        """Where the element ``subscripts`` is stored."""
        return tuple(w.of(subscripts[w.dimension]) for w in self.words)

    def shape(self, sizes: Sequence[Expr]) -> tuple[Expr, ...]:
        return tuple(w.extent(sizes[w.dimension]) for w in self.words)

    def subscripts(self, indices: Sequence[Expr], rank: int) -> tuple[Expr, ...]:
        """The element stored at ``indices``; beyond the box for those that only pad."""
        parts: list[Expr | None] = [None] * rank
        for word, index in zip(self.words, indices):
            digit = index if word.low == 1 else index * word.low
            before = parts[word.dimension]
            parts[word.dimension] = digit if before is None else before + digit
        return tuple(p for p in parts if p is not None)

    def may_pad(self, dimension: int) -> bool:
        return sum(w.dimension == dimension for w in self.words) > 1


def plain_layout(rank: int) -> Layout:
    """Row by row: the last dimension is fastest."""
    return Layout(tuple(Word(d, 1, None) for d in range(rank)))


def parse_layout(text: str, rank: int) -> Layout:
    """The layout that ``text`` spells, for a box of ``rank`` dimensions."""
    if not isinstance(text, str):
        raise _wrong(text, "it is a text")
    if rank > len(LETTERS):
        raise _wrong(text, f"the buffer has {rank} dimensions, and layouts have letters for {len(LETTERS)}")
    words = tuple(_word(w, text, rank) for w in text.split())
    for d in range(rank):
        _check_digits(text, LETTERS[d], sorted((w for w in words if w.dimension == d), key=lambda w: w.low))
    return Layout(words)


def _word(word: str, text: str, rank: int) -> Word:
    match = _WORD.match(word)
    if match is None or LETTERS.index(match[1]) >= rank:
        letters = ", ".join(f"`{c}`" for c in LETTERS[:rank])
        raise _wrong(text, f"`{word}` is not a dimension; there are {letters}, with /8 and %8 after them")
    low, high = 1, None
    for op, number in re.findall(r"([/%])([0-9]+)", match[2]):
        by = int(number)
        if by < 1 or (high is not None and high % (low * by)):
            raise _wrong(text, f"`{word}` does not divide evenly")
        if op == "/":
            low *= by
        else:
            high = low * by
    return Word(LETTERS.index(match[1]), low, high)


def _check_digits(text: str, letter: str, words: Sequence[Word]) -> None:
    reached: int | None = 1
    for w in words:
        if reached != w.low:
            break
        reached = w.high
    else:
        if words and reached is None:
            return
    raise _wrong(text, f"the words of `{letter}` do not have each part of it once, as in `{letter}/8` and `{letter}%8`")


def _wrong(text: object, why: str) -> ScheduleError:
    return ScheduleError(f'"{text}" is not a layout of this buffer', why=why, help='write it like "j/32 i j%32"')
