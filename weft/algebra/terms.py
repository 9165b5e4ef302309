"""Sums of products over index maps: what every formula becomes before it is brought to its normal form."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TypeAlias

from weft.algebra.linear import Linear, Literal, UndecidedError, as_constant, constant, fresh, put, variable

#: Products beyond which equality is not decided.
MOST_TERMS = 30_000


@dataclass(frozen=True, slots=True)
class Read:
    """An element of a tensor, or the value of an opaque function: the tensor whose name is that of its template."""

    name: str
    subscripts: tuple[Linear, ...]


@dataclass(frozen=True, slots=True)
class Quotient:
    """``name = floor(form / by)``."""

    name: str
    form: Linear
    by: int


@dataclass(frozen=True, slots=True)
class Term:
    """``weight`` times the product of ``reads``, summed over ``bound`` where the literals of ``where`` hold."""

    weight: Fraction = Fraction(1)
    bound: tuple[str, ...] = ()
    quotients: tuple[Quotient, ...] = ()
    where: tuple[Literal, ...] = ()
    reads: tuple[Read, ...] = ()

    def put(self, by: Mapping[str, Linear]) -> Term:
        if not by:
            return self
        return replace(
            self,
            quotients=tuple(Quotient(q.name, put(q.form, by), q.by) for q in self.quotients),
            where=tuple((put(f, by), e) for f, e in self.where),
            reads=tuple(Read(r.name, tuple(put(s, by) for s in r.subscripts)) for r in self.reads),
        )

    def renamed(self) -> Term:
        """With names of its own for all that is bound or a quotient."""
        new = {n: fresh() for n in (*self.bound, *(q.name for q in self.quotients))}
        if not new:
            return self
        term = self.put({n: variable(v) for n, v in new.items()})
        return replace(
            term,
            bound=tuple(new[b] for b in self.bound),
            quotients=tuple(Quotient(new[q.name], q.form, q.by) for q in term.quotients),
        )

    def solved(self) -> Term:
        """Without bound names that an equation gives in terms of others."""
        term = self
        while True:
            bound = set(term.bound)
            found = next(((f, n, c) for f, e in term.where if e for n, c in f if c in (1, -1) and n in bound), None)
            if found is None:
                return term
            form, name, c = found
            rest = tuple(w for w in term.where if w != (form, True))
            by = {name: tuple((n, -c * k) for n, k in form if n != name)}
            names = tuple(b for b in term.bound if b != name)
            term = replace(term, bound=names, where=rest).put(by)


Sum: TypeAlias = tuple[Term, ...]
ONE: Sum = (Term(),)


def number(value: Fraction | int) -> Sum:
    return (Term(Fraction(value)),) if value else ()


def read(name: str, subscripts: Iterable[Linear]) -> Sum:
    return (Term(reads=(Read(name, tuple(subscripts)),)),)


def scaled(terms: Sum, by: Fraction | int) -> Sum:
    return tuple(replace(t, weight=t.weight * by) for t in terms) if by else ()


def product(a: Sum, b: Sum) -> Sum:
    if len(a) * len(b) > MOST_TERMS:
        raise UndecidedError(f"the formula has {len(a) * len(b)} products, more than {MOST_TERMS}")
    return tuple(
        _times(s, t.renamed() if n or len(a) > 1 or t.bound or t.quotients else t) for n, s in enumerate(a) for t in b
    )


def _times(s: Term, t: Term) -> Term:
    return Term(
        s.weight * t.weight,
        s.bound + t.bound,
        s.quotients + t.quotients,
        s.where + tuple(w for w in t.where if w not in s.where),
        s.reads + t.reads,
    )


def restricted(terms: Sum, where: Iterable[Literal], quotients: Iterable[Quotient] = ()) -> Sum:
    """The terms where the literals hold; literals that always or never hold are settled here."""
    kept = []
    for form, is_equation in where:
        value = as_constant(form)
        if value is None:
            kept.append((form, is_equation))
        elif (value != 0) if is_equation else (value < 0):
            return ()
    if not kept and not quotients:
        return terms
    extra = tuple(quotients)
    return tuple(
        replace(t, where=t.where + tuple(w for w in kept if w not in t.where), quotients=_merged(t.quotients, extra))
        for t in terms
    )


def _merged(mine: tuple[Quotient, ...], extra: tuple[Quotient, ...]) -> tuple[Quotient, ...]:
    return mine + tuple(q for q in extra if q not in mine)


def summed(terms: Sum, names: tuple[str, ...]) -> Sum:
    return tuple(replace(t, bound=names + t.bound) for t in terms)


def within(name: str, lo: Linear, hi: Linear) -> tuple[Literal, Literal]:
    """``lo <= name < hi``."""
    from weft.algebra.linear import add

    return (add(variable(name), lo, -1), False), (add(add(hi, variable(name), -1), constant(-1)), False)
