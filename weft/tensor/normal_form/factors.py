"""Products as a number, what is multiplied and what is divided by; sums as terms with coefficients.

Under ``numerics="fast"`` only: numbers are multiplied in float64 and rounded once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import NamedTuple

from weft.ir.dtype import DType
from weft.ir.expr import Binary, Call, Const, Expr, Unary, const
from weft.ir.visit import Node, rewrite, walk

#: Numbers beyond these are not multiplied with each other: where float32 overflows, or does not, must stay.
LEAST, MOST = 1e-30, 1e30
_INVERSE = {"sqrt": "rsqrt", "rsqrt": "sqrt"}
Term = tuple[float, "Expr | None"]


class Factors(NamedTuple):
    number: float
    above: tuple[Expr, ...]
    below: tuple[Expr, ...] = ()

    def times(self, other: Factors) -> Factors | None:
        """The product, unless its number would leave the range of float32."""
        number = self.number * other.number
        if 1 not in (self.number, other.number) and not LEAST < abs(number) < MOST:
            return None
        return Factors(number, self.above + other.above, self.below + other.below)

    def inverse(self) -> Factors:
        """One divided by it; dividing by a root is multiplying by its inverse."""
        roots = [e for e in self.above if isinstance(e, Call) and e.name in _INVERSE]
        opened = [Call(_INVERSE[e.name], e.args, e.type, span=e.span) for e in roots]
        return Factors(1 / self.number, (*self.below, *opened), tuple(e for e in self.above if e not in roots))

    def expr(self, t: DType) -> Expr:
        product = _product(self.above)
        e = const(self.number, t) if product is None else product
        if product is not None and self.number != 1:
            e = Unary("-", e) if self.number == -1 else Binary("*", e, const(self.number, t))
        divisor = _product(self.below)
        return e if divisor is None else Binary("/", e, divisor)


def _product(factors: Sequence[Expr]) -> Expr | None:
    return reduce(lambda a, b: Binary("*", a, b), factors) if factors else None


def is_number(e: Expr) -> bool:
    return isinstance(e, Const) and e.dtype.is_float and LEAST < abs(e.value) < MOST


def factors_of(e: Expr, look: Callable[[Expr], Expr | None] = lambda e: None) -> Factors:
    """``e`` as a product; ``look`` may know what stands behind a factor."""
    seen = look(e)
    if seen is not None:
        return factors_of(seen, look)
    alone = Factors(1.0, (e,))
    if not e.dtype.is_float:
        return alone
    match e:
        case Const(value=value) if is_number(e):
            return Factors(float(value), ())
        case Unary(op="-", operand=x):
            return factors_of(x, look).times(Factors(-1.0, ())) or alone
        case Binary(op="*", left=left, right=right):
            return factors_of(left, look).times(factors_of(right, look)) or alone
        case Binary(op="/", left=left, right=right):
            return factors_of(left, look).times(factors_of(right, look).inverse()) or alone
    return alone


def terms_of(e: Expr, c: float = 1.0, look: Callable[[Expr], Expr | None] = lambda e: None) -> list[Term]:
    """A sum as coefficients and what they are of; None stands for one."""
    seen = look(e)
    if seen is not None:
        return terms_of(seen, c, look)
    match e:
        case Const(value=value) if is_number(e):
            return [(c * value, None)]
        case Unary(op="-", operand=x):
            return terms_of(x, -c, look)
        case Binary(op="+" | "-" as op, left=left, right=right):
            return terms_of(left, c, look) + terms_of(right, c if op == "+" else -c, look)
        case Binary(op="*" | "/"):
            found = factors_of(e)
            if len(found.above) == 1 and not found.below and _is_sum(found.above[0], look):
                return terms_of(found.above[0], c * found.number, look)
            rest = found._replace(number=1.0)
            return [(c * found.number, rest.expr(e.dtype) if rest.above or rest.below else None)]
    return [(c, e)]


def _is_sum(e: Expr, look: Callable[[Expr], Expr | None]) -> bool:
    seen = look(e)
    e = e if seen is None else seen
    return isinstance(e, Binary) and e.op in ("+", "-") and e.dtype.is_float


def sum_of(terms: Sequence[Term], t: DType) -> Expr:
    """What is added before what is taken away, the number last; a factor of all of them outside. x - x stays."""
    order = sorted(terms, key=lambda term: (term[1] is None, term[0] < 0))
    sizes = {abs(c) for c, _ in order}
    shared = len(sizes) == 1 and len(order) > 1 and order[-1][1] is not None
    common = max(sizes) if shared else 1.0
    if order[-1][1] is not None and order[0][0] < 0:
        common = -common
    e: Expr | None = None
    for c, a in order:
        factor = c / common
        term = const(abs(factor), t) if a is None else scaled(a, abs(factor))
        if e is None:
            e = Unary("-", term) if factor < 0 else term
        else:
            e = Binary("-" if factor < 0 else "+", e, term)
    assert e is not None
    return scaled(e, common)


def fold_numbers(value: Expr) -> Expr:
    """Numbers in one product as one: ``x * 2.0 * (y * 0.5)`` is ``x * y``."""
    numbers = [n for n in walk(value) if isinstance(n, Const) and n.dtype.is_float]
    if len(numbers) < 2:
        return value

    def step(e: Node) -> Expr | None:
        if not isinstance(e, Binary) or e.op not in ("*", "/") or not e.dtype.is_float:
            return None
        several = factors_of(e.left).number != 1 and factors_of(e.right).number != 1
        return factors_of(e).expr(e.dtype) if several else None

    return rewrite(value, step)


def scaled(e: Expr, number: float) -> Expr:
    if number == 1:
        return e
    found = factors_of(e).times(Factors(number, ()))
    return Binary("*", e, const(number, e.dtype)) if found is None else found.expr(e.dtype)
