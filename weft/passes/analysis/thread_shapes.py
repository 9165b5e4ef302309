"""The threads of a launch, and which of them run which iterations of a thread nest."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from weft.ir.expr import Binary, Compare, Const, Expr, Var, idx
from weft.ir.interval import Interval, bounds
from weft.ir.nesting import statements_in
from weft.ir.simplify import simplify
from weft.ir.stmt import For, Seq, Stmt, Tensorized
from weft.ir.visit import substitute
from weft.passes.analysis.thread_digits import Digit, join_digits

WARP = 32
#: Most threads along the outermost of three dimensions.
_MOST_DEEP = 64


@dataclass(frozen=True, slots=True)
class Shape:
    """The thread loops of a launch, outermost first; the innermost counts fastest."""

    vars: tuple[Var, ...]
    extents: tuple[int, ...]

    @property
    def total(self) -> int:
        return math.prod(self.extents)

    @property
    def strides(self) -> tuple[int, ...]:
        return suffix_products(self.extents)

    def number(self) -> Expr:
        """The number of the thread in its block."""
        return simplify(sum_of([v * idx(s) for v, s in zip(self.vars, self.strides)]))

    def digit(self, d: Digit) -> Expr:
        """The value of a digit of the thread number."""
        return _digit(self, d)

    def values(self, digits: Mapping[str, Digit]) -> dict[Var, Expr]:
        """What the loops of a nest are in terms of the threads that run it."""
        return {Var(name): self.digit(d) for name, d in digits.items()}

    def others(self, digits: Iterable[Digit]) -> tuple[Digit, ...]:
        """The digits of the thread number besides ``digits``."""
        found: list[Digit] = []
        reached = 1
        for d in join_digits(digits):
            if d.stride > reached:
                found.append(Digit(reached, d.stride // reached))
            reached = max(reached, d.stride * d.extent)
        if reached < self.total:
            found.append(Digit(reached, -(-self.total // reached)))
        return tuple(found)

    def first_of(self, digits: Iterable[Digit]) -> list[Expr]:
        """Tests that choose one of the threads that agree in ``digits``."""
        return [Compare("==", self.digit(d), idx(0)) for d in self.others(digits)]


@lru_cache(maxsize=256)  # every nest of a launch asks for the same few
def _digit(shape: Shape, d: Digit) -> Expr:
    end = d.stride * d.extent
    parts: list[Expr] = []
    for var, stride, extent in zip(shape.vars, shape.strides, shape.extents):
        low, high = max(stride, d.stride), min(stride * extent, end)
        if low >= high:
            continue
        if low % stride or high % low or (stride * extent) % high or low % d.stride:
            number = shape.number() // idx(d.stride)
            return simplify(number % idx(d.extent) if end < shape.total else number)
        part: Expr = var // idx(low // stride) if low > stride else var
        if high < stride * extent:
            part = part % idx(high // low)
        parts.append(part * idx(low // d.stride))
    return simplify(sum_of(parts))


def sum_of(parts: Sequence[Expr]) -> Expr:
    total: Expr = idx(0)
    for stmt in parts:
        total = total + stmt
    return total


def suffix_products(extents: Sequence[int]) -> tuple[int, ...]:
    return tuple(math.prod(extents[i + 1 :]) for i in range(len(extents)))


@dataclass(frozen=True, slots=True)
class Nest:
    """A perfect nest of thread loops that count from 0; those that may end earlier have a test."""

    loops: tuple[For, ...] = ()
    extents: tuple[int, ...] = ()
    tests: tuple[Expr, ...] = ()
    body: Stmt = Seq(())
    #: What variables can be in the body.
    ranges: Mapping[str, Interval] = field(default_factory=dict)

    @property
    def total(self) -> int:
        return math.prod(self.extents)


def _ends(e: Expr) -> list[Expr]:
    """What a bound is the least of: a tile ends where it is full, or where there is no more.

    Of ``(min(a, b) + 1) // 2`` these are ``(a + 1) // 2`` and ``(b + 1) // 2``: both steps keep an order.
    """
    if not isinstance(e, Binary):
        return [e]
    if e.op == "min":
        return [*_ends(e.left), *_ends(e.right)]
    divides = e.op == "//" and isinstance(e.right, Const) and int(e.right.value) > 0
    return [Binary(e.op, end, e.right) for end in _ends(e.left)] if divides or e.op in ("+", "-") else [e]


def rebase_nest(loops: Sequence[For], body: Stmt, ranges: Mapping[str, Interval]) -> Nest | None:
    """The nest with loops from 0 to a number; None where one has no greatest number of iterations."""
    known, extents, tests = dict(ranges), list[int](), list[Expr]()
    values: dict[Var, Expr] = {}
    for loop in loops:
        lo, hi = (simplify(substitute(e, values), known) for e in (loop.lo, loop.hi))
        counts = [simplify(end - lo, known) for end in _ends(hi)]
        most = min((n for count in counts if (n := bounds(count, known).hi) is not None), default=None)
        if most is None:
            return None
        tests += [Compare("<", loop.var, count) for count in counts if not isinstance(count, Const)]
        if lo != idx(0):
            values[loop.var] = lo + loop.var
        extents.append(max(most, 0))
        known[loop.var.name] = Interval(0, max(most, 0) - 1)
    return Nest(tuple(loops), tuple(extents), tuple(tests), substitute(body, values), known)


def choose_shape(nests: Sequence[Nest], taken: Iterable[str], fresh: Callable[[str], str]) -> Shape:
    """The threads of a launch with these nests: as many as the largest has, in the form most of those have.

    Hardware intrinsics of a warp know their lanes by the thread loops around them, so those stay as they are.
    """
    most = max((n.total for n in nests), default=1)
    largest = [n for n in nests if n.total == most and n.loops]
    if not largest or most == 0:
        return Shape((Var(fresh("t")),), (1,))
    fixed = [n for n in largest if statements_in(n.body, Tensorized)]
    common = Counter(n.extents for n in fixed or largest).most_common(1)[0][0]
    alike = [n for n in largest if n.extents == common]
    model = min(alike, key=lambda n: sum(len(loop.var.name) for loop in n.loops))  # short names read best
    names, extents = [loop.var.name for loop in model.loops], list(common)
    while len(extents) > 3 or (len(extents) == 3 and extents[0] > _MOST_DEEP):
        extents[:2] = [extents[0] * extents[1]]
        names[:2] = [fresh(f"{names[0]}_{names[1]}")]
    used = set(taken)
    return Shape(tuple(Var(_unused(name, used)) for name in names), tuple(extents))


def _unused(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    taken.add(name)
    return name


def digits_at(nest: Nest, step: int = 1) -> dict[str, Digit]:
    """The digits of the thread number that the loops of ``nest`` are, the innermost counting ``step`` threads."""
    places = suffix_products(nest.extents)
    return {loop.var.name: Digit(p * step, n) for loop, p, n in zip(nest.loops, places, nest.extents)}
