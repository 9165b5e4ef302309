"""What is known of the integers at a point of a program, and proofs from it.

`Facts` holds the ranges of index variables and inequalities ``p >= 0``. `proves(goal)` answers
whether ``goal >= 0`` follows: first by putting each variable at its worse end, then by showing
that the facts and ``goal <= -1`` together have no solution (`weft.ir.solve`, over the
products of atoms, after adding what is known of each quotient, remainder, minimum and product).
A yes is a proof; a no means only that none was found.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import gcd

from weft.ir import dtype as dt
from weft.ir.expr import Axis, Binary, Cast, Expr, Select, Var
from weft.ir.interval import Interval
from weft.ir.solve import solve
from weft.ir.visit import free_vars
from weft.tensor.conditions import alternatives
from weft.tensor.polynomial import Monomial, Polynomial, atom, constant
from weft.tensor.ranges import Range, Ranges

#: Beyond this many inequalities a proof is given up: real programs need a dozen or two.
MOST_CONSTRAINTS = 96
MOST_SPLITS = 4


@dataclass
class Facts:
    """Ranges of the variables in scope and inequalities that hold there."""

    ranges: Ranges
    inequalities: list[Polynomial] = field(default_factory=list)

    @staticmethod
    def of(axes: Sequence[Axis], conditions: Iterable[Polynomial] = ()) -> Facts:
        inner_ranges = {a.var.name: Range(Polynomial.of(a.lo), Polynomial.of(a.hi)) for a in axes}
        given = list(conditions)
        positive = {m[0] for p in given for m in p.terms if p.constant < 0 and p == atom_or_none(m, p)}
        return Facts(Ranges(inner_ranges, positive=positive), given)

    def proves(self, goal: Polynomial) -> bool:
        """Whether ``goal >= 0`` at every point where the facts hold."""
        least = self.ranges.extreme(goal, greatest=False)
        if least is not None and self.ranges.is_nonnegative(least):
            return True
        return self.refutes([-goal - 1])

    def refutes(self, given: Sequence[Polynomial]) -> bool:
        """Whether the facts contradict ``given`` (each ``>= 0``)."""
        return _refute([*given, *self.inequalities, *self._axes_have_points()], self, MOST_SPLITS)

    def _axes_have_points(self) -> list[Polynomial]:
        """Where something is evaluated no range is empty, not even those of variables it does not mention."""
        polynomials: list[Polynomial] = []
        for name, r in self.ranges.known.items():
            extent = r.hi - 1 - r.lo
            if extent.as_int is None:
                dependent = any(n in self.ranges.known for a in extent.atoms() for n in free_vars(a))
                polynomials += [atom(Var(name)) - r.lo, r.hi - 1 - atom(Var(name))] if dependent else [extent]
        return polynomials

    def intervals(self) -> dict[str, Interval]:
        """The ranges of variables with constant bounds."""
        narrowed = {}
        for name, r in self.ranges.known.items():
            lo, hi = r.lo.as_int, r.hi.as_int
            if lo is not None and hi is not None:
                narrowed[name] = Interval(lo, hi - 1)
        return narrowed


def atom_or_none(m: Monomial, p: Polynomial) -> Polynomial | None:
    """``m - c`` for a single atom ``m``: the shape of ``S >= c``."""
    return atom(m[0]) + p.constant if len(m) == 1 else None


def _refute(given: list[Polynomial], facts: Facts, splits: int) -> bool:
    constraints = _saturate(given, facts)
    if constraints is None:
        return True
    if _has_no_solution(constraints):
        return True
    cases = _split(constraints) if splits else None
    if cases is None:
        return False
    target, branches = cases
    for value, extra in branches:
        branch = [c.replace(target, value) for c in given] + extra
        scope = Facts(_replaced(facts.ranges, target, value), [])
        if not _refute(branch, scope, splits - 1):
            return False
    return True


def _replaced(ranges: Ranges, target: Expr, value: Polynomial) -> Ranges:
    inner_ranges = {n: Range(r.lo.replace(target, value), r.hi.replace(target, value)) for n, r in ranges.known.items()}
    return Ranges(inner_ranges, positive=ranges.positive)


def _split(constraints: list[Polynomial]) -> tuple[Expr, list[tuple[Polynomial, list[Polynomial]]]] | None:
    """An atom that is one thing or another, with each case's value and what holds in it."""
    for a in sorted({a for c in constraints for m in c.terms for a in m}, key=repr):
        match a:
            case Binary(op="min" | "max", left=left, right=right):
                x, y = Polynomial.of(left), Polynomial.of(right)
                less = y - x if a.op == "min" else x - y
                return a, [(x, [less]), (y, [-less])]
            case Select(condition=condition, then=then, otherwise=otherwise):
                yes, no = alternatives(condition, {}), alternatives(condition, {}, negate=True)
                cases = [(Polynomial.of(then), facts) for facts in yes]
                return a, cases + [(Polynomial.of(otherwise), facts) for facts in no]
    return None


def _saturate(given: list[Polynomial], facts: Facts) -> list[Polynomial] | None:
    """``given`` and what is known of the atoms and products in it; None where something is plainly false."""
    constraints: dict[Polynomial, None] = {}
    pending = list(given)
    seen: set[Monomial] = set()
    while pending and len(constraints) < MOST_CONSTRAINTS:
        c = _tighten(pending.pop())
        if c.as_int is not None:
            if c.constant < 0:
                return None
            continue
        if c in constraints:
            continue
        constraints[c] = None
        for m in c.terms:
            if m and m not in seen:
                seen.add(m)
                pending += _facts_of(m, facts)
    return list(constraints)


def _facts_of(m: Monomial, facts: Facts) -> list[Polynomial]:
    if len(m) == 1:
        return _facts_of_atom(m[0], facts)
    polynomials: list[Polynomial] = []
    ranges = facts.ranges
    if ranges.is_nonnegative(Polynomial({m: 1})):
        polynomials.append(Polynomial({m: 1}))
    for k, a in enumerate(m):
        rest = Polynomial({m[:k] + m[k + 1 :]: 1})
        # A product with an index variable is bounded by its range times the rest; further products say little.
        if isinstance(a, Var) and a.name in ranges.known and ranges.is_nonnegative(rest):
            r = ranges.known[a.name]
            polynomials += [rest * (atom(a) - r.lo), rest * (r.hi - 1 - atom(a))]
        elif isinstance(a, Binary) and a.op in ("min", "max") and ranges.is_nonnegative(rest):
            polynomials += [rest * p for p in _facts_of_atom(a, facts)]
        elif a in ranges.positive and ranges.is_nonnegative(rest):
            polynomials.append(rest * (atom(a) - 1))
    return polynomials


def _facts_of_atom(a: Expr, facts: Facts) -> list[Polynomial]:
    match a:
        case Var(name=name, type=dt.index):
            r = facts.ranges.known.get(name)
            x = atom(a)
            if r is not None:
                return [x - r.lo, r.hi - 1 - x]
            return [x - 1] if a in facts.ranges.positive else [x]
        case Cast(operand=operand):
            return _facts_of_cast(a, operand, facts)
        case Binary(op="//" | "tdiv" | "%" | "tmod"):
            return _facts_of_division(a, facts)
        case Binary(op="min" | "max" as op, left=left, right=right):
            sides = [Polynomial.of(left) - atom(a), Polynomial.of(right) - atom(a)]
            return sides if op == "min" else [-s for s in sides]
    return []


def _facts_of_cast(a: Cast, operand: Expr, facts: Facts) -> list[Polynomial]:
    """What the narrower type allows: a uint8 index is 0 to 255."""
    x, t = atom(a), operand.dtype
    polynomials = [x - 1] if a in facts.ranges.positive else []
    if isinstance(operand, Var) or t.is_float or t.bits == 64:
        return polynomials
    return [*polynomials, x - t.min_value, constant(t.max_value) - x]


def _facts_of_division(a: Binary, facts: Facts) -> list[Polynomial]:
    n, d = Polynomial.of(a.left), Polynomial.of(a.right)
    by = d.as_int
    scope = Facts(facts.ranges)
    if (by is not None and by <= 0) or (
        by is None and not scope.ranges.is_nonnegative(d - 1) and not _positive(d, facts)
    ):
        return []
    if a.op in ("tdiv", "tmod") and not scope.proves(n):
        return []
    x = atom(a)
    if a.op in ("%", "tmod"):
        return [x, d - 1 - x, *([n - x] if scope.ranges.is_nonnegative(n) else [])]
    return [n - d * x, d * x + d - 1 - n, *([x] if scope.ranges.is_nonnegative(n) else [])]


def _positive(d: Polynomial, facts: Facts) -> bool:
    """Whether every term is a product of atoms known to be 1 at least."""
    if not d.terms or any(c < 0 for c in d.terms.values()):
        return False
    return all(a in facts.ranges.positive for m in d.terms for a in m)


def _tighten(c: Polynomial) -> Polynomial:
    """Divided by what all coefficients share; the constant rounds down, since the atoms are integers."""
    common = gcd(*(k for m, k in c.terms.items() if m))
    if common <= 1:
        return c
    terms = {m: k // common for m, k in c.terms.items()}
    return Polynomial({m: k for m, k in terms.items() if k})


def _has_no_solution(constraints: list[Polynomial]) -> bool:
    """Whether no integers satisfy them, each product counting as a variable; False also where that is hard to tell."""
    names: dict[Monomial, str] = {(): ""}
    for c in constraints:
        for m in c.terms:
            names.setdefault(m, str(len(names)))
    return solve((), [{names[m]: k for m, k in c.terms.items()} for c in constraints]) is None
