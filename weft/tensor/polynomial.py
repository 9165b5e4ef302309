"""Integer expressions in one normal form: sums of products of atoms, so that equal sizes compare equal.

An atom is a variable or an expression the form cannot open: ``N // 2``, ``min(M, N)``, a cast
parameter, a gather. ``Polynomial.of(expr)`` reads an int64 expression; ``.expr()`` writes the one
expression that stands for all equal to it, and reading that back gives the same polynomial.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import gcd
from typing import Any, TypeAlias

from weft.ir import dtype as dt
from weft.ir.errors import LanguageError
from weft.ir.expr import Binary, Cast, Const, Expr, Unary, Var, idx
from weft.ir.visit import rebuild, walk

Monomial: TypeAlias = "tuple[Expr, ...]"
#: Products whose expansion would have more nodes than this are atoms.
MOST_NODES = 400


@dataclass(frozen=True, slots=True)
class Polynomial:
    """``terms`` maps a sorted product of atoms to its non-zero coefficient; the empty product is the constant."""

    terms: Mapping[Monomial, int]

    @staticmethod
    def of(value: Expr | int) -> Polynomial:
        return constant(value) if isinstance(value, int) else _read(value)

    @property
    def constant(self) -> int:
        return self.terms.get((), 0)

    @property
    def as_int(self) -> int | None:
        """The value where it has no atoms."""
        if not self.terms:
            return 0
        return self.constant if len(self.terms) == 1 and () in self.terms else None

    def __add__(self, other: Polynomial | int) -> Polynomial:
        return _sum(self, other if isinstance(other, Polynomial) else constant(other), 1)

    def __sub__(self, other: Polynomial | int) -> Polynomial:
        return _sum(self, other if isinstance(other, Polynomial) else constant(other), -1)

    def __neg__(self) -> Polynomial:
        return Polynomial({m: -c for m, c in self.terms.items()})

    def __mul__(self, other: Polynomial | int) -> Polynomial:
        if isinstance(other, int):
            return Polynomial({m: c * other for m, c in self.terms.items()} if other else {})
        result: dict[Monomial, int] = {}
        for m, c in self.terms.items():
            for n, d in other.terms.items():
                product = tuple(sorted((*m, *n), key=atom_key))
                result[product] = result.get(product, 0) + c * d
        return Polynomial({m: c for m, c in result.items() if c})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Polynomial) and self.terms == other.terms

    def __hash__(self) -> int:
        return hash(frozenset(self.terms.items()))

    def atoms(self) -> list[Expr]:
        """The atoms in a stable order."""
        return sorted({a for m in self.terms for a in m}, key=atom_key)

    def coefficient(self, atom: Expr) -> Polynomial | None:
        """What multiplies ``atom``, or None where the polynomial is not linear in it."""
        terms: dict[Monomial, int] = {}
        for m, c in self.terms.items():
            count = m.count(atom)
            if count > 1:
                return None
            if count:
                terms[tuple(a for a in m if a != atom)] = c
        return Polynomial(terms)

    def without(self, atom: Expr) -> Polynomial:
        """The terms that do not mention ``atom``."""
        return Polynomial({m: c for m, c in self.terms.items() if atom not in m})

    def replace(self, atom: Expr, value: Polynomial) -> Polynomial:
        """``value`` put in for ``atom`` where it is a factor (compound atoms are not opened)."""
        result = self.without(atom)
        for m, c in self.terms.items():
            if atom in m:
                part = Polynomial({tuple(a for a in m if a != atom): c})
                for _ in range(m.count(atom)):
                    part = part * value
                result = result + part
        return result

    def expr(self) -> Expr:
        """The expression that stands for this polynomial: ``M + 2 * N - K + 1``."""
        rest = sorted(((m, c) for m, c in self.terms.items() if m), key=lambda t: (t[1] < 0, monomial_key(t[0])))
        result: Expr | None = None
        if not rest or rest[0][1] < 0:
            result = _literal(self.constant)
        for m, c in rest:
            term = _product(m, abs(c))
            result = term if result is None else Binary("-" if c < 0 else "+", result, term)
        assert result is not None
        if rest and rest[0][1] > 0 and self.constant:
            result = Binary("-" if self.constant < 0 else "+", result, _literal(abs(self.constant)))
        return result


def constant(value: int) -> Polynomial:
    return Polynomial({(): value} if value else {})


def atom(expr: Expr) -> Polynomial:
    return Polynomial({(expr,): 1})


@lru_cache(maxsize=4096)
def atom_key(expr: Expr) -> tuple[int, str]:
    """Variables before compound atoms, each by its text."""
    if isinstance(expr, Var):
        return (0, expr.name)
    if isinstance(expr, Cast) and isinstance(expr.operand, Var):
        return (0, expr.operand.name)
    return (1, repr(expr))


def monomial_key(monomial: Monomial) -> tuple[tuple[int, str], ...]:
    return tuple(atom_key(a) for a in monomial)


def canonical(expr: Expr) -> Expr:
    """The one expression for everything equal to ``expr`` in this form."""
    return Polynomial.of(expr).expr()


def minimum(a: Polynomial, b: Polynomial, at_most: Callable[[Polynomial, Polynomial], bool]) -> Polynomial:
    """The lesser, as a ``min`` atom where ``at_most`` (a proof of ``<=``) settles neither order."""
    return a if at_most(a, b) else b if at_most(b, a) else extreme("min", a, b)


def maximum(a: Polynomial, b: Polynomial, at_most: Callable[[Polynomial, Polynomial], bool]) -> Polynomial:
    return b if at_most(a, b) else a if at_most(b, a) else extreme("max", a, b)


def floor_div(n: Polynomial, d: Polynomial) -> Polynomial:
    """``n // d`` with the terms that divide evenly taken out."""
    by = d.as_int
    if by is None:
        return _floor_div_atom(n, d)
    if by == 0:
        return constant(0)
    if by < 0:
        return floor_div(-n, constant(-by))
    whole = {m: c // by for m, c in n.terms.items() if c % by == 0 or not m}
    rest = Polynomial({m: c for m, c in n.terms.items() if m and c % by}) + n.constant % by
    quotient = Polynomial({m: c for m, c in whole.items() if c})
    if rest.as_int is not None:
        return quotient
    common = gcd(by, *(c for m, c in rest.terms.items() if m))
    if common > 1:
        # (2a + r) // 2b == (a + r // 2) // b
        rest = Polynomial({m: c // common for m, c in rest.terms.items() if c // common})
    return quotient + _floor_div_atom(rest, constant(by // common))


def _floor_div_atom(n: Polynomial, d: Polynomial) -> Polynomial:
    return atom(Binary("//", n.expr(), d.expr()))


def modulo(n: Polynomial, d: Polynomial) -> Polynomial:
    """``n % d`` (rounding down), without multiples of a constant ``d``."""
    by = d.as_int
    if by is None:
        return atom(Binary("%", n.expr(), d.expr()))
    if by <= 0:
        return constant(0) if by == 0 else atom(Binary("%", n.expr(), d.expr()))
    rest = Polynomial({m: c % by for m, c in n.terms.items() if c % by})
    value = rest.as_int
    return constant(value) if value is not None else atom(Binary("%", rest.expr(), d.expr()))


def extreme(op: str, a: Polynomial, b: Polynomial) -> Polynomial:
    """``min`` or ``max`` of both, flattened, sorted and without parts that another part settles."""
    parts: list[Polynomial] = []
    for p in (*_parts(op, a), *_parts(op, b)):
        if not any(_settles(op, q, p) for q in parts):
            parts = [*(q for q in parts if not _settles(op, p, q)), p]
    exprs = sorted((p.expr() for p in parts), key=repr)
    result = exprs[0]
    for e in exprs[1:]:
        result = Binary("min" if op == "min" else "max", result, e)
    return parts[0] if len(parts) == 1 else atom(result)


def _settles(op: str, p: Polynomial, q: Polynomial) -> bool:
    """Whether ``p`` is at most ``q`` (for ``max``, at least), by a constant or by how they are put together."""
    return is_at_most(p, q, _is_less_by_constant) if op == "min" else is_at_most(q, p, _is_less_by_constant)


def _is_less_by_constant(a: Polynomial, b: Polynomial) -> bool:
    by = (b - a).as_int
    return by is not None and by >= 0


def is_at_most(a: Polynomial, b: Polynomial, base: Callable[[Polynomial, Polynomial], bool]) -> bool:
    """Whether ``a <= b`` follows from what ``base`` knows of the operands of ``min`` and ``max`` in them."""
    lows, highs = (_parts("max", a), _parts("min", b))
    if len(lows) > 1 or len(highs) > 1:
        return all(is_at_most(low, high, base) for low in lows for high in highs)
    if base(a, b) or any(is_at_most(p, b, base) for p in _parts("min", a) if p != a):
        return True
    return any(is_at_most(a, p, base) for p in _parts("max", b) if p != b)


def _parts(op: str, p: Polynomial) -> list[Polynomial]:
    """The operands where ``p`` is itself a ``min``/``max`` plus a constant (``min(a, b) + 1`` has two parts)."""
    body = [(m, c) for m, c in p.terms.items() if m]
    if len(body) == 1 and body[0][1] == 1 and len(body[0][0]) == 1:
        inner = body[0][0][0]
        if isinstance(inner, Binary) and inner.op == op:
            sides = (*_parts(op, Polynomial.of(inner.left)), *_parts(op, Polynomial.of(inner.right)))
            return [s + p.constant for s in sides]
    return [p]


def _sum(a: Polynomial, b: Polynomial, sign: int) -> Polynomial:
    result = dict(a.terms)
    for m, c in b.terms.items():
        total = result.get(m, 0) + sign * c
        if total:
            result[m] = total
        else:
            result.pop(m, None)
    return Polynomial(result)


def _weight(p: Polynomial) -> int:
    return sum(1 if isinstance(a, Var) else sum(1 for _ in walk(a)) for m in p.terms for a in m)


def _product(monomial: Monomial, coefficient: int) -> Expr:
    result: Expr | None = _literal(coefficient) if coefficient != 1 else None
    for a in monomial:
        result = a if result is None else Binary("*", result, a)
    assert result is not None
    return result


@lru_cache(maxsize=4096)
def _read(expr: Expr) -> Polynomial:
    match expr:
        case Const(value=value):
            return constant(int(value))
        case Unary(op="-", operand=operand):
            return -_read(operand)
        case Binary(op="+", left=left, right=right):
            return _read(left) + _read(right)
        case Binary(op="-", left=left, right=right):
            return _read(left) - _read(right)
        case Binary(op="*", left=left, right=right):
            a, b = _read(left), _read(right)
            # Multiplied out, (a+b+c)*(a+b+c)*... grows without end; past this it stays a product.
            grown = _weight(a) * len(b.terms) + _weight(b) * len(a.terms)
            return a * b if grown <= MOST_NODES else atom(expr)
        case Binary(op="//", left=left, right=right):
            return floor_div(_read(left), _read(right))
        case Binary(op="%", left=left, right=right):
            return modulo(_read(left), _read(right))
        case Binary(op="tdiv" | "tmod", left=left, right=right):
            return _read_truncating(expr, _read(left), _read(right))
        case Binary(op="min" | "max" as op, left=left, right=right):
            return extreme(op, _read(left), _read(right))
        case Cast(type=type_, operand=Const(value=value)) if type_ == dt.index:
            return constant(int(value))
    # Subscripts below an atom are put in the form too: A(I(1 + i)) is A(I(i + 1)).
    opened = rebuild(expr, lambda e: canonical(e) if isinstance(e, Expr) and e.dtype == dt.index else e)
    return atom(_without_spans(opened))


def _without_spans(expr: Expr) -> Expr:
    """Equal expressions share one reading, so none may say where it was written: that may be another program."""
    made: Any = rebuild(expr, lambda e: _without_spans(e) if isinstance(e, Expr) else e)
    plain: Expr = made if made.span is None else dataclasses.replace(made, span=None)
    return plain


def _read_truncating(expr: Binary, n: Polynomial, d: Polynomial) -> Polynomial:
    """C's division, done where both sides are constants."""
    a, b = n.as_int, d.as_int
    if b == 0:
        return constant(0)
    if a is not None and b is not None:
        quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
        return constant(quotient if expr.op == "tdiv" else a - quotient * b)
    return atom(Binary(expr.op, n.expr(), d.expr()))


def _literal(value: int) -> Expr:
    if not dt.index.min_value <= value <= dt.index.max_value:
        raise LanguageError(
            "a subscript, range or size does not fit 64 bits",
            why="positions are counted in int64",
            help="use smaller numbers",
        )
    return idx(value)
