"""The quotients of a term: those that anything depends on, each once."""

from __future__ import annotations

from weft.algebra.linear import Linear, names_of, put, variable
from weft.algebra.terms import Quotient, Term


def used(term: Term) -> list[Quotient]:
    """The quotients that anything depends on."""
    names = names_of([f for f, _ in term.where]) | names_of(s for r in term.reads for s in r.subscripts)
    used: list[Quotient] = []
    while more := [q for q in term.quotients if q.name in names and q not in used]:
        used += more
        names |= names_of(q.form for q in more)
    return used


def merged(quotients: list[Quotient]) -> tuple[list[Quotient], dict[str, Linear]]:
    """Each quotient once, and what stands for the others."""
    same: dict[str, Linear] = {}
    while True:
        kept: dict[tuple[Linear, int], Quotient] = {}
        before = len(same)
        for q in quotients:
            first = kept.setdefault((put(q.form, same), q.by), Quotient(q.name, put(q.form, same), q.by))
            if first.name != q.name:
                by = {q.name: variable(first.name)}
                same = {n: put(f, by) for n, f in same.items()} | by
        quotients = list(kept.values())
        if len(same) == before:
            return quotients, same
