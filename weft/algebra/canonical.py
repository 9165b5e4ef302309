"""The normal form of a sum of products: per tensors read, weighted sets of (output index, subscripts).

Summed indices and quotients are eliminated: where subscripts give them, by substitution; where they do not, several
points read the same, and their number is part of the weight. What is left over has one spelling for most formulas;
sets that differ in spelling alone are settled by isl (`compare`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TypeAlias

from weft.algebra import weights
from weft.algebra.linear import (
    Linear,
    Literal,
    UndecidedError,
    add,
    as_constant,
    coefficient,
    constant,
    linear,
    names_of,
    put,
    scale,
    variable,
)
from weft.algebra.terms import Quotient, Read, Sum, Term
from weft.algebra.weights import Weight

#: The names of the tensors that are read, in order, with the number of their subscripts; and the literals of the set.
Key: TypeAlias = tuple[tuple[str, int], ...]
Region: TypeAlias = frozenset[Literal]
Normal: TypeAlias = dict[tuple[Key, Region], Weight]

#: Orders of the reads of one tensor in one product, cases of a count, values of an index that are told one by one.
MOST_ORDERS = 5040
MOST_CASES = 64
MOST_VALUES = 64


class _Empty(Exception):
    """The set has no points."""


def normal_form(terms: Sum) -> Normal:
    total: Normal = {}
    for term in terms:
        for reads in orders(term.reads):
            for region, weight in canonical(term, reads):
                key = tuple((r.name, len(r.subscripts)) for r in reads), region
                both = weights.plus(total.get(key, {}), weight)
                if both:
                    total[key] = both
                else:
                    total.pop(key, None)
    return total


def orders(reads: tuple[Read, ...]) -> Iterator[tuple[Read, ...]]:
    """Reads sorted by tensor; those of one tensor in every order, as products commute."""
    groups = [
        list(g)
        for _, g in itertools.groupby(sorted(reads, key=lambda r: (r.name, len(r.subscripts))), lambda r: r.name)
    ]
    if math.prod(math.factorial(len(g)) for g in groups) > MOST_ORDERS:
        raise UndecidedError("one tensor is read more than 7 times in one product")
    for choice in itertools.product(*map(itertools.permutations, groups)):
        yield tuple(itertools.chain(*choice))


def canonical(term: Term, reads: tuple[Read, ...]) -> Iterator[tuple[Region, Weight]]:
    subscripts = [s for r in reads for s in r.subscripts]
    quotients = _used(term)
    system = _System({(): term.weight}, set(term.bound), {q.name for q in quotients})
    system.equations = [add(s, variable(f"#{n}"), -1) for n, s in enumerate(subscripts)]
    system.equations += [f for f, is_equation in term.where if is_equation]
    system.inequalities = [f for f, is_equation in term.where if not is_equation]
    for q in quotients:
        rest = add(q.form, variable(q.name), -q.by)
        system.inequalities += [rest, add(constant(q.by - 1), rest, -1)]
    try:
        system.eliminate()
    except _Empty:
        return
    waiting = [system]
    cases = 0
    while waiting:
        cases += 1
        if cases > MOST_CASES:
            raise UndecidedError("counting the points that read one element has too many cases")
        system = waiting.pop()
        try:
            open_names = system.counted()
            if open_names:
                waiting += system.count(open_names)
            else:
                yield system.finish(len(subscripts)), system.weight
        except _Empty:
            continue


def _used(term: Term) -> list[Quotient]:
    """The quotients that anything depends on."""
    names = names_of([f for f, _ in term.where]) | names_of(s for r in term.reads for s in r.subscripts)
    used: list[Quotient] = []
    while more := [q for q in term.quotients if q.name in names and q not in used]:
        used += more
        names |= names_of(q.form for q in more)
    return used


@dataclass
class _System:
    """Equations and inequalities over coordinates, ``bound`` (counted) and ``determined`` (not counted) unknowns."""

    weight: Weight
    bound: set[str]
    determined: set[str]
    equations: list[Linear] = field(default_factory=list)
    inequalities: list[Linear] = field(default_factory=list)

    def copy(self) -> _System:
        return _System(
            dict(self.weight), set(self.bound), set(self.determined), [*self.equations], [*self.inequalities]
        )

    def put(self, name: str, form: Linear) -> None:
        by = {name: form}
        self.equations = [put(f, by) for f in self.equations]
        self.inequalities = [put(f, by) for f in self.inequalities]
        self.weight = weights.put(self.weight, by)
        self.bound.discard(name)
        self.determined.discard(name)

    def eliminate(self) -> None:
        """Unknowns replaced as equations say; what no equation determines stays in ``bound``."""
        while True:
            self.tidy()
            if not (self.substitute() or self.shrink() or self.pin()):
                return

    def substitute(self) -> bool:
        for names in (self.bound, self.determined):
            for n, form in enumerate(self.equations):
                for name, c in form:
                    if c in (1, -1) and name in names:
                        del self.equations[n]
                        self.put(name, scale(linear({k: v for k, v in form if k != name}), -c))
                        return True
        return False

    def shrink(self) -> bool:
        """An equation of several unknowns, none of coefficient 1: a change of variable with lesser ones."""
        for form in self.equations:
            unknown = [(abs(c), n) for n, c in form if n in self.bound]
            if len(unknown) == 1:
                self.bound.discard(unknown[0][1])
                self.determined.add(unknown[0][1])
                return True
            if unknown:
                least, name = min(unknown)
                sign = 1 if coefficient(form, name) > 0 else -1
                others = {n: -sign * (c // least) for n, c in form if n in self.bound and n != name}
                self.put_keeping(name, linear({name: 1, **others}))
                return True
        return False

    def put_keeping(self, name: str, form: Linear) -> None:
        """A unimodular change: ``name`` now stands for what is left of it."""
        self.put(name, form)
        self.bound.add(name)

    def pin(self) -> bool:
        """Two inequalities that leave one value are an equation."""
        known = set(self.inequalities)
        for form in self.inequalities:
            opposite = scale(form, -1)
            if opposite in known:
                self.inequalities = [f for f in self.inequalities if f not in (form, opposite)]
                self.equations.append(form)
                return True
        return False

    def tidy(self) -> None:
        """Literals in lowest terms, of those with one slope the tightest; `_Empty` where they contradict each other."""
        self.equations = list(dict.fromkeys(f for f in map(_lowest_equation, self.equations) if f))
        tightest: dict[Linear, int] = {}
        for form in self.inequalities:
            slope, rest = _lowest_inequality(form)
            if not slope:
                if rest < 0:
                    raise _Empty
                continue
            tightest[slope] = min(rest, tightest.get(slope, rest))
        for slope, rest in tightest.items():
            opposite = tightest.get(scale(slope, -1))
            if opposite is not None and rest + opposite < 0:
                raise _Empty
        self.inequalities = [add(slope, constant(rest)) for slope, rest in tightest.items()]

    def counted(self) -> list[str]:
        """Bound names that no equation determines, those that are easy to count first."""
        return sorted(
            self.bound,
            key=lambda b: (weights.mentions(self.weight, b), sum(coefficient(f, b) != 0 for f in self.inequalities), b),
        )

    def count(self, names: list[str]) -> list[_System]:
        """Systems without one of the names, whose weights count its values."""
        for name in names:
            lower = [f for f in self.inequalities if coefficient(f, name) > 0]
            upper = [f for f in self.inequalities if coefficient(f, name) < 0]
            if not lower or not upper:
                raise UndecidedError("a summed index has no bounds")
            if self.values(lower, upper, name) is None and self.is_plain(lower + upper, name):
                return list(self.cases(name, lower, upper))
        for name in names:
            lower = [f for f in self.inequalities if coefficient(f, name) > 0]
            upper = [f for f in self.inequalities if coefficient(f, name) < 0]
            values = self.values(lower, upper, name)
            if values is not None:
                return list(self.one_by_one(name, values))
            if self.is_plain(lower + upper, name):
                return list(self.cases(name, lower, upper))
        raise UndecidedError("several points read the same elements, and their number is no polynomial")

    def is_plain(self, forms: list[Linear], name: str) -> bool:
        return all(abs(coefficient(f, name)) == 1 for f in forms) and not weights.mentions(self.weight, name)

    def values(self, lower: list[Linear], upper: list[Linear], name: str) -> range | None:
        """The few values between constant bounds, where other bounds or the weight depend on more; None otherwise."""
        ends = [[_bound(f, name) for f in side if len(names_of([f])) == 1] for side in (lower, upper)]
        if not ends[0] or not ends[1]:
            return None
        both = len(ends[0]) == len(lower) and len(ends[1]) == len(upper)
        values = range(max(ends[0]), min(ends[1]) + 1)
        if len(values) > MOST_VALUES or (both and not weights.mentions(self.weight, name)):
            return None
        return values

    def one_by_one(self, name: str, values: Iterable[int]) -> Iterator[_System]:
        for value in values:
            system = self.copy()
            system.put(name, constant(value))
            try:
                system.eliminate()
            except _Empty:
                continue
            yield system

    def cases(self, name: str, lower: list[Linear], upper: list[Linear]) -> Iterator[_System]:
        """One for each choice of the greatest lower and the least upper bound; of equal ones the first counts."""
        starts = [scale(add(f, variable(name), -1), -1) for f in lower]
        ends = [add(f, variable(name)) for f in upper]
        others = [f for f in self.inequalities if not coefficient(f, name)]
        for (i, start), (j, end) in itertools.product(enumerate(starts), enumerate(ends)):
            system = self.copy()
            system.bound.discard(name)
            greatest = [add(add(start, s, -1), constant(-1 if n < i else 0)) for n, s in enumerate(starts) if n != i]
            least = [add(add(e, end, -1), constant(-1 if n < j else 0)) for n, e in enumerate(ends) if n != j]
            length = add(add(end, start, -1), constant(1))
            system.inequalities = [*others, *greatest, *least, add(length, constant(-1))]
            system.weight = weights.times(system.weight, weights.of_linear(length))
            try:
                system.eliminate()
            except _Empty:
                continue
            yield system

    def finish(self, coordinates: int) -> Region:
        """Equations in echelon form, later subscripts by earlier ones, and unknowns named in the order they appear."""
        done: list[Linear] = []
        for n in reversed(range(coordinates)):
            name = f"#{n}"
            for k, form in enumerate(self.equations):
                c = coefficient(form, name)
                if c in (1, -1):
                    del self.equations[k]
                    by = {name: scale(linear({m: v for m, v in form if m != name}), -c)}
                    self.equations = [put(f, by) for f in self.equations]
                    done = [put(f, by) for f in done]
                    self.inequalities = [put(f, by) for f in self.inequalities]
                    self.weight = weights.put(self.weight, by)
                    done.append(scale(form, c))
                    break
        self.equations += done
        self.tidy()
        return self.named()

    def named(self) -> Region:
        literals = [(f, True) for f in self.equations] + [(f, False) for f in self.inequalities]
        left = self.determined & names_of(f for f, _ in literals)
        if left:
            blank = {n: variable("~") for n in left}
            literals.sort(key=lambda w: (put(w[0], blank), w[1], w[0]))
            seen = dict.fromkeys(n for f, _ in literals for n, _ in f if n in left)
            new = {n: variable(f"~{k}") for k, n in enumerate(seen)}
            literals = [(put(f, new), e) for f, e in literals]
            literals = [(_lowest_equation(f) if e else f, e) for f, e in literals]
        return frozenset(literals)


def _bound(form: Linear, name: str) -> int:
    """The least or greatest value of ``name`` that ``c * name + rest >= 0`` leaves."""
    c, rest = coefficient(form, name), coefficient(form, "")
    return -(rest // c) if c > 0 else rest // -c


def _lowest_equation(form: Linear) -> Linear:
    value = as_constant(form)
    if value is not None:
        if value:
            raise _Empty
        return ()
    divisor = math.gcd(*(c for n, c in form if n))
    if coefficient(form, "") % divisor:
        raise _Empty
    first = next(c for n, c in form if n)
    divisor = divisor if first > 0 else -divisor
    return tuple((n, c // divisor) for n, c in form)


def _lowest_inequality(form: Linear) -> tuple[Linear, int]:
    """The slope in lowest terms and the constant, rounded down."""
    slope = tuple((n, c) for n, c in form if n)
    rest = coefficient(form, "")
    if not slope:
        return slope, rest
    divisor = math.gcd(*(c for _, c in slope))
    return tuple((n, c // divisor) for n, c in slope), rest // divisor


def difference(a: Normal, b: Normal) -> Normal:
    total = dict(a)
    for key, weight in b.items():
        left = weights.plus(total.get(key, {}), weight, -1)
        if left:
            total[key] = left
        else:
            total.pop(key, None)
    return total


def modulo(form: Normal, modulus: int | None) -> Normal:
    """Without the points whose weight is a multiple of the modulus: integers wrap."""
    if modulus is None:
        return form
    kept = {}
    for key, weight in form.items():
        left = {m: Fraction(c % modulus) if c.denominator == 1 else c for m, c in weight.items()}
        left = {m: c for m, c in left.items() if c}
        if left:
            kept[key] = left
    return kept
