"""Functions of real numbers in a normal form: two that have the same form are the same function.

A form is a sum of products of atoms: what is read, and functions of forms, such as ``tanh`` of one. Frameworks write
one function in many ways, ``x * clip(x / 6 + 0.5, 0, 1)`` or ``x * clip(x + 3, 0, 6) / 6``; the rules here, each an
identity of real numbers, lead them to one form. Functions may be equal and have different forms: then nobody knows.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import TypeAlias

from weft.ir.expr import Binary, Call, Cast, Const, Expr, Load, Unary

#: A name, and the forms it is a function of; none where it is what is read.
Atom: TypeAlias = "tuple[str, tuple[Form, ...]]"
Monomial: TypeAlias = "tuple[Atom, ...]"
#: Coefficients of products of atoms, in a fixed order.
Form: TypeAlias = "tuple[tuple[Monomial, float], ...]"

#: Terms of a form above which no library has such a function.
_MOST_TERMS = 64
#: What numbers in a formula are at most: larger ones may be there for what rounding does with them.
_MOST = 1024.0
#: ``f(-x) == -f(x)``
_ODD = ("tanh", "erf")


class NoForm(Exception):
    """Something that is no function of real numbers, or too long."""


def normal_form(e: Expr, role: Callable[[Load], str]) -> Form:
    """Of ``e``, where loads are called by their ``role``; conversions between floats do not count."""
    known: dict[Expr, Form] = {}

    def read(e: Expr) -> Form:
        if e not in known:
            known[e] = _form(e, read, role)
        return known[e]

    return _rounded(read(e))


def _form(e: Expr, read: Callable[[Expr], Form], role: Callable[[Load], str]) -> Form:
    if not e.dtype.is_float:
        raise NoForm
    if isinstance(e, Const):
        return _number(float(e.value))
    if isinstance(e, Load):
        return _atom(role(e))
    if isinstance(e, Cast):
        return read(e.operand)
    if isinstance(e, Unary) and e.op == "-":
        return _times(read(e.operand), -1.0)
    if isinstance(e, Binary) and e.op in _BINARY:
        return _BINARY[e.op](read(e.left), read(e.right))
    if isinstance(e, Call):
        return _called(e.name, *map(read, e.args))
    raise NoForm


def _number(value: float) -> Form:
    if not abs(value) <= _MOST:
        raise NoForm
    return _collected({(): value})


def _as_number(form: Form) -> float | None:
    if not form:
        return 0.0
    return form[0][1] if len(form) == 1 and not form[0][0] else None


def _atom(name: str, *args: Form) -> Form:
    return ((((name, tuple(map(_rounded, args))),), 1.0),)


def _rounded(form: Form) -> Form:
    """With coefficients that are one where they are equal in single precision, but for its rounding."""
    return tuple((m, float(f"{c:.6g}")) for m, c in form)


def _collected(terms: dict[Monomial, float]) -> Form:
    if len(terms) > _MOST_TERMS:
        raise NoForm
    return tuple(sorted(((m, c) for m, c in terms.items() if c), key=repr))


def _plus(a: Form, b: Form) -> Form:
    terms = dict(a)
    for m, c in b:
        terms[m] = terms.get(m, 0.0) + c
    return _collected(terms)


def _times(a: Form, number: float) -> Form:
    return tuple((m, c * number) for m, c in a)


def _product(a: Form, b: Form) -> Form:
    if len(a) * len(b) > _MOST_TERMS:
        raise NoForm
    terms: dict[Monomial, float] = {}
    for (m, c), (n, d) in product(a, b):
        both = tuple(sorted((*m, *n), key=repr))
        terms[both] = terms.get(both, 0.0) + c * d
    return _collected(terms)


def _quotient(a: Form, b: Form) -> Form:
    by = _as_number(b)
    if by == 0.0:
        raise NoForm
    return _product(a, _inverse(b)) if by is None else _times(a, 1 / by)


def _inverse(form: Form) -> Form:
    """``1 / form``; ``1 / (1 + exp(-x))`` has a name."""
    terms = dict(_rounded(form))
    scale = terms.pop((), 0.0)
    if len(terms) == 1 and scale:
        [(monomial, c)] = terms.items()
        if len(monomial) == 1 and monomial[0][0] == "exp" and c == scale:
            return _times(_called("sigmoid", _times(monomial[0][1][0], -1.0)), 1 / scale)
    return _atom("inverse", form)


def _called(name: str, *args: Form) -> Form:
    if name == "pow" and (exponent := _as_number(args[1])) in (2.0, 3.0):
        square = _product(args[0], args[0])
        return square if exponent == 2.0 else _product(square, args[0])
    if name in _ODD and args[0] and args[0][0][1] < 0:
        return _times(_atom(name, _times(args[0], -1.0)), -1.0)
    return _atom(name, *args)


def _extreme(name: str, a: Form, b: Form) -> Form:
    """The least or the greatest, without a common factor; a lower limit is inside of an upper one."""
    x, y = sorted((a, b), key=lambda form: _as_number(form) is not None)
    limit = _as_number(y)
    if _as_number(x) is not None:
        raise NoForm  # of two numbers: nobody writes that
    scale = abs(next(c for m, c in x if m))
    x, y = _times(x, 1 / scale), _times(y, 1 / scale)
    if name == "max" and limit is not None and (upper := _upper_limit(x)) is not None:
        inner, most = upper
        if limit / scale <= most:
            return _times(_extreme("min", _extreme("max", inner, y), _number(most)), scale)
    return _times(_atom(name, *sorted(map(_rounded, (x, y)), key=repr)), scale)


def _upper_limit(form: Form) -> tuple[Form, float] | None:
    """What is inside of ``min(inside, number)``, and the number."""
    [(monomial, c), *rest] = form
    if rest or c != 1.0 or len(monomial) != 1 or monomial[0][0] != "min":
        return None
    x, y = sorted(monomial[0][1], key=lambda form: _as_number(form) is not None)
    most = _as_number(y)
    return None if most is None else (x, most)


_BINARY: dict[str, Callable[[Form, Form], Form]] = {
    "+": _plus,
    "-": lambda a, b: _plus(a, _times(b, -1.0)),
    "*": _product,
    "/": _quotient,
    "min": lambda a, b: _extreme("min", a, b),
    "max": lambda a, b: _extreme("max", a, b),
}
