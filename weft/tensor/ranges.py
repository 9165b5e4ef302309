"""Ranges of index variables, and what a sum of products can be while the variables run over them."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from weft.ir import dtype as dt
from weft.ir.expr import Binary, Expr, Var
from weft.ir.visit import free_vars
from weft.tensor.polynomial import Polynomial, constant, floor_div, is_at_most
from weft.tensor.program import Doubt, Requirement


@dataclass(frozen=True, slots=True)
class Range:
    """Half-open and normalized; bounds may mention variables whose own bounds do not lead back."""

    lo: Polynomial
    hi: Polynomial


@dataclass
class Ranges:
    """The ranges known so far in a statement, and what was assumed in finding them."""

    known: dict[str, Range] = field(default_factory=dict)
    requirements: list[Requirement] = field(default_factory=list)
    #: integer parameters taken to be at least 1 because a variable is multiplied by them
    positive: set[Expr] = field(default_factory=set)
    #: variables that end where the shorter of two tensors does, at sizes where these differ
    cuts: list[Doubt] = field(default_factory=list)
    _ordered: list[str] = field(default_factory=list)

    def is_nonnegative(self, p: Polynomial) -> bool:
        """A sufficient test: no negative term, and no atom that could be negative."""
        if any(c < 0 for c in p.terms.values()):
            return False
        return all(self._atom_nonnegative(a) for m in p.terms for a in m)

    def _atom_nonnegative(self, a: Expr) -> bool:
        match a:
            case Var(name=name, type=dt.index):
                r = self.known.get(name)
                return r is None or self.is_nonnegative(r.lo)
            case Binary(op="//", left=left, right=right) | Binary(op="max", left=left, right=right):
                sides = [self.is_nonnegative(Polynomial.of(s)) for s in (left, right)]
                return any(sides) if a.op == "max" else all(sides)
            case Binary(op="min", left=left, right=right):
                return all(self.is_nonnegative(Polynomial.of(s)) for s in (left, right))
        return a in self.positive

    def with_range(self, var: Var, hi: Polynomial) -> Ranges:
        """These, and ``var`` from 0 to ``hi``; nothing that is assumed of one is assumed of the other."""
        return Ranges({**self.known, var.name: Range(constant(0), hi)}, positive=set(self.positive))

    def at_most(self, a: Polynomial, b: Polynomial) -> bool:
        return is_at_most(a, b, lambda p, q: self.is_nonnegative(q - p))

    def _order(self) -> list[str]:
        if len(self._ordered) != len(self.known):
            self._ordered = dependency_order(self.known)
        return self._ordered

    def extreme(self, p: Polynomial, greatest: bool) -> Polynomial | None:
        """The least or greatest value of ``p`` over all variables of known range, or None where that is not plain."""
        for name in reversed(self._order()):
            if not any(mentions(a, name) for m in p.terms for a in m):
                continue
            var = Var(name)
            slope = p.coefficient(var)
            if slope is None or any(mentions(a, name) for m in p.without(var).terms for a in m):
                return None
            r = self.known[name]
            if self.is_nonnegative(slope):
                p = p.replace(var, r.hi - 1 if greatest else r.lo)
            elif self.is_nonnegative(-slope):
                p = p.replace(var, r.lo if greatest else r.hi - 1)
            else:
                return None
        return p

    def reach(self, p: Polynomial, greatest: bool, remainders: bool) -> Polynomial | None:
        """Like `extreme`, also through quotients by constants, and remainders taken to be anything below the divisor.

        Only where nothing else depends on the same variables: each part then reaches its extreme by itself.
        """
        for a in p.atoms():
            if isinstance(a, Binary) and mentions_any(a, self.known):
                names = [n for n in self.known if mentions(a, n)]
                shared = [m for m in p.terms if any(mentions(b, n) for b in m for n in names)]
                slope = p.coefficient(a)
                if slope is None or len(shared) != 1:
                    return None
                rising = self.is_nonnegative(slope)
                end = self._quotient_end(a, greatest == rising, remainders)
                if end is None or not (rising or self.is_nonnegative(-slope)):
                    return None
                p = p.replace(a, end)
        return self.extreme(p, greatest)

    def _quotient_end(self, a: Binary, greatest: bool, remainders: bool) -> Polynomial | None:
        n, by = Polynomial.of(a.left), Polynomial.of(a.right).as_int
        least, end = self.extreme(n, greatest=False), self.extreme(n, greatest)
        truncates = a.op in ("tdiv", "tmod")
        if by is None or by <= 0 or end is None or (truncates and (least is None or not self.is_nonnegative(least))):
            return None
        if a.op in ("//", "tdiv"):
            return floor_div(end, constant(by))
        if a.op in ("%", "tmod") and remainders:
            return constant(by - 1 if greatest else 0)
        return None


@lru_cache(maxsize=4096)
def _names_below(e: Expr) -> frozenset[str]:
    return frozenset(free_vars(e))


def mentions(e: Expr, name: str) -> bool:
    return e.name == name if isinstance(e, Var) else name in _names_below(e)


def mentions_any(e: Expr, names: Container[str]) -> bool:
    return e.name in names if isinstance(e, Var) else any(n in names for n in _names_below(e))


def dependency_order(ranges: Mapping[str, Range]) -> list[str]:
    """Names such that bounds mention only earlier ones."""
    order: list[str] = []

    def visit(name: str) -> None:
        if name in order or name not in ranges:
            return
        for bound in (ranges[name].lo, ranges[name].hi):
            for a in bound.atoms():
                for other in (a.name,) if isinstance(a, Var) else sorted(_names_below(a)):
                    if other != name:
                        visit(other)
        if name not in order:
            order.append(name)

    for name in ranges:
        visit(name)
    return order
