"""Subscripts as sums of loop variables, in a form that counts quickly which elements loops touch.

A subscript is a constant and terms: a loop variable, perhaps divided and wrapped around (what splitting, fusing and
packing leave behind), times a coefficient. Where a subscript is none of that (a lookup, a minimum), the form is the
nearest one; what is counted with it are estimates.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import gcd
from typing import NamedTuple

from weft.ir.expr import Binary, Cast, Const, Expr, Load, Select, Unary, Var


class Term(NamedTuple):
    """``variable // divisor``, wrapped at ``modulus`` (0: never)."""

    variable: str
    divisor: int = 1
    modulus: int = 0

    @property
    def is_plain(self) -> bool:
        return self.divisor == 1 and not self.modulus

    def values(self, trips: float) -> float:
        """Different values over ``trips`` consecutive iterations."""
        distinct = trips if self.divisor == 1 else -(-trips // self.divisor)
        return min(distinct, self.modulus) if self.modulus else distinct


class Form(NamedTuple):
    """The sum of ``coefficients[term] * term`` and ``constant``; ``scattered`` names loops that look values up."""

    coefficients: Mapping[Term, int]
    constant: int
    scattered: frozenset[str] = frozenset()


def joined_digits(terms: Mapping[Term, int]) -> dict[Term, int]:
    """Terms of one variable, times so much each, where digits that count on from each other are one term.

    >>> joined_digits({Term("i", 1, 16): 1, Term("i", 16, 0): 16})    # i % 16 + 16 * (i // 16)
    {Term(variable='i', divisor=1, modulus=0): 1}
    """
    joined: dict[Term, int] = {}
    below: tuple[Term, int] | None = None
    for term, times in sorted(terms.items()):
        if below is not None and below[0].modulus and _counts_on(*below, term, times):
            low, each = below
            joined.pop(low)
            term, times = Term(low.variable, low.divisor, low.modulus * term.modulus), each
        joined[term] = times
        below = term, times
    return joined


def _counts_on(low: Term, each: int, high: Term, times: int) -> bool:
    """Whether ``high`` goes on where ``low`` wraps around."""
    return high.divisor == low.divisor * low.modulus and times == each * low.modulus


NOTHING = Form({}, 0)
Forms = Mapping[str, Form]
Trips = Mapping[str, float]


def index_form(e: Expr, forms: Forms, trips: Trips) -> Form:
    """``e`` in terms of loops; ``forms`` gives each variable's own form, ``trips`` how often each loop runs."""
    kind = type(e)
    if kind is Var:
        return forms.get(e.name, NOTHING)  # type: ignore[attr-defined]
    if kind is Const:
        return Form({}, int(e.value))  # type: ignore[attr-defined]
    if isinstance(e, Binary):
        return _binary(e, forms, trips)
    if isinstance(e, Cast):
        return index_form(e.operand, forms, trips)
    if isinstance(e, Unary) and e.op == "-":
        return _scaled(index_form(e.operand, forms, trips), -1)
    if isinstance(e, Load):
        parts = [index_form(i, forms, trips) for i in e.indices]
        return Form({}, 0, frozenset(v for p in parts for v in variables(p)))
    if isinstance(e, Select):
        return _busier(index_form(e.then, forms, trips), index_form(e.otherwise, forms, trips))
    return NOTHING


def variables(form: Form) -> frozenset[str]:
    """The loops a form depends on."""
    return form.scattered.union(t.variable for t in form.coefficients)


def _binary(e: Binary, forms: Forms, trips: Trips) -> Form:
    left, right = index_form(e.left, forms, trips), index_form(e.right, forms, trips)
    op = e.op
    if op == "+" or op == "-":
        return add_forms(left, right, 1 if op == "+" else -1)
    if op == "*":
        if not right.coefficients and not right.scattered:
            return _scaled(left, right.constant)
        return _scaled(right, left.constant or 1)
    if op in ("//", "tdiv", "%", "tmod") and not right.coefficients and right.constant > 0:
        rule = _quotient if op in ("//", "tdiv") else _remainder
        return rule(left, right.constant, trips)
    return _busier(left, right)


def _busier(a: Form, b: Form) -> Form:
    """Of two possible subscripts the one that moves more."""
    return a if len(a.coefficients) + len(a.scattered) >= len(b.coefficients) + len(b.scattered) else b


def add_forms(a: Form, b: Form, factor: int = 1) -> Form:
    """``a`` and ``factor`` times ``b``."""
    if not b.coefficients and not b.scattered:
        return a if not b.constant else Form(a.coefficients, a.constant + factor * b.constant, a.scattered)
    terms = dict(a.coefficients)
    for term, times in b.coefficients.items():
        total = terms.get(term, 0) + factor * times
        if total:
            terms[term] = total
        else:
            terms.pop(term, None)
    return Form(terms, a.constant + factor * b.constant, a.scattered | b.scattered)


def _scaled(a: Form, factor: int) -> Form:
    if factor == 1:
        return a
    if factor == 0:
        return NOTHING
    return Form({t: c * factor for t, c in a.coefficients.items()}, a.constant * factor, a.scattered)


def _fits(rest: Mapping[Term, int], constant: int, limit: int, trips: Trips) -> bool:
    """Whether terms that are no multiples of ``limit`` stay below it."""
    reach: float = constant % limit
    for term, times in rest.items():
        if times < 0:
            return False
        reach += times * (term.values(trips.get(term.variable, 1)) - 1)
    return reach < limit


def _quotient(a: Form, by: int, trips: Trips) -> Form:
    whole = {t: c // by for t, c in a.coefficients.items() if c % by == 0}
    rest = {t: c for t, c in a.coefficients.items() if c % by}
    if not _fits(rest, a.constant, by, trips):
        for term, times in rest.items():
            if abs(times) > by:
                whole[term] = times // by
            else:
                slower = max(1, by // abs(times))
                wrap = -(-term.modulus // slower)
                whole[Term(term.variable, term.divisor * slower, wrap)] = 1
    return Form(whole, a.constant // by, a.scattered)


def _remainder(a: Form, by: int, trips: Trips) -> Form:
    rest = {t: c for t, c in a.coefficients.items() if c % by}
    if _fits(rest, a.constant, by, trips):
        return Form(rest, a.constant % by, a.scattered)
    wrapped: dict[Term, int] = {}
    for term, times in rest.items():
        period = by // gcd(by, times)
        wrap = min(term.modulus, period) if term.modulus else period
        wrapped[Term(term.variable, term.divisor, wrap)] = times
    return Form(wrapped, a.constant % by, a.scattered)
