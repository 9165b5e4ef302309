"""What is noted while threads are followed: what they hold, what statements read, and where values are stored."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from weft.ir.buffer import Buffer
from weft.ir.expr import Expr
from weft.ir.stmt import Store

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
#: What was there before the first statement.
ENTRY = -1


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
class Array:
    """An array of which every element is followed, for each thread that has one of its own."""

    buffer: Buffer
    values: Ints
    writers: Ints
    base: Ints | None = None


@dataclass(slots=True)
class Threads:
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
