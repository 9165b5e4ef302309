"""Footprints: how much memory statements touch, in closed form: boxes of elements, in whole lines.

Over loops of ``T`` iterations a subscript with coefficients ``c`` spans ``1 + sum(|c| * (T - 1))`` elements; a box
is the product of its sides. Accesses of one statement that differ by constants only are one box.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd

from weft.ir.expr import Const
from weft.schedules.index_forms import Term
from weft.schedules.nests import Access, Leaf, Nest

#: Rows of memory that the processor foresees at once.
MOST_ROWS = 16
#: Sets of a first cache that addresses within a page choose among: data that meet there evict each other.
OFFSETS = 64


@dataclass(slots=True, eq=False)
class Touch:
    """Accesses of one statement to one buffer that differ by constants only.

    ``touched[d]`` is how many bytes the loops from the ``d``-th inwards touch, ``crowded[d]`` the same where lines
    that compete for few places of a cache count for the places they keep others from. ``run`` is how many lines
    follow one another in memory as the loops go.
    """

    name: str
    accesses: tuple[Access, ...]
    touched: list[float]
    crowded: list[float]
    run: float

    @property
    def reads(self) -> bool:
        return any(not a.is_store for a in self.accesses)

    @property
    def writes(self) -> bool:
        return any(a.is_store for a in self.accesses)


def infer_touches(leaf: Leaf, line: int = 64, lanes: tuple[str, int] | None = None) -> list[Touch]:
    """What a statement touches, by buffer; registers are no memory.

    ``lanes`` names a loop of which so many iterations run at once, inside all others.
    """
    groups: dict[object, list[Access]] = {}
    for a in leaf.accesses:
        if a.buffer.scope != "register":
            key = (a.buffer.name, *(tuple(f.coefficients.items()) for f in a.forms), *(f.scattered for f in a.forms))
            groups.setdefault(key, []).append(a)
    return [_touch(group, leaf.nests, line, lanes) for group in groups.values()]


def _touch(group: list[Access], nests: Sequence[Nest], line: int, lanes: tuple[str, int] | None) -> Touch:
    first = group[0]
    box = _Box(first, group, line)
    if lanes is not None:
        box.grow(lanes[0], lanes[1])
    touched, crowded = [box.size()], [box.crowding()]
    for nest in reversed(nests):
        done = lanes[1] if lanes is not None and lanes[0] == nest.name else 1
        if box.grow(nest.name, nest.trips, done):
            touched.append(box.size())
            crowded.append(box.crowding())
        else:
            touched.append(touched[-1])
            crowded.append(crowded[-1])
    touched.reverse()
    crowded.reverse()
    return Touch(first.buffer.name, tuple(group), touched, crowded, _run(first, nests, line, lanes))


def _run(access: Access, nests: Sequence[Nest], line: int, lanes: tuple[str, int] | None) -> float:
    """Lines that loops, from the innermost on, touch one after another; a few such rows at a time are foreseen."""
    loops = [(n.name, n.trips / lanes[1] if lanes and n.name == lanes[0] else n.trips) for n in reversed(nests)]
    if lanes is not None:
        loops.insert(0, lanes)
    item, length, rows = access.buffer.dtype.itemsize, 0.0, 1.0
    for name, trips in loops:
        step = access.step(name)
        if step is None:
            return max(1.0, length / line)
        gap = abs(step) * item * (lanes[1] if lanes and name == lanes[0] and length else 1)
        if step and trips > 1:
            if gap > max(length, line):
                rows *= trips
                if rows > MOST_ROWS:
                    break
                continue
            length = max(length, item) + gap * (trips - 1)
    return max(1.0, length / line)


class _Box:
    """The elements that some loops touch, growing loop by loop outwards."""

    def __init__(self, access: Access, group: list[Access], line: int) -> None:
        self.item = access.buffer.dtype.itemsize
        self.line = line
        self.strides = [abs(s) for s in access.strides]
        self.terms: dict[str, list[tuple[int, Term, int]]] = {}
        self.scattered: dict[str, list[int]] = {}
        self.spans: list[float] = []
        self.counts: list[float] = []
        for d, form in enumerate(access.forms):
            constants = {a.forms[d].constant for a in group}
            self.spans.append(max(constants) - min(constants) + 1)
            self.counts.append(len(constants))
            for term, times in form.coefficients.items():
                self.terms.setdefault(term.variable, []).append((d, term, abs(times)))
            for name in form.scattered:
                self.scattered.setdefault(name, []).append(d)
        self.sizes = [int(n.value) if isinstance(n, Const) else 1 << 40 for n in access.buffer.shape]
        self.lines = 1.0
        #: Bytes that rows begin at a multiple of.
        self.start = gcd(line, *(stride * self.item for stride in self.strides if stride * self.item >= line))

    def grow(self, name: str, trips: float, done: float = 1) -> bool:
        """With one more loop inside, of which ``done`` iterations are there; whether that changes anything."""
        if trips == done and name not in self.scattered:
            return False
        found = self.terms.get(name, ())
        for d, term, times in found:
            before, values = term.values(done), term.values(trips)
            self.spans[d] = min(self.spans[d] + times * max(0, values - before), self.sizes[d])
            self.counts[d] *= max(1.0, values / before)
        for d in self.scattered.get(name, ()):
            self.counts[d] = min(self.counts[d] * max(1.0, trips / done), self.sizes[d])
            self.spans[d] = self.sizes[d]
        return bool(found) or name in self.scattered

    def size(self) -> float:
        """Bytes in whole lines."""
        run, rows, reach, whole = 1.0, 1.0, 1.0, 1.0
        for span, count, stride, size in zip(self.spans, self.counts, self.strides, self.sizes):
            whole *= size
            reach += stride * (span - 1)
            if stride * self.item < self.line:
                run += stride * (span - 1)
            else:
                rows *= min(span, count)
        self.run = self._lines_of(min(run, reach) * self.item)
        if self.scattered:
            self.run = min(self.run, self._points())
        self.lines = min(self.run * rows, -(-reach * self.item // self.line) + 1)
        return min(self.lines * self.line, max(self.line, whole * self.item))

    def _lines_of(self, length: float) -> float:
        """Lines that ``length`` bytes lie in, on average over the places in a line that rows begin at."""
        return (-(-length // self.start) * self.start + self.line - self.start) / self.line

    def _points(self) -> float:
        points = 1.0
        for count in self.counts:
            points *= count
        return points

    def crowding(self) -> float:
        """Bytes of the cache that are taken: rows a multiple of a page apart share the places of a few lines."""
        covered, rows = self.run, 1.0
        for span, count, stride in zip(self.spans, self.counts, self.strides):
            step = stride * self.item
            if step >= self.line and span > 1:
                rows = min(span, count)
                apart = gcd(int(step // self.line), OFFSETS) if step % self.line == 0 else 1
                covered *= min(rows, OFFSETS // apart)
        spread = OFFSETS / min(OFFSETS, max(1.0, covered)) if covered < self.lines else 1.0
        return self.lines * self.line * spread
