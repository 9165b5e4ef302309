"""Arguments of opaque functions, taken apart where tests of outer indices decide what they are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from weft.algebra.linear import (
    Linear,
    Literal,
    UndecidedError,
    add,
    as_constant,
    names_of,
    negate,
    scale,
    variable,
)
from weft.algebra.terms import Quotient, Sum, Term
from weft.ir.solve import solve

MOST_CELLS = 256


def cells(args: Sequence[Sum]) -> Iterator[tuple[tuple[Literal, ...], tuple[Quotient, ...], tuple[Sum, ...]]]:
    """Where (cells do not meet), the quotients of outer indices, and the arguments there, without tests."""
    quotients: dict[tuple[Linear, int], Quotient] = {}
    lifted = tuple(tuple(_lift(t, quotients) for t in a) for a in args)
    waiting: list[tuple[tuple[Literal, ...], tuple[Sum, ...]]] = [((), lifted)]
    told = 0
    while waiting:
        where, now = waiting.pop()
        told += 1
        if told > MOST_CELLS:
            raise UndecidedError("the argument of a function has too many cases")
        now = tuple(tuple(u for t in a if (u := _settled(t, where)) is not None) for a in now)
        test = next((w for a in now for t in a for w in t.where if _is_outer(w, t)), None)
        if test is None:
            yield where, tuple(quotients.values()), now
            continue
        for literal in (*negate(test), test):
            if _possible(further := (*where, literal)):
                waiting.append((further, now))


def _lift(term: Term, known: dict[tuple[Linear, int], Quotient]) -> Term:
    """The term with quotients of outer indices taken out of it, each once."""
    while True:
        inner = {*term.bound, *(q.name for q in term.quotients)}
        outer = next((q for q in term.quotients if not names_of([q.form]) & inner), None)
        if outer is None:
            return term
        shared = known.setdefault((outer.form, outer.by), outer)
        rest = tuple(q for q in term.quotients if q is not outer)
        term = replace(term, quotients=rest).put({outer.name: variable(shared.name)})


def _is_outer(literal: Literal, term: Term) -> bool:
    return names_of([literal[0]]).isdisjoint({*term.bound, *(q.name for q in term.quotients)})


def _settled(term: Term, where: tuple[Literal, ...]) -> Term | None:
    """The term without literals that ``where`` implies; None where it contradicts one."""
    kept = []
    for literal in term.where:
        answer = _decide(literal, where)
        if answer is False:
            return None
        if answer is None:
            kept.append(literal)
    return term if len(kept) == len(term.where) else replace(term, where=tuple(kept))


def _decide(literal: Literal, where: tuple[Literal, ...]) -> bool | None:
    form, is_equation = literal
    value = as_constant(form)
    if value is not None:
        return value == 0 if is_equation else value >= 0
    for other, other_equation in where:
        if other_equation:
            if form in (other, scale(other, -1)):
                return True
            apart = as_constant(add(form, other, -1)), as_constant(add(form, other))
            for rest in apart:
                if rest is not None:
                    return rest == 0 if is_equation else rest >= 0
            continue
        rest = as_constant(add(form, other, -1))
        if rest is not None and (rest > 0 if is_equation else rest >= 0):
            return not is_equation
        rest = as_constant(add(form, other))
        if rest is not None and rest < 0:
            return False
    return None


def _possible(where: tuple[Literal, ...]) -> bool:
    if len(where) < 2:
        return True
    equations = [dict(f) for f, e in where if e]
    return solve(equations, [dict(f) for f, e in where if not e]) is not None
