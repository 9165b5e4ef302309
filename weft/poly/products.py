"""Products of variables in subscripts: ``A[i*N + j]``, and what fusing loops of symbolic length leaves behind.

A product counts as a variable of its own. Two facts make most of them go away: a factor that an equation
determines takes the product with it, and ``i*N + j = i'*N + j'`` means ``i = i'`` and ``j = j'`` where the
difference of the ``j`` stays below ``N``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from weft.ir.solve import Elimination, Form, Point, combine


class Products:
    """The products that occur in one question, by name."""

    def __init__(self) -> None:
        self.factors: dict[str, tuple[str, ...]] = {}

    def name(self, factors: Iterable[str]) -> str:
        names = tuple(sorted(factors))
        if len(names) < 2:
            return names[0] if names else ""
        name = "*".join(names)
        self.factors[name] = names
        return name

    def occur_in(self, form: Form) -> bool:
        return any(n in self.factors for n in form)

    def multiply(self, left: Form, right: Form) -> Form:
        total: Form = {}
        for a, c in left.items():
            for b, d in right.items():
                names = (*self.parts(a), *self.parts(b))
                total = combine(total, {self.name(names): c * d})
        return total

    def parts(self, name: str) -> tuple[str, ...]:
        return self.factors.get(name, (name,)) if name else ()

    def rewrite(self, form: Form, elimination: Elimination) -> Form:
        """``form`` with what is known of the factors put into its products."""
        if not self.occur_in(form):
            return form
        total: Form = {}
        for name, c in form.items():
            part: Form = {"": 1} if name in self.factors else {name: 1}
            for factor in self.factors.get(name, ()):
                part = self.multiply(part, elimination.reduce({factor: 1}))
            total = combine(total, part, c)
        return total

    def separate(self, form: Form, is_below: Callable[[Form, str], bool]) -> list[Form]:
        """Equations that ``form = 0`` means; ``is_below(rest, size)`` tells whether ``|rest| < size``."""
        for size in dict.fromkeys(f for n in form for f in self.factors.get(n, ())):
            inside, rest = self.divide(form, size)
            if rest and inside and is_below(rest, size):
                return [*self.separate(inside, is_below), *self.separate(rest, is_below)]
            if inside and not rest and is_below({}, size):
                return self.separate(inside, is_below)
        return [form]

    def divide(self, form: Form, size: str) -> tuple[Form, Form]:
        """``inside`` and ``rest`` with ``form = size * inside + rest``."""
        inside: Form = {}
        rest: Form = {}
        for name, c in form.items():
            factors = list(self.parts(name))
            if size in factors:
                factors.remove(size)
                inside = combine(inside, {self.name(factors): c})
            else:
                rest[name] = c
        return inside, rest

    def fill(self, point: Point) -> None:
        """Gives the products in ``point`` the values that their factors say."""
        for name, factors in self.factors.items():
            point[name] = math.prod(point.get(factor, 0) for factor in factors)
