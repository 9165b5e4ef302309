"""Integer linear forms that can be keys: sorted pairs of a name and its coefficient, the name ``""`` for the constant.

The first character of a name says what it is: ``$`` an output index, ``#`` a subscript of a product's reads, ``%`` an
index that is summed over or a quotient, ``?`` a slot of an opaque function; anything else is a size.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import TypeAlias

Linear: TypeAlias = tuple[tuple[str, int], ...]
#: A form and whether it is an equation (``form = 0``) or an inequality (``form >= 0``).
Literal: TypeAlias = tuple[Linear, bool]

_numbers = itertools.count()


class UndecidedError(Exception):
    """Equality is not decided; the text says why."""


def fresh() -> str:
    return f"%{next(_numbers)}"


def is_size(name: str) -> bool:
    return bool(name) and name[0] not in "$#%?~"


def linear(terms: Mapping[str, int]) -> Linear:
    return tuple(sorted((n, c) for n, c in terms.items() if c))


def constant(value: int) -> Linear:
    return (("", value),) if value else ()


def variable(name: str) -> Linear:
    return ((name, 1),)


def add(a: Linear, b: Linear, times: int = 1) -> Linear:
    total = dict(a)
    for name, c in b:
        total[name] = total.get(name, 0) + c * times
    return linear(total)


def scale(a: Linear, times: int) -> Linear:
    return tuple((n, c * times) for n, c in a) if times else ()


def negate(literal: Literal) -> list[Literal]:
    """The inequalities of which one holds where ``literal`` does not; no two of them hold at once."""
    form, is_equation = literal
    below = add(scale(form, -1), constant(-1))
    return [(add(form, constant(-1)), False), (below, False)] if is_equation else [(below, False)]


def put(form: Linear, by: Mapping[str, Linear]) -> Linear:
    """``form`` with other forms in the place of names."""
    if not any(n in by for n, _ in form):
        return form
    total: dict[str, int] = {}
    for name, c in form:
        for n, k in by.get(name, ((name, 1),)):
            total[n] = total.get(n, 0) + c * k
    return linear(total)


def coefficient(form: Linear, name: str) -> int:
    return next((c for n, c in form if n == name), 0)


def as_constant(form: Linear) -> int | None:
    """The number that the form is, where it has no variables."""
    if not form:
        return 0
    return form[0][1] if len(form) == 1 and form[0][0] == "" else None


def names_of(forms: Iterable[Linear]) -> set[str]:
    return {n for f in forms for n, _ in f if n}
