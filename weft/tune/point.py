"""A candidate: where it is in its space, as numbers, and the trace that is measured."""

from __future__ import annotations

from math import inf, log2
from typing import NamedTuple


class Point(NamedTuple):
    """``vector`` has a number for every knob, in the order of the space; near vectors are near programs.

    >>> print(point)
    plans C=3 D=0
    """

    space: str
    vector: tuple[tuple[str, int], ...]
    trace: str = ""

    def __str__(self) -> str:
        return " ".join([self.space, *(f"{name}={value}" for name, value in self.vector)])

    def with_value(self, name: str, value: int) -> tuple[tuple[str, int], ...]:
        return tuple((n, value if n == name else v) for n, v in self.vector)


def read_point(text: str) -> Point:
    """The point that was printed as ``text``, without its trace."""
    space, *parts = text.split(" ")
    pairs = [part.rpartition("=") for part in parts]
    return Point(space, tuple((name, int(value)) for name, _, value in pairs))


def distance(a: Point, b: Point) -> float:
    """How far two points are apart: doublings of their numbers; infinite where they have not the same knobs."""
    if a.space != b.space or [n for n, _ in a.vector] != [n for n, _ in b.vector]:
        return inf
    return sum(abs(log2(max(x, 0) + 1) - log2(max(y, 0) + 1)) for (_, x), (_, y) in zip(a.vector, b.vector))
