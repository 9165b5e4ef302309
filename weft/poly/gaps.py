"""Interval arithmetic on how far two iterations are apart: most questions of `weft.poly.conflicts`, in microseconds.

Equal subscripts ``8*i + j = 8*i' + j'`` say ``8*(i' - i) + (j' - j) = 0``. With ``j`` in 0:8 the second gap lies
between -7 and 7, so the first one is 0: rounds of such steps often leave a gap nothing at all.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property

from weft.ir.inequality import quotient
from weft.ir.interval import EVERYTHING, Interval
from weft.ir.solve import Form

#: Rounds of narrowing; what takes longer is left to the solver.
_ROUNDS = 4
_NONE = Interval(0, 0)
_Row = tuple[list[tuple[str, int]], int, bool]


class Gaps:
    """Equations between two iterations, over the gaps of the loops they have in common and all other variables.

    ``first`` and ``second`` are the ranges of the variables of each; ``primed`` names those of the second.
    """

    def __init__(
        self,
        equations: Iterable[Form],
        first: Mapping[str, Interval],
        second: Mapping[str, Interval],
        primed: Mapping[str, str],
    ) -> None:
        self.first, self.second, self.primed = first, second, primed
        self.plain = {prime: name for name, prime in primed.items()}
        #: Of the variables that rows have.
        self.ranges: dict[str, Interval] = {}
        self.rows = [self._row(form, True) for form in equations]

    def mention(self, names: Collection[str]) -> bool:
        """Whether an equation has something to say about the loops ``names``."""
        wanted = {part for name in names for part in (name, self.primed.get(name, name), _gap(name))}
        return any(name in wanted for terms, _, _ in self.rows for name, _ in terms)

    @cached_property
    def settled(self) -> frozenset[str]:
        """Loops whose gap the equations alone leave nothing but 0; all where they cannot hold."""
        ranges = dict(self.ranges)
        for _ in range(_ROUNDS):
            narrowed = [_narrow(row, ranges) for row in self.rows]
            if None in narrowed:
                return frozenset(self.primed)
            if not any(narrowed):
                break
        return frozenset(name for name in self.primed if ranges.get(_gap(name)) == _NONE)

    def exclude(self, order: Sequence[Form], equal: Sequence[str] = ()) -> bool:
        """Whether no two iterations satisfy the equations and ``order`` (each >= 0) with equal loops ``equal``."""
        rows = [*self.rows, *(self._row(form, False) for form in order)]
        ranges = dict(self.ranges)
        ranges.update((_gap(name), _NONE) for name in equal)
        for _ in range(_ROUNDS):
            changed = False
            for row in rows:
                narrowed = _narrow(row, ranges)
                if narrowed is None:
                    return True
                changed |= narrowed
            if not changed:
                break
        return False

    def _row(self, form: Form, is_equation: bool) -> _Row:
        """``form`` with ``c*x' - c*x`` written as ``c`` times the gap."""
        terms: list[tuple[str, int]] = []
        for name, c in form.items():
            prime, plain = self.primed.get(name), self.plain.get(name)
            if prime is not None and form.get(prime) == -c:
                terms.append((_gap(name), -c))
                self.ranges[_gap(name)] = self._range(prime).minus(self._range(name))
            elif name and (plain is None or form.get(plain) != -c):
                terms.append((name, c))
                self.ranges[name] = self._range(name)
        return terms, form.get("", 0), is_equation

    def _range(self, name: str) -> Interval:
        plain = self.plain.get(name)
        return self.first.get(name, EVERYTHING) if plain is None else self.second.get(plain, EVERYTHING)


def _gap(name: str) -> str:
    return f"{name}'-{name}"


def _narrow(row: _Row, ranges: dict[str, Interval]) -> bool | None:
    """Takes ``row`` into account; whether that says anything new, and None where it cannot hold."""
    terms, constant, is_equation = row
    sides = _Sides(constant)
    parts = [sides.add(*_scaled(ranges[name], c)) for name, c in terms]
    if (not sides.endless_high and sides.high < 0) or (is_equation and not sides.endless_low and sides.low > 0):
        return None
    changed = False
    for (name, c), (least, most) in zip(terms, parts):
        # c*x >= -(the most that the others are), and for an equation also c*x <= -(the least).
        above = None if sides.endless_high > (most is None) else (most or 0) - sides.high
        below = None if not is_equation or sides.endless_low > (least is None) else (least or 0) - sides.low
        if (above is None or (least is not None and above <= least)) and (
            below is None or (most is not None and below >= most)
        ):
            continue
        interval = ranges[name]
        narrowed = interval.intersect(quotient(Interval(above, below), c))
        if narrowed.is_empty:
            return None
        if narrowed != interval:
            changed, ranges[name] = True, narrowed
            sides.remove(least, most)
            sides.add(*_scaled(narrowed, c))
    return changed


class _Sides:
    """The least and the greatest value of a sum, as far as its terms have ends, and how many of these have none."""

    __slots__ = ("endless_high", "endless_low", "high", "low")

    def __init__(self, constant: int) -> None:
        self.low = self.high = constant
        self.endless_low = self.endless_high = 0

    def add(self, least: int | None, most: int | None, times: int = 1) -> tuple[int | None, int | None]:
        if least is None:
            self.endless_low += times
        else:
            self.low += least * times
        if most is None:
            self.endless_high += times
        else:
            self.high += most * times
        return least, most

    def remove(self, least: int | None, most: int | None) -> None:
        self.add(least, most, -1)


def _scaled(interval: Interval, by: int) -> tuple[int | None, int | None]:
    lo, hi = interval if by > 0 else (interval.hi, interval.lo)
    return None if lo is None else lo * by, None if hi is None else hi * by
