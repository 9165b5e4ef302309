"""Floor division and remainder of sums by a constant, with the ranges of what is summed.

(8*i + j) // 4 is 2*i + j//4 whatever j is, and 2*i where 0 <= j < 4; (4*i + j) // 8 is i // 2 there.
"""

from __future__ import annotations

import math

from weft.ir import dtype as dt
from weft.ir.affine import Linear, linear_form
from weft.ir.dtype import DType
from weft.ir.expr import Binary, BinaryOp, Const, Expr, const
from weft.ir.interval import Ranges
from weft.ir.span import Span


def divide_linear(op: BinaryOp, n: Linear, by: int, t: DType, ranges: Ranges, span: Span | None) -> Linear | None:
    """``n // by`` or ``n % by`` for ``by`` > 0 as a sum, or None where ``n`` might wrap around its type."""
    quotient, rest = _split(n, by)
    if not (_fits(n, t, ranges) and _fits(rest, t, ranges)):
        return None
    whole = op == "//"
    interval = rest.bounds(ranges)
    if interval.lo is not None and interval.hi is not None and interval.lo // by == interval.hi // by:
        steps = interval.lo // by
        if whole:
            quotient.constant += steps
            return quotient
        rest.constant -= steps * by
        return rest
    common = math.gcd(by, *rest.terms.values())
    if common > 1:
        left_over = rest.constant % common
        smaller = Linear({a: c // common for a, c in rest.terms.items()}, rest.constant // common)
        inner = divide_linear(op, smaller, by // common, t, ranges, span)
        if inner is None:
            return None
        return quotient.add(inner) if whole else Linear({}, left_over).add(inner, common)
    parts = _high_and_low(rest, by, ranges)
    if parts is not None:
        high, low, unit = parts
        inner = divide_linear(op, high, by // unit, t, ranges, span)
        if inner is not None:
            return quotient.add(inner) if whole else low.add(inner, unit)
    flatter = _flatten_quotient(rest, by) if whole else _flatten_remainder(rest, by)
    if flatter is not None and flatter[1] <= t.max_value:
        inner = divide_linear(op, *flatter, t, ranges, span)
        if inner is not None:
            return quotient.add(inner) if whole else inner
    left = rest.expr(t, span)
    atom: Expr = Binary(op, left, const(by, t), span=span)
    return quotient.add(Linear({atom: 1})) if whole else Linear({atom: 1})


def _split(n: Linear, by: int) -> tuple[Linear, Linear]:
    """``n`` as ``by * quotient + rest``."""
    quotient, rest = Linear({}, n.constant // by), Linear({}, n.constant % by)
    for atom, factor in n.terms.items():
        if factor % by == 0:
            quotient.terms[atom] = factor // by
        else:
            rest.terms[atom] = factor
    return quotient, rest


def _high_and_low(n: Linear, by: int, ranges: Ranges) -> tuple[Linear, Linear, int] | None:
    """``n`` as ``unit * high + low`` where ``unit`` divides ``by`` and ``low`` is at least 0 and less."""
    for unit in sorted({math.gcd(by, factor) for factor in n.terms.values()} - {1, by}, reverse=True):
        high, low = Linear({}), Linear({}, n.constant)
        for atom, factor in n.terms.items():
            (low if factor % unit else high).terms[atom] = factor if factor % unit else factor // unit
        if low.terms and low.bounds(ranges).within(0, unit - 1):
            return high, low, unit
    return None


def _fits(n: Linear, t: DType, ranges: Ranges) -> bool:
    return t == dt.index or n.bounds(ranges).within(t.min_value, t.max_value)


def _by_constant(atom: Expr, op: str) -> tuple[Expr, int] | None:
    """The two sides of ``x op c`` where c is a positive constant."""
    if isinstance(atom, Binary) and atom.op == op and isinstance(atom.right, Const) and atom.right.value > 0:
        return atom.left, int(atom.right.value)
    return None


def _flatten_quotient(rest: Linear, by: int) -> tuple[Linear, int] | None:
    """(x // d + k) // c is (x + k*d) // (d*c)."""
    if len(rest.terms) != 1:
        return None
    ((atom, factor),) = rest.terms.items()
    inner = _by_constant(atom, "//") if factor == 1 else None
    if inner is None:
        return None
    x, d = inner
    return linear_form(x).add(Linear({}, rest.constant * d)), d * by


def _flatten_remainder(rest: Linear, by: int) -> tuple[Linear, int] | None:
    """k * (x % d) is k * x modulo c where c divides d."""
    flat, changed = Linear({}, rest.constant), False
    for atom, factor in rest.terms.items():
        inner = _by_constant(atom, "%")
        if inner is not None and inner[1] % by == 0:
            flat.add(linear_form(inner[0]), factor)
            changed = True
        else:
            flat.add(Linear({atom: factor}))
    return (flat, by) if changed else None


def merge_quotients(n: Linear) -> Linear:
    """k*c * (x // c) + k * (x % c) is k * x; and k*c * (x // c % d) + k * (x % c) is k * (x % (c*d))."""
    for atom, factor in list(n.terms.items()):
        remainder = _by_constant(atom, "%")
        if remainder is None or atom not in n.terms:
            continue
        merged = _merged_quotient(atom, *remainder, n, factor)
        if merged is not None:
            return merge_quotients(merged)
    return n


def _merged_quotient(low: Expr, x: Expr, c: int, n: Linear, factor: int) -> Linear | None:
    """``n`` with its ``factor * low``, which is ``x % c``, and the term of the digits above that put together."""
    t, wholes = x.dtype, _quotients(x, c)
    above = [a for a, times in n.terms.items() if times == factor * c]
    high = next((a for a in above if _quotient(a) in wholes), None)
    if high is not None:
        merged = linear_form(x)
    else:
        digits = [(a, d) for a in above if (d := _digit(a, wholes))]
        if not digits or c * digits[0][1] > t.max_value:
            return None
        high = digits[0][0]
        merged = Linear({Binary("%", x, const(c * digits[0][1], t)): 1})
    rest = Linear(dict(n.terms), n.constant)
    del rest.terms[high], rest.terms[low]
    return rest.add(merged, factor)


def _digit(atom: Expr, wholes: list[tuple[Linear, int]]) -> int | None:
    """d where ``atom`` is ``whole % d`` of one of these quotients."""
    found = _by_constant(atom, "%")
    return found[1] if found is not None and _quotient(found[0]) in wholes else None


def _quotient(atom: Expr) -> tuple[Linear, int] | None:
    found = _by_constant(atom, "//")
    return None if found is None else (linear_form(found[0]), found[1])


def _quotients(x: Expr, c: int) -> list[tuple[Linear, int]]:
    """x // c, which is also (y + k*d) // (d*c) where x is y // d + k."""
    form = linear_form(x)
    inside = [a for a, times in form.terms.items() if times == 1 and _by_constant(a, "//")]
    found = [(form, c)]
    if len(inside) == 1 and (inner := _by_constant(inside[0], "//")) is not None:
        y, d = inner
        found.append((Linear().add(form, d).add(Linear({inside[0]: -d})).add(linear_form(y)), d * c))
    return found
