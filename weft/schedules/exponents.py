"""How what is summed grows with an extremum: ``exp(x - m) * v`` becomes ``exp(m - n)`` times itself as m becomes n.

That is the homomorphism that rescaling rests on: ``exp(x - n) = exp(x - m) * exp(m - n)``.
"""

from __future__ import annotations

import math

from weft.ir.expr import Binary, Call, Cast, Const, Expr, Load, Select, Unary
from weft.ir.visit import loads

#: Functions that turn sums into products, and the rates at which they do.
RATES = {"exp": 1.0, "exp2": math.log(2.0)}


def growth(e: Expr, extremum: Load, bounded: Expr, sign: int) -> float | None:
    """The ``r`` for which ``e`` is ``exp(r * extremum)`` times something without it; None where there is none.

    No exponent may be more than a constant: it is made of ``bounded - extremum`` alone, times the ``sign`` of how
    ``bounded`` lies beyond the extremum (1 for a maximum).
    """
    if extremum not in loads(e):
        return 0.0
    if isinstance(e, Call) and e.name in RATES:
        rate = _linear(e.args[0], extremum, bounded)
        return None if rate is None or rate * sign > 0 else rate * RATES[e.name]
    if isinstance(e, (Unary, Cast)) and e.dtype.is_float:
        return growth(e.operand, extremum, bounded, sign)
    if isinstance(e, Select) and extremum not in loads(e.condition):
        # Not so where one side is 0: a sum of nothing else is 0, though the extremum may be infinite.
        return _same([growth(part, extremum, bounded, sign) for part in (e.then, e.otherwise)])
    if isinstance(e, Binary) and e.op in ("+", "-", "*", "/"):
        both = [growth(part, extremum, bounded, sign) for part in (e.left, e.right)]
        if e.op in ("+", "-"):
            return _same(both)
        left, right = both
        return None if left is None or right is None or (e.op == "/" and right) else left + right
    return None


def _same(rates: list[float | None]) -> float | None:
    return rates[0] if len(set(rates)) == 1 else None


def _linear(e: Expr, extremum: Load, bounded: Expr) -> float | None:
    """The factor of ``extremum`` in ``e``, which has ``bounded`` as often with the other sign, and nothing else."""
    terms = _terms(e, (extremum, bounded))
    if terms is None:
        return None
    down, up = terms.get(extremum, 0.0), terms.get(bounded, 0.0)
    return down if down == -up else None


def _terms(e: Expr, atoms: tuple[Expr, ...]) -> dict[Expr, float] | None:
    """``e`` as a sum of ``atoms`` with factors, and constants; None where it is something else."""
    if e in atoms:
        return {e: 1.0}
    if isinstance(e, Const):
        return {}
    if isinstance(e, Unary) and e.op == "-":
        return _scaled(_terms(e.operand, atoms), -1.0)
    if isinstance(e, Cast) and e.dtype.is_float:
        return _terms(e.operand, atoms)
    if not isinstance(e, Binary):
        return None
    if e.op in ("+", "-"):
        left, right = _terms(e.left, atoms), _scaled(_terms(e.right, atoms), 1.0 if e.op == "+" else -1.0)
        if left is None or right is None:
            return None
        return {atom: left.get(atom, 0.0) + right.get(atom, 0.0) for atom in (*left, *right)}
    if e.op in ("*", "/") and isinstance(e.right, Const) and e.right.value:
        by = float(e.right.value)
        return _scaled(_terms(e.left, atoms), by if e.op == "*" else 1.0 / by)
    if e.op == "*" and isinstance(e.left, Const):
        return _scaled(_terms(e.right, atoms), float(e.left.value))
    return None


def _scaled(terms: dict[Expr, float] | None, by: float) -> dict[Expr, float] | None:
    return None if terms is None else {atom: by * factor for atom, factor in terms.items()}
