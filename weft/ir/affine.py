"""Sums of multiples: the canonical form of integer arithmetic.

>>> affine_form(i * 4 - (i - j) + 3)
{'i': 3, 'j': 1, '': 3}

`Linear` is the same over arbitrary subexpressions: what `simplify` collects, cancels and
orders. Multiplication and addition wrap, so coefficients may be taken modulo the type.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from weft.ir import dtype as dt
from weft.ir.dtype import DType
from weft.ir.expr import Binary, Const, Expr, Unary, Var, const
from weft.ir.interval import Interval, Ranges, bounds
from weft.ir.printer import print_expr
from weft.ir.solve import Form
from weft.ir.span import Span


def affine_form(e: Expr) -> Form | None:
    """``e`` as an affine function of int64 variables, the way the solver takes it, or None where it is not one."""
    return linear_form(e).by_name() if e.dtype == dt.index else None


@dataclass(slots=True)
class Linear:
    """A sum of integer multiples of expressions, and a constant."""

    terms: dict[Expr, int] = field(default_factory=dict)
    constant: int = 0

    def add(self, other: Linear, factor: int = 1) -> Linear:
        """This sum with ``factor`` times ``other`` added, in place."""
        terms = self.terms
        for atom, times in other.terms.items():
            total = terms.get(atom, 0) + times * factor
            if total:
                terms[atom] = total
            else:
                terms.pop(atom, None)
        self.constant += other.constant * factor
        return self

    def by_name(self) -> Form | None:
        """The sum over the names of its variables; None where it has other parts."""
        form: Form = {}
        for atom, factor in self.terms.items():
            if not isinstance(atom, Var):
                return None
            form[atom.name] = factor
        if self.constant:
            form[""] = self.constant
        return form

    def bounds(self, ranges: Ranges) -> Interval:
        interval = Interval(self.constant, self.constant)
        for atom, factor in self.terms.items():
            interval = interval.plus(bounds(atom, ranges).scale(factor))
        return interval

    def wrapped(self, t: DType) -> Linear:
        """Coefficients brought to the signed range of ``t``, where wrapping makes them equal."""
        half = 1 << (t.bits - 1)
        if all(-half <= c < half for c in (*self.terms.values(), self.constant)):
            return self
        terms = {a: _centered(c, half) for a, c in self.terms.items()}
        return Linear({a: c for a, c in terms.items() if c}, _centered(self.constant, half))

    def expr(self, t: DType, span: Span | None = None) -> Expr:
        """The sum as an expression: largest multiples first, then what is subtracted, the constant last."""
        least = -(1 << (t.bits - 1))
        terms = ordered(self.terms.items())
        added = [(a, c) for a, c in terms if c > 0 or c == least]
        taken = [(a, -c) for a, c in terms if least < c < 0]
        constant = self.constant
        result: Expr | None = None
        if not added and (constant > 0 or not taken):
            result, constant = const(constant, t), 0
        for atom, factor in added:
            part = _multiple(atom, factor, t, span)
            result = part if result is None else Binary("+", result, part, span=span)
        for atom, factor in taken:
            if result is None:
                result = _multiple(atom, -factor, t, span)
            else:
                result = Binary("-", result, _multiple(atom, factor, t, span), span=span)
        assert result is not None
        return _plus_constant(result, constant, least, t, span)


def _centered(value: int, half: int) -> int:
    return (value + half) % (2 * half) - half


def _multiple(atom: Expr, factor: int, t: DType, span: Span | None) -> Expr:
    if factor == 1:
        return atom
    if factor == -1:
        return Unary("-", atom, span=span)
    return Binary("*", atom, const(factor, t), span=span)


def _plus_constant(e: Expr, constant: int, least: int, t: DType, span: Span | None) -> Expr:
    if constant == 0:
        return e
    if least < constant < 0:
        return Binary("-", e, const(-constant, t), span=span)
    return Binary("+", e, const(constant, t), span=span)


def ordered(terms: Iterable[tuple[Expr, int]]) -> list[tuple[Expr, int]]:
    """Terms in the canonical order: by size of the factor, then by text."""
    listed = list(terms)
    if len(listed) > 1:
        listed.sort(key=lambda term: (-abs(term[1]), sort_key(term[0])))
    return listed


def sort_key(e: Expr) -> str:
    return e.name if isinstance(e, Var) else print_expr(e)


def linear_form(e: Expr) -> Linear:
    """``e`` with its sums, differences and constant multiples collected; everything else is an atom."""
    terms: dict[Expr, int] = {}
    constant = _collect(e, 1, terms)
    return Linear(terms, constant)


def _collect(e: Expr, factor: int, terms: dict[Expr, int]) -> int:
    """Adds ``factor`` times the sum that ``e`` is to ``terms``, in place; gives what that adds to the constant."""
    if isinstance(e, Const):
        return factor * int(e.value)
    if isinstance(e, Binary):
        if e.op == "+" or e.op == "-":
            constant = _collect(e.left, factor, terms)
            return constant + _collect(e.right, factor if e.op == "+" else -factor, terms)
        if e.op == "*":
            for side, other in ((e.right, e.left), (e.left, e.right)):
                times = _number(side)
                if times is not None:
                    return _collect(other, factor * times, terms) if times else 0
    elif isinstance(e, Unary) and e.op == "-":
        return _collect(e.operand, -factor, terms)
    total = terms.get(e, 0) + factor
    if total:
        terms[e] = total
    else:
        del terms[e]
    return 0


def _number(e: Expr) -> int | None:
    """The number that ``e`` always is, where its variables cancel."""
    if isinstance(e, (Const, Var)):
        return int(e.value) if isinstance(e, Const) else None
    linear = linear_form(e)
    return None if linear.terms else linear.constant
