"""Random pairs of formulas, and whether they are one polynomial by counting every product of every element."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TypeAlias

from weft.algebra.linear import Linear, Literal, add, constant, fresh, linear, scale, variable
from weft.algebra.terms import ONE, Quotient, Read, Sum, Term, product, restricted, summed, within

#: The output indices and their extents.
FREE = {"$0": 3, "$1": 4}
Count: TypeAlias = dict[tuple[tuple[int, ...], tuple[tuple[str, tuple[int, ...]], ...]], Fraction]


@dataclass
class Draw:
    """Draws sums of products over two tensors, as text of subscripts never would: shifts, strides, quotients, tests."""

    random: random.Random

    def form(self, names: list[str]) -> tuple[Linear, tuple[Quotient, ...]]:
        r, a = self.random, variable(self.random.choice(names))
        kind = r.random()
        if kind < 0.4:
            return a, ()
        if kind < 0.6:
            return add(a, variable(r.choice(names))), ()
        if kind < 0.75:
            return add(scale(a, r.choice([1, 2, 3])), constant(r.choice([-1, 0, 1, 2]))), ()
        if kind < 0.85:
            return add(scale(a, 2), variable(r.choice(names))), ()
        q = Quotient(fresh(), add(a, constant(r.choice([0, 1]))), r.choice([2, 3]))
        return (variable(q.name) if r.random() < 0.5 else add(q.form, variable(q.name), -q.by)), (q,)

    def read(self, names: list[str]) -> Sum:
        name, rank = self.random.choice([("A", 1), ("B", 2)])
        forms = [self.form(names) for _ in range(rank)]
        quotients = tuple(q for _, own in forms for q in own)
        return (Term(quotients=quotients, reads=(Read(name, tuple(f for f, _ in forms)),)),)

    def sum(self, names: list[str], depth: int = 0) -> Sum:
        r, kind = self.random, self.random.random()
        if depth > 2 or kind < 0.35:
            return self.read(names)
        if kind < 0.55:
            return self.sum(names, depth + 1) + self.sum(names, depth + 1)
        if kind < 0.75:
            return product(self.sum(names, depth + 1), self.sum(names, depth + 1))
        if kind < 0.93:
            name, size = fresh(), r.choice([2, 3, 4])
            inner = restricted(self.sum([*names, name], depth + 1), within(name, (), constant(size)))
            return summed(inner, (name,))
        test: Literal = (add(variable(r.choice(names)), constant(-r.choice([1, 2]))), False)
        below = (add(scale(test[0], -1), constant(-1)), False)
        return restricted(self.sum(names, depth + 1), [test]) + restricted(self.sum(names, depth + 1), [below])

    def variant(self, terms: Sum) -> Sum:
        """The same in another form: terms and reads in another order, ranges split or backwards, weights split."""
        found: list[Term] = []
        for t in self.random.sample(terms, len(terms)):
            t = (
                replace(t.renamed(), reads=tuple(self.random.sample(t.renamed().reads, 0)))
                if not t.reads
                else t.renamed()
            )
            t = replace(t, reads=tuple(self.random.sample(t.reads, len(t.reads))))
            kind = self.random.random()
            if t.bound and kind < 0.6:
                found += self.moved(t, self.random.choice(t.bound))
            elif kind < 0.75:
                found += [replace(t, weight=t.weight / 3), replace(t.renamed(), weight=t.weight * 2 / 3)]
            else:
                found.append(t)
        return tuple(found)

    def moved(self, t: Term, name: str) -> list[Term]:
        last = next(f for f, e in t.where if not e and linear({n: c for n, c in f if n}) == ((name, -1),))
        size = dict(last).get("", 0)
        if self.random.random() < 0.5:
            return [t.put({name: add(constant(size), variable(name), -1)})]
        at = self.random.randrange(0, size + 2)
        return [replace(t, where=(*t.where, w)) for w in _halves(name, at)]

    def changed(self, terms: Sum) -> Sum:
        """One subscript moved by one: seldom the same."""
        if not any(t.reads for t in terms):
            return terms
        n = self.random.choice([k for k, t in enumerate(terms) if t.reads])
        reads = list(terms[n].reads)
        k = self.random.randrange(len(reads))
        at = self.random.randrange(len(reads[k].subscripts))
        subscripts = list(reads[k].subscripts)
        subscripts[at] = add(subscripts[at], constant(self.random.choice([-1, 1])))
        reads[k] = Read(reads[k].name, tuple(subscripts))
        return (*terms[:n], replace(terms[n], reads=tuple(reads)), *terms[n + 1 :])

    def pair(self) -> tuple[Sum, Sum]:
        domain = [w for n, size in FREE.items() for w in within(n, (), constant(size))]
        first = self.sum(list(FREE))
        kind = self.random.random()
        second = (
            self.variant(first)
            if kind < 0.5
            else self.changed(self.variant(first))
            if kind < 0.9
            else self.sum(list(FREE))
        )
        return restricted(first, domain), restricted(second, domain)


def _halves(name: str, at: int) -> list[Literal]:
    return [(add(constant(at - 1), variable(name), -1), False), (add(variable(name), constant(-at)), False)]


def expand(terms: Sum) -> Count:
    """How often each product of elements is in each element of the output."""
    total: Counter[tuple[tuple[int, ...], tuple[tuple[str, tuple[int, ...]], ...]]] = Counter()
    for point in itertools.product(*map(range, FREE.values())):
        for t in terms:
            for values in itertools.product(range(-1, 8), repeat=len(t.bound)):
                at = {**dict(zip(FREE, point)), **dict(zip(t.bound, values)), "": 1}
                waiting = list(t.quotients)
                while waiting:
                    q = next(q for q in waiting if all(n in at for n, _ in q.form))
                    at[q.name] = _value(q.form, at) // q.by
                    waiting.remove(q)
                if all(_value(f, at) == 0 if e else _value(f, at) >= 0 for f, e in t.where):
                    key = tuple(sorted((r.name, tuple(_value(s, at) for s in r.subscripts)) for r in t.reads))
                    total[point, key] += t.weight  # type: ignore[assignment]
    return {k: v for k, v in total.items() if v}  # type: ignore[misc]


def _value(form: Linear, at: dict[str, int]) -> int:
    return sum(c * at[n] for n, c in form)


__all__ = ["FREE", "ONE", "Draw", "expand"]
