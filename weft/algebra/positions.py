"""Index expressions and conditions of tensor programs as linear forms, in cases where they are piecewise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from weft.algebra.linear import (
    Linear,
    Literal,
    UndecidedError,
    add,
    as_constant,
    constant,
    fresh,
    negate,
    scale,
    variable,
)
from weft.algebra.terms import Quotient
from weft.ir.expr import Binary, Cast, Compare, Const, Expr, Load, Select, Unary, Var
from weft.ir.visit import walk
from weft.tensor.text import describe


@dataclass(frozen=True, slots=True)
class Case:
    """What an index expression is where the literals hold; cases of one expression hold one at a time."""

    form: Linear
    where: tuple[Literal, ...] = ()
    quotients: tuple[Quotient, ...] = ()


@dataclass(frozen=True, slots=True)
class Region:
    """Where a condition holds, or does not: one of several parts that do not meet."""

    where: tuple[Literal, ...] = ()
    quotients: tuple[Quotient, ...] = ()


def position(e: Expr, names: Mapping[str, Linear]) -> list[Case]:
    """The cases of an index expression; ``names`` says what its variables stand for."""
    match e:
        case Const(value=value):
            return [Case(constant(int(value)))]
        case Var(name=name):
            return [Case(names.get(name, variable(name)))]
        case Cast(operand=operand) if operand.dtype.is_integer:
            return position(operand, names)
        case Unary(op="-", operand=operand):
            return [Case(scale(c.form, -1), c.where, c.quotients) for c in position(operand, names)]
        case Select(condition=condition, then=then, otherwise=otherwise):
            return [
                Case(c.form, r.where + c.where, r.quotients + c.quotients)
                for holds, branch in ((True, then), (False, otherwise))
                for r in regions(condition, names, holds)
                for c in position(branch, names)
            ]
        case Binary(op=op, left=left, right=right) if op in _ARITHMETIC:
            pairs = [(a, b) for a in position(left, names) for b in position(right, names)]
            return [c for a, b in pairs for c in _combined(op, a, b, e)]
    raise _unknown(e)


_ARITHMETIC = ("+", "-", "*", "//", "%", "min", "max")


def _combined(op: str, a: Case, b: Case, e: Expr) -> list[Case]:
    where, quotients = a.where + b.where, a.quotients + b.quotients
    if op in ("min", "max"):
        less = (add(b.form, a.form, -1), False)
        first, second = (a, b) if op == "min" else (b, a)
        return [Case(first.form, (*where, less), quotients), Case(second.form, (*where, *negate(less)), quotients)]
    if op in ("+", "-"):
        return [Case(add(a.form, b.form, 1 if op == "+" else -1), where, quotients)]
    by, other = as_constant(b.form), as_constant(a.form)
    if op == "*" and (by is not None or other is not None):
        return [Case(scale(a.form, by) if by is not None else scale(b.form, other or 0), where, quotients)]
    if op == "*" or by is None or by <= 0:
        raise _unknown(e)
    if other is not None:
        return [Case(constant(other // by if op == "//" else other % by), where, quotients)]
    q = Quotient(fresh(), a.form, by)
    form = variable(q.name) if op == "//" else add(a.form, variable(q.name), -by)
    return [Case(form, where, (*quotients, q))]


def is_position(e: Expr) -> bool:
    """Whether a condition or number is about indices and sizes alone."""
    return not any(isinstance(n, Load) or (isinstance(n, (Const, Var)) and n.dtype.is_float) for n in walk(e))


def regions(e: Expr, names: Mapping[str, Linear], holds: bool = True) -> list[Region]:
    """Parts of the iteration space that do not meet and are all where the condition has the value ``holds``."""
    match e:
        case Const(value=value):
            return [Region()] if bool(value) == holds else []
        case Unary(op="!", operand=operand):
            return regions(operand, names, not holds)
        case Binary(op="&&" | "||" as op, left=left, right=right):
            both = (op == "&&") == holds
            if both:
                return _meets(regions(left, names, holds), regions(right, names, holds))
            return regions(left, names, holds) + _meets(regions(left, names, not holds), regions(right, names, holds))
        case Compare(op=op, left=left, right=right):
            pairs = [(a, b) for a in position(left, names) for b in position(right, names)]
            return [
                Region(a.where + b.where + (literal,), a.quotients + b.quotients)
                for a, b in pairs
                for literal in _literals(op, add(a.form, b.form, -1), holds)
            ]
    raise _unknown(e)


def _meets(some: list[Region], others: list[Region]) -> list[Region]:
    return [Region(a.where + b.where, a.quotients + b.quotients) for a in some for b in others]


_OPPOSITE = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}


def _literals(op: str, d: Linear, holds: bool) -> list[Literal]:
    """Literals of which exactly one holds where ``d op 0`` is ``holds``."""
    op = op if holds else _OPPOSITE[op]
    minus, one = scale(d, -1), constant(-1)
    table: dict[str, list[Literal]] = {
        "==": [(d, True)],
        "!=": [(add(d, one), False), (add(minus, one), False)],
        "<": [(add(minus, one), False)],
        "<=": [(minus, False)],
        ">": [(add(d, one), False)],
        ">=": [(d, False)],
    }
    return table[op]


def _unknown(e: Expr) -> UndecidedError:
    return UndecidedError(
        f"`{describe(e)}` is not affine in indices and sizes (give sizes= for what it is multiplied by)"
    )
