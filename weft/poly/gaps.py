"""Interval arithmetic on how far two iterations are apart: most questions of `weft.poly.conflicts`, in microseconds.

Equal subscripts ``8*i + j = 8*i' + j'`` say ``8*(i' - i) + (j' - j) = 0``. With ``j`` in 0:8 the second gap lies
between -7 and 7, so the first one is 0: rounds of such steps often leave a gap nothing at all.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from weft.ir.inequality import quotient
from weft.ir.interval import EVERYTHING, Interval
from weft.ir.solve import Form

#: Rounds of narrowing; what takes longer is left to the solver.
_ROUNDS = 4
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
        self.primed = primed
        self.ranges: dict[str, Interval] = dict(first)
        for name, prime in primed.items():
            other_range = second.get(name, EVERYTHING)
            self.ranges[prime] = other_range
            self.ranges[_gap(name)] = other_range.minus(first[name]) if name in first else EVERYTHING
        self.rows = [self._row(form, True) for form in equations]

    def mention(self, names: Collection[str]) -> bool:
        """Whether an equation has something to say about the loops ``names``."""
        wanted = {part for name in names for part in (name, self.primed.get(name, name), _gap(name))}
        return any(name in wanted for terms, _, _ in self.rows for name, _ in terms)

    def exclude(self, order: Sequence[Form], equal: Sequence[str] = ()) -> bool:
        """Whether no two iterations satisfy the equations and ``order`` (each >= 0) with equal loops ``equal``."""
        ranges = dict(self.ranges)
        ranges.update((_gap(name), Interval(0, 0)) for name in equal)
        rows = [*self.rows, *(self._row(form, False) for form in order)]
        for _ in range(_ROUNDS):
            before = dict(ranges)
            if any(_narrow(row, ranges) for row in rows):
                return True
            if ranges == before:
                break
        return False

    def _row(self, form: Form, is_equation: bool) -> _Row:
        """``form`` with ``c*x' - c*x`` written as ``c`` times the gap."""
        terms = {name: c for name, c in form.items() if name}
        for name, prime in self.primed.items():
            c = terms.get(prime)
            if c is not None and terms.get(name) == -c:
                del terms[prime], terms[name]
                terms[_gap(name)] = c
        return list(terms.items()), form.get("", 0), is_equation


def _gap(name: str) -> str:
    return f"{name}'-{name}"


def _narrow(row: _Row, ranges: dict[str, Interval]) -> bool:
    """Takes ``row`` into account; True where it cannot hold."""
    terms, constant, is_equation = row
    parts = [ranges.get(name, EVERYTHING).scale(c) for name, c in terms]
    for place, (name, c) in enumerate(terms):
        low, high = constant, constant
        bounded_below = bounded_above = True
        for other, part in enumerate(parts):
            if other != place:
                if part.lo is None:
                    bounded_below = False
                else:
                    low += part.lo
                if part.hi is None:
                    bounded_above = False
                else:
                    high += part.hi
        # c*x >= -high, and for an equation also c*x <= -low.
        allowed = Interval(-high if bounded_above else None, -low if bounded_below and is_equation else None)
        interval = ranges.get(name, EVERYTHING).intersect(quotient(allowed, c))
        if interval.is_empty:
            return True
        ranges[name] = interval
        parts[place] = interval.scale(c)
    return not terms and (constant < 0 or (is_equation and constant != 0))
