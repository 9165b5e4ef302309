"""Tests of the elements of a tile: of which elements they hold, wherever these are read, and who sees the others.

A thread has elements of a tile digit by digit: ``X[16 * a + 2 * b + c]`` is the column ``64 * a + 8 * b + 2 * t + c``.
So that tests in different nests can be compared, they are told by digits of subscripts instead of by loops.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from weft.ir.affine import Linear, linear_form
from weft.ir.expr import Expr, Load, Select, Var
from weft.ir.interval import Ranges
from weft.ir.nesting import inner_statements, statements
from weft.ir.simplify import assigned_names
from weft.ir.stmt import Alloc, Atomic, If, Stmt, Store
from weft.ir.visit import children, free_vars, mentions, stores
from weft.passes.analysis.conditions import conjuncts, is_pure, slack
from weft.passes.analysis.loop_ranges import ranges_inside

#: A sum that is not negative, in a form in which equal ones compare equal.
Gap = tuple[frozenset[tuple[Expr, int]], int]


class Digit(NamedTuple):
    """Part of a subscript: ``factor`` times what counts from 0 to below ``extent``."""

    dimension: int
    factor: int
    extent: int

    @property
    def var(self) -> Var:
        return Var(f"digit {self.dimension} {self.factor} {self.extent}")


class Use(NamedTuple):
    """A load, the store that it is of (not of its place), and the tests and ranges around."""

    load: Load
    into: Store | None
    facts: frozenset[Gap]
    ranges: Ranges


def as_gap(sum_: Linear) -> Gap:
    return frozenset(sum_.terms.items()), sum_.constant


def digits_of(access: Load | Store, inner: frozenset[str], ranges: Ranges) -> dict[Var, Digit]:
    """The loops among ``inner`` that count digits of subscripts; only of dimensions that are made of such alone."""
    found: dict[Var, Digit] = {}
    for dimension, index in enumerate(access.indices):
        form, most, own = linear_form(index), 0, dict[Var, Digit]()
        for atom, factor in sorted(form.terms.items(), key=lambda item: item[1]):
            span = ranges.get(atom.name) if isinstance(atom, Var) and atom.name in inner else None
            if not isinstance(atom, Var) or span is None or span.lo != 0 or span.hi is None or factor <= most:
                break
            own[atom] = Digit(dimension, factor, span.hi + 1)
            most += factor * span.hi
        else:
            found |= own if form.constant == 0 else {}
    return found


@dataclass(slots=True)
class ElementTests:
    """What is known of the storage of a launch: the names bound while each exists, and who reads it."""

    changing: frozenset[str]
    inner: dict[str, frozenset[str]] = field(default_factory=dict)
    uses: dict[str, list[Use]] = field(default_factory=dict)

    @staticmethod
    def of(launch: Stmt) -> ElementTests:
        found = ElementTests(assigned_names(launch))
        reached = mentions(launch).reached | {s.buffer.name for s in stores(launch) if isinstance(s, Atomic)}
        for s in statements(launch):
            if isinstance(s, Alloc) and s.buffer.name not in reached:
                found.inner[s.buffer.name] = mentions(s.body).bound
        for use in found._uses(launch, frozenset(), {}):
            found.uses.setdefault(use.load.buffer.name, []).append(use)
        return found

    def gap(self, test: Expr) -> Gap | None:
        found = slack(test) if is_pure(test, self.changing) else None
        return None if found is None else as_gap(found)

    def facts(self, condition: Expr) -> frozenset[Gap]:
        return frozenset(gap for c in conjuncts(condition) if (gap := self.gap(c)) is not None)

    def _uses(self, s: Stmt, facts: frozenset[Gap], ranges: Ranges) -> Iterator[Use]:
        ranges = ranges_inside(s, ranges)
        for e in children(s):
            if isinstance(e, Expr):
                into = s if isinstance(s, Store) and e is s.value else None
                yield from self._uses_in(e, into, facts, ranges)
        for n in inner_statements(s):
            inside = isinstance(s, If) and n is s.then
            held = facts | self.facts(s.condition) if isinstance(s, If) and inside else facts
            yield from self._uses(n, held, ranges)

    def _uses_in(self, e: Expr, into: Store | None, facts: frozenset[Gap], ranges: Ranges) -> Iterator[Use]:
        if isinstance(e, Load):
            yield Use(e, into, facts, ranges)
            into = None
        for part in children(e):
            chosen = isinstance(e, Select) and part is e.then
            held = facts | self.facts(e.condition) if isinstance(e, Select) and chosen else facts
            if isinstance(part, Expr):
                yield from self._uses_in(part, into, held, ranges)

    def by_digits(self, gap: Gap, access: Load | Store, ranges: Ranges) -> Gap | None:
        """A test where an element is read or stored, as one of the element; None where it is no such."""
        inner = self.inner.get(access.buffer.name)
        if inner is None:
            return None
        digits, made = digits_of(access, inner, ranges), Linear({}, gap[1])
        for atom, factor in gap[0]:
            if isinstance(atom, Var) and atom in digits:
                made.terms[digits[atom].var] = factor
            elif inner & free_vars(atom).keys():
                return None
            else:
                made.terms[atom] = factor
        return as_gap(made)

    def at(self, gap: Gap, access: Load | Store, ranges: Ranges, loops_there: Collection[str] = ()) -> Gap | None:
        """What `by_digits` gave, where the same element is read or stored elsewhere, also in a nest to be made."""
        inner = self.inner.get(access.buffer.name, frozenset())
        digits = digits_of(access, inner.union(loops_there), ranges)
        loops = {digit.var: var for var, digit in digits.items()}
        terms = [(loops.get(atom, atom) if isinstance(atom, Var) else atom, factor) for atom, factor in gap[0]]
        missing = any(isinstance(atom, Var) and atom.name.startswith("digit ") for atom, _ in terms)
        return None if missing else (frozenset(terms), gap[1])

    def is_unseen(self, name: str, gap: Gap, assumed: frozenset[tuple[str, Gap]] = frozenset()) -> bool:
        """Whether nothing outside this storage depends on elements of ``name`` of which ``gap`` is negative.

        Whoever reads them makes the test itself, or stores what it makes of them to elements of which the same is true.
        """
        if (name, gap) in assumed:
            return True
        assumed |= {(name, gap)}
        for use in self.uses.get(name, ()):
            if use.into is not None and Load(use.into.buffer, use.into.indices) == use.load:
                continue
            here = self.at(gap, use.load, use.ranges)
            if here is None:
                return False
            if here in use.facts:
                continue
            there = None if use.into is None else self.by_digits(here, use.into, use.ranges)
            if use.into is None or there is None or not self.is_unseen(use.into.buffer.name, there, assumed):
                return False
        return True
